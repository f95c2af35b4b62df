//! Writing pcapng: one section, one Ethernet interface, nanoseconds.

use std::io::{BufWriter, Write};

use super::{Direction, LinkType, size};

/// Writes packets as a pcapng file that Wireshark, tcpdump and [`super::Reader`] read.
///
/// Writes are buffered; call [`PcapngWriter::flush`] before anybody else is to see them. A frame
/// may come in two pieces, as AF_XDP hands out jumbo frames.
///
/// ```
/// use roce_pcap::capture::{Direction, PcapngWriter, Reader};
///
/// let mut writer = PcapngWriter::new(Vec::new())?;
/// writer.write_packet(1_700_000_000_000_000_001, Direction::Inbound, [b"a fra", b"me"])?;
/// let file = writer.into_inner()?;
///
/// let mut reader = Reader::new(file.as_slice())?;
/// let packet = reader.next_packet().expect("one packet")?;
/// assert_eq!(packet.data, b"a frame");
/// assert_eq!(packet.timestamp_ns, Some(1_700_000_000_000_000_001));
/// assert_eq!(packet.direction, Some(Direction::Inbound));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: BufWriter<W>,
}

/// The longest packet that readers of pcap believe.
const SNAPLEN: u32 = 262_144;

impl<W: Write> PcapngWriter<W> {
    /// Starts a file: its section header and an interface without a name.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(out: W) -> std::io::Result<Self> {
        Self::with_interface(out, "")
    }

    /// Starts a file whose interface is called `name` (cut at 65,535 bytes).
    ///
    /// # Errors
    /// What `out` says.
    pub fn with_interface(out: W, name: &str) -> std::io::Result<Self> {
        let mut writer = Self { out: BufWriter::with_capacity(256 * 1024, out) };

        let mut section = Vec::new();
        section.extend(0x1a2b_3c4d_u32.to_le_bytes());
        section.extend([1, 0, 0, 0]);
        section.extend(u64::MAX.to_le_bytes());
        option(&mut section, 4, concat!("roce-pcap ", env!("CARGO_PKG_VERSION")).as_bytes());
        section.extend([0; 4]);
        writer.block(0x0a0d_0d0a, &section)?;

        let mut interface = Vec::new();
        interface.extend(LinkType::ETHERNET.0.to_le_bytes());
        interface.extend([0; 2]);
        interface.extend(SNAPLEN.to_le_bytes());
        if !name.is_empty() {
            option(&mut interface, 2, name.as_bytes());
        }
        option(&mut interface, 9, &[9]);
        interface.extend([0; 4]);
        writer.block(1, &interface)?;
        Ok(writer)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> std::io::Result<()> {
        let len = u32::try_from(body.len() + 12).map_err(std::io::Error::other)?;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len.to_le_bytes())?;
        self.out.write_all(body)?;
        self.out.write_all(&len.to_le_bytes())
    }

    /// Appends a packet: nanoseconds since 1970, the way it went, and its bytes in one or two
    /// pieces. A packet above 262,144 bytes is cut to that length, its full length kept beside.
    ///
    /// # Errors
    /// What the writer says; the file is then unusable from here on.
    pub fn write_packet(
        &mut self,
        timestamp_ns: u64,
        direction: Direction,
        segments: [&[u8]; 2],
    ) -> std::io::Result<()> {
        let [first, second] = segments;
        let snaplen = size(SNAPLEN);
        let orig_len = u32::try_from(first.len().saturating_add(second.len())).unwrap_or(u32::MAX);
        let captured = orig_len.min(SNAPLEN);
        let first = first.get(..snaplen).unwrap_or(first);
        let second = second.get(..snaplen - first.len()).unwrap_or(second);
        let pad = (4 - captured % 4) % 4;
        // Fixed fields, padded data, epb_flags, end of options, framing.
        let len = 20 + captured + pad + 8 + 4 + 12;
        let flags: u32 = match direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };

        let mut head = [0; 28];
        let [t0, t1, t2, t3, t4, t5, t6, t7] = timestamp_ns.to_le_bytes();
        for (slot, value) in head.as_chunks_mut::<4>().0.iter_mut().zip([
            6_u32.to_le_bytes(),
            len.to_le_bytes(),
            [0; 4],
            [t4, t5, t6, t7],
            [t0, t1, t2, t3],
            captured.to_le_bytes(),
            orig_len.to_le_bytes(),
        ]) {
            *slot = value;
        }
        self.out.write_all(&head)?;
        self.out.write_all(first)?;
        self.out.write_all(second)?;
        self.out.write_all([0; 3].get(..size(pad)).unwrap_or_default())?;
        self.out.write_all(&[2, 0, 4, 0])?;
        self.out.write_all(&flags.to_le_bytes())?;
        self.out.write_all(&[0; 4])?;
        self.out.write_all(&len.to_le_bytes())
    }

    /// Hands everything written so far to the file.
    ///
    /// # Errors
    /// What the writer says.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }

    /// Flushes and gives the writer back.
    ///
    /// # Errors
    /// What the writer says.
    pub fn into_inner(self) -> std::io::Result<W> {
        self.out.into_inner().map_err(std::io::IntoInnerError::into_error)
    }
}

/// Appends an option, padded to four bytes.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    out.extend(code.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}
