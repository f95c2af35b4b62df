//! Reads a capture and counts its packets and bytes: what any tool takes at least.

use roce_pcap::capture::{Batch, Reader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("give a capture")?;
    let mut reader = Reader::open(path)?;
    let mut batch = Batch::new();
    let (mut packets, mut bytes) = (0, 0);
    while reader.fill(&mut batch)? > 0 {
        packets += batch.len();
        bytes += batch.packets().map(|packet| packet.data.len()).sum::<usize>();
    }
    println!("{packets} packets, {bytes} bytes");
    Ok(())
}
