//! Writing pcapng: one section, any number of interfaces, nanoseconds.

use std::io::{self, BufWriter, Write};

use super::super::{Direction, size};
use super::{InterfaceInfo, PacketRecord, SectionInfo};

const OPT_COMMENT: u16 = 1;
const SHB_APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_FCSLEN: u16 = 13;
/// Ten to the minus ninth of a second.
const NANOSECONDS: u8 = 9;

/// Writes packets as a pcapng file that Wireshark, tcpdump and [`Reader`](crate::capture::Reader)
/// read.
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
    interfaces: u32,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a file: its section header and an Ethernet interface without a name.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(out: W) -> io::Result<Self> {
        Self::with_interface(out, "")
    }

    /// Starts a file whose Ethernet interface is called `name` (cut at 65,535 bytes).
    ///
    /// # Errors
    /// What `out` says.
    pub fn with_interface(out: W, name: &str) -> io::Result<Self> {
        let mut writer = Self::start(out, &SectionInfo::default())?;
        writer.add_interface(&InterfaceInfo { name, ..InterfaceInfo::ETHERNET })?;
        Ok(writer)
    }

    /// Starts a file without interfaces: declare them with
    /// [`add_interface`](Self::add_interface) before their packets come.
    ///
    /// # Errors
    /// What `out` says.
    pub fn start(out: W, info: &SectionInfo<'_>) -> io::Result<Self> {
        let mut writer = Self { out: BufWriter::with_capacity(256 * 1024, out), interfaces: 0 };
        let mut section = Vec::new();
        section.extend(0x1a2b_3c4d_u32.to_le_bytes());
        section.extend([1, 0, 0, 0]);
        section.extend(u64::MAX.to_le_bytes());
        if !info.comment.is_empty() {
            option(&mut section, OPT_COMMENT, text(info.comment).as_bytes());
        }
        let ours = concat!("roce-pcap ", env!("CARGO_PKG_VERSION"));
        let application = if info.application.is_empty() { ours } else { info.application };
        option(&mut section, SHB_APPLICATION, text(application).as_bytes());
        section.extend([0; 4]);
        writer.block(0x0a0d_0d0a, &section)?;
        Ok(writer)
    }

    /// Declares an interface; its number is for [`PacketRecord::interface`].
    ///
    /// # Errors
    /// What the writer says.
    pub fn add_interface(&mut self, info: &InterfaceInfo<'_>) -> io::Result<u32> {
        let mut interface = Vec::new();
        interface.extend(info.link.0.to_le_bytes());
        interface.extend([0; 2]);
        interface.extend(info.snaplen.to_le_bytes());
        if !info.name.is_empty() {
            option(&mut interface, IF_NAME, text(info.name).as_bytes());
        }
        option(&mut interface, IF_TSRESOL, &[NANOSECONDS]);
        if info.fcs_len > 0 {
            option(&mut interface, IF_FCSLEN, &[info.fcs_len]);
        }
        interface.extend([0; 4]);
        self.block(1, &interface)?;
        let number = self.interfaces;
        self.interfaces += 1;
        Ok(number)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let len = u32::try_from(body.len() + 12).map_err(io::Error::other)?;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len.to_le_bytes())?;
        self.out.write_all(body)?;
        self.out.write_all(&len.to_le_bytes())
    }

    /// Appends a packet of interface 0: nanoseconds since 1970, the way it went, and its bytes in
    /// one or two pieces. A packet above 262,144 bytes is cut to that length, its full length kept
    /// beside.
    ///
    /// # Errors
    /// What the writer says; the file is then unusable from here on.
    pub fn write_packet(
        &mut self,
        timestamp_ns: u64,
        direction: Direction,
        segments: [&[u8]; 2],
    ) -> io::Result<()> {
        let direction = Some(direction);
        self.write(&PacketRecord { direction, segments, ..PacketRecord::new(timestamp_ns, &[]) })
    }

    /// Appends a packet, cut to 262,144 bytes. A comment is cut at 65,535 bytes.
    ///
    /// # Errors
    /// What the writer says; the file is then unusable from here on.
    pub fn write(&mut self, packet: &PacketRecord<'_>) -> io::Result<()> {
        let ([first, second], captured, orig_len) = packet.cut();
        let pad = (4 - captured % 4) % 4;
        let mut comments = Vec::new();
        for comment in packet.comments {
            option(&mut comments, OPT_COMMENT, text(comment).as_bytes());
        }
        // epb_flags, and the end of options where there are any.
        let flags = packet.direction.map(|direction| match direction {
            Direction::Inbound => [2, 0, 4, 0, 1, 0, 0, 0],
            Direction::Outbound => [2, 0, 4, 0, 2, 0, 0, 0],
        });
        let flags = flags.as_ref().map_or(&[][..], |flags| flags);
        let end: &[u8] = if comments.len() + flags.len() > 0 { &[0; 4] } else { &[] };
        let options_len = comments.len() + flags.len() + end.len();
        let options_len = u32::try_from(options_len).map_err(io::Error::other)?;
        // Fixed fields, padded data, options, framing.
        let len = 20 + captured + pad + options_len + 12;

        let mut head = [0; 28];
        let [t0, t1, t2, t3, t4, t5, t6, t7] = packet.timestamp_ns.to_le_bytes();
        for (slot, value) in head.as_chunks_mut::<4>().0.iter_mut().zip([
            6_u32.to_le_bytes(),
            len.to_le_bytes(),
            packet.interface.to_le_bytes(),
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
        self.out.write_all(&comments)?;
        self.out.write_all(flags)?;
        self.out.write_all(end)?;
        self.out.write_all(&len.to_le_bytes())
    }

    /// Hands everything written so far to the file.
    ///
    /// # Errors
    /// What the writer says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Flushes and gives the writer back.
    ///
    /// # Errors
    /// What the writer says.
    pub fn into_inner(self) -> io::Result<W> {
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

/// As much of a text as an option holds, cut between characters.
pub(in super::super) fn text(value: &str) -> &str {
    let most = value.len().min(usize::from(u16::MAX));
    let end = (0..=most).rev().find(|end| value.is_char_boundary(*end)).unwrap_or_default();
    value.get(..end).unwrap_or_default()
}

/// Appends an option of at most 65,535 bytes, padded to four.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    out.extend(code.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}
