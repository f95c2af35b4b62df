//! Writing classic pcap: one link type, nanoseconds.

use std::io::{self, BufWriter, Write};

use super::{LinkType, PacketRecord, SNAPLEN};

/// The magic of pcap with nanoseconds.
const MAGIC_NS: u32 = 0xa1b2_3c4d;

/// Writes packets as a classic pcap file, for programs that do not read pcapng. Directions,
/// interfaces and comments are lost.
///
/// ```
/// use roce_pcap::capture::{LinkType, PacketRecord, PcapWriter, Reader};
///
/// let mut writer = PcapWriter::new(Vec::new(), LinkType::ETHERNET)?;
/// writer.write(&PacketRecord::new(1_700_000_000_000_000_001, b"a frame"))?;
/// let file = writer.into_inner()?;
///
/// let mut reader = Reader::new(file.as_slice())?;
/// let packet = reader.next_packet().expect("one packet")?;
/// assert_eq!(packet.data, b"a frame");
/// assert_eq!(packet.timestamp_ns, Some(1_700_000_000_000_000_001));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: BufWriter<W>,
}

impl<W: Write> PcapWriter<W> {
    /// Starts a file of packets that begin with `link`.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(out: W, link: LinkType) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(256 * 1024, out);
        out.write_all(&MAGIC_NS.to_le_bytes())?;
        out.write_all(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
        out.write_all(&SNAPLEN.to_le_bytes())?;
        out.write_all(&u32::from(link.0).to_le_bytes())?;
        Ok(Self { out })
    }

    /// Appends a packet, cut to 262,144 bytes. Seconds beyond 32 bits (the year 2106) are held at
    /// the last.
    ///
    /// # Errors
    /// What the writer says; the file is then unusable from here on.
    #[inline]
    pub fn write(&mut self, packet: &PacketRecord<'_>) -> io::Result<()> {
        let ([first, second], captured, orig_len) = packet.cut();
        let seconds = u32::try_from(packet.timestamp_ns / 1_000_000_000).unwrap_or(u32::MAX);
        let fraction = u32::try_from(packet.timestamp_ns % 1_000_000_000).unwrap_or_default();
        let mut head = [0; 16];
        for (slot, value) in
            head.as_chunks_mut::<4>().0.iter_mut().zip([seconds, fraction, captured, orig_len])
        {
            *slot = value.to_le_bytes();
        }
        self.out.write_all(&head)?;
        self.out.write_all(first)?;
        self.out.write_all(second)
    }

    /// Flushes and gives the writer back.
    ///
    /// # Errors
    /// What the writer says.
    pub fn into_inner(self) -> io::Result<W> {
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}
