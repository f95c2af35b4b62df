//! Many packets at a time.

use super::Packet;
use super::reader::Record;

/// Packets that are owned together: one buffer and where each packet lies in it, both used again
/// by the next [`Reader::fill`](super::Reader::fill). It can be sent to another thread while the
/// reader fills a second one.
///
/// ```no_run
/// use roce_pcap::capture::{Batch, Reader};
///
/// let mut reader = Reader::open("trace.pcapng")?;
/// let mut batch = Batch::new();
/// while reader.fill(&mut batch)? > 0 {
///     for packet in batch.packets() {
///         println!("{} {} bytes", packet.number, packet.data.len());
///     }
/// }
/// # Ok::<(), roce_pcap::capture::CaptureError>(())
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    buf: Vec<u8>,
    records: Vec<Record>,
    /// The number of the first packet.
    first: u64,
}

impl Batch {
    /// An empty batch; its buffer comes with the first filling.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many packets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The packets, in the order of the file.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = Packet<'_>> {
        let mut number = self.first;
        self.records.iter().map(move |record| {
            let packet = record.packet(number, &self.buf);
            number += 1;
            packet
        })
    }

    pub(super) fn start(&mut self, first: u64) {
        self.records.clear();
        self.first = first;
    }

    #[inline]
    pub(super) fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    pub(super) fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }
}
