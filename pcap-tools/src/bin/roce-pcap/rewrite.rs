//! `roce-pcap rewrite`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use roce_pcap::capture::{
    CaptureError, CaptureWriter, InterfaceInfo, LinkType, Packet, PacketRecord, PcapWriter,
    PcapngWriter, Reader, SNAPLEN, SectionInfo,
};
use roce_pcap::filter::Selection;
use roce_pcap::rewrite::{Config, Counts, Dedupe, Key, Mask, Moment, Payload, Rewriter};

use crate::{Outcome, expression, input, output};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The captures; several are merged by time; `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where to: pcapng, pcap if the name ends so, compressed if in .gz; `-` for standard output
    #[arg(short, long)]
    output: PathBuf,
    /// Write classic pcap, whatever the name
    #[arg(long)]
    to_pcap: bool,
    /// Replace MAC and IP addresses, and those in the connection manager's messages; prefixes are
    /// kept. The same key gives the same addresses; without one, nobody knows it
    #[arg(long, value_name = "KEY", num_args = 0..=1, require_equals = true)]
    mask_addresses: Option<Option<String>>,
    /// Payload bytes become zero
    #[arg(long, conflicts_with = "strip_payload")]
    zero_payload: bool,
    /// Payload is cut off, as by a snap length
    #[arg(long)]
    strip_payload: bool,
    /// Keep what the connection manager's users tell each other, in spite of the above
    #[arg(long)]
    keep_private_data: bool,
    /// Make every ICRC right that can be
    #[arg(long)]
    fix_icrc: bool,
    /// Keep at most so many bytes of a packet
    #[arg(long, value_name = "BYTES", default_value_t = SNAPLEN)]
    cut: u32,
    /// Drop copies of a packet that several mirrors made, which differ in MAC, VLAN, DSCP, ECN, TTL
    #[arg(long)]
    dedupe: bool,
    /// Microseconds within which copies come; shorter than a round trip
    #[arg(long, value_name = "US", default_value_t = 10, requires = "dedupe")]
    dedupe_window: u64,
    /// Only packets from here on: a number, +SECONDS after the first, or @SECONDS since 1970
    #[arg(long, value_name = "MOMENT", value_parser = moment, allow_hyphen_values = true)]
    from: Option<Moment>,
    /// Only packets up to here
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    to: Option<Moment>,
    /// Only packets that match, as in `decode --where`
    #[arg(long = "where", value_name = "EXPRESSION")]
    filter: Option<String>,
}

/// A packet's number, `+1.5` or `@1700000000.5`.
fn moment(text: &str) -> Result<Moment, String> {
    let wrong = || format!("{text}: a packet's number, +SECONDS or @SECONDS");
    let ns = |seconds: &str| {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let digits = |text: &str| text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
            return Err(wrong());
        }
        let fraction = format!("{fraction:0<9}").parse::<u64>().map_err(|_| wrong())?;
        let whole = whole.parse::<u64>().map_err(|_| wrong())?;
        whole.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(fraction)).ok_or_else(wrong)
    };
    match text.as_bytes() {
        [b'+', ..] => ns(&text[1..]).map(Moment::Since),
        [b'@', ..] => ns(&text[1..]).map(Moment::Epoch),
        _ => text.parse().map(Moment::Packet).map_err(|_| wrong()),
    }
}

fn config(args: &Args) -> Config {
    let bound = |moment: Option<Moment>| moment.map_or(Bound::Unbounded, Bound::Included);
    let key = |text: &Option<String>| text.as_deref().map_or_else(Key::random, Key::of_text);
    Config {
        mask: args.mask_addresses.as_ref().map(|text| Mask::new(key(text))),
        payload: match (args.zero_payload, args.strip_payload) {
            (true, _) => Payload::Zeroed,
            (_, true) => Payload::Stripped,
            _ => Payload::Kept,
        },
        keep_private_data: args.keep_private_data,
        fix_icrc: args.fix_icrc,
        cut: args.cut,
        dedupe: args.dedupe.then(|| Dedupe::new(args.dedupe_window.saturating_mul(1_000))),
        range: (bound(args.from), bound(args.to)),
    }
}

/// One of the captures, and its packet that comes next.
struct Source {
    name: String,
    reader: Option<Reader<Box<dyn Read>>>,
    next: Option<Next>,
}

/// A packet that waits for its turn.
struct Next {
    time_ns: u64,
    record: Record,
    data: Vec<u8>,
}

/// What is said of it besides its bytes.
#[derive(Clone, Copy)]
struct Record {
    interface: u32,
    link: Option<LinkType>,
    timestamp_ns: Option<u64>,
    direction: Option<roce_pcap::capture::Direction>,
    fcs_len: u8,
    orig_len: u32,
    offset: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Self, CaptureError> {
        let read: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(path).map_err(|source| CaptureError::Io { offset: 0, source })?)
        };
        let reader = Some(Reader::new(read)?);
        Ok(Self { name: path.display().to_string(), reader, next: None })
    }

    /// Reads the packet that comes next; `false` after an error, which is told.
    fn advance(&mut self) -> bool {
        let before = self.next.take();
        let Some(reader) = &mut self.reader else { return true };
        match reader.next_packet() {
            None => self.reader = None,
            Some(Err(error)) => {
                input::complain(&self.name, &error);
                self.reader = None;
                return false;
            }
            Some(Ok(packet)) => {
                let (last_ns, mut data) =
                    before.map_or((0, Vec::new()), |next| (next.time_ns, next.data));
                data.clear();
                data.extend_from_slice(packet.data);
                let record = Record {
                    interface: packet.interface,
                    link: packet.link,
                    timestamp_ns: packet.timestamp_ns,
                    direction: packet.direction,
                    fcs_len: packet.fcs_len,
                    orig_len: packet.orig_len,
                    offset: packet.offset,
                };
                // One without a time comes right behind the one before it.
                let time_ns = packet.timestamp_ns.unwrap_or(last_ns);
                self.next = Some(Next { time_ns, record, data });
            }
        }
        true
    }
}

/// Where packets go, each interface of each capture being one.
struct Output {
    writer: CaptureWriter<output::Sink>,
    interfaces: Vec<(usize, u32, LinkType, u8)>,
}

impl Output {
    fn write(
        &mut self,
        (source, name): (usize, &str),
        record: &Record,
        data: &[u8],
    ) -> io::Result<()> {
        let link = record.link.unwrap_or(LinkType::ETHERNET);
        let key = (source, record.interface, link, record.fcs_len);
        let known = self.interfaces.iter().position(|known| *known == key);
        let index = known.unwrap_or(self.interfaces.len());
        if known.is_none() {
            if let CaptureWriter::Pcapng(writer) = &mut self.writer {
                let info = InterfaceInfo { link, name, snaplen: SNAPLEN, fcs_len: record.fcs_len };
                writer.add_interface(&info)?;
            }
            self.interfaces.push(key);
        }
        if matches!(self.writer, CaptureWriter::Pcap(_)) && self.interfaces[0].2 != link {
            let message = "classic pcap holds one link type only: write pcapng";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.writer.write(&PacketRecord {
            interface: u32::try_from(index).unwrap_or(u32::MAX),
            direction: record.direction,
            orig_len: record.orig_len,
            ..PacketRecord::new(record.timestamp_ns.unwrap_or_default(), data)
        })
    }
}

pub(crate) fn run(args: &Args) -> io::Result<Outcome> {
    let filter = match expression::parse(args.filter.as_deref()) {
        Ok(filter) => filter,
        Err(outcome) => return Ok(outcome),
    };
    let mut sources = Vec::new();
    let mut outcome = Outcome::Clean;
    for path in &args.files {
        match Source::open(path) {
            Ok(source) => sources.push(source),
            Err(error) => {
                input::complain(&path.display().to_string(), &error);
                return Ok(Outcome::Unusable);
            }
        }
    }
    for source in &mut sources {
        if !source.advance() {
            outcome = Outcome::Unusable;
        }
    }
    let link = sources.iter().find_map(|source| source.next.as_ref()?.record.link);
    let Some(sink) = output::sink(&args.output) else { return Ok(Outcome::Unusable) };
    let writer = if args.to_pcap || output::is_pcap(&args.output) {
        CaptureWriter::Pcap(PcapWriter::new(sink, link.unwrap_or(LinkType::ETHERNET))?)
    } else {
        CaptureWriter::Pcapng(PcapngWriter::start(sink, &SectionInfo::default())?)
    };
    let mut out = Output { writer, interfaces: Vec::new() };
    let mut rewriter = Rewriter::new(config(args));
    let mut selection = filter.map(Selection::new);
    let mut number = 0;
    // Few captures are merged: the next packet is looked for among them all.
    while let Some(first) = (0..sources.len())
        .filter(|at| sources[*at].next.is_some())
        .min_by_key(|at| sources[*at].next.as_ref().map(|next| next.time_ns))
    {
        number += 1;
        let source = &mut sources[first];
        if let Some(Next { record, data, .. }) = &source.next {
            let packet = Packet {
                number,
                offset: record.offset,
                timestamp_ns: record.timestamp_ns,
                interface: record.interface,
                link: record.link,
                direction: record.direction,
                fcs_len: record.fcs_len,
                link_bps: None,
                orig_len: record.orig_len,
                data,
            };
            let is_meant = selection.as_mut().is_none_or(|selection| selection.takes(&packet));
            if is_meant && let Some((data, _)) = rewriter.packet(&packet) {
                out.write((first, &source.name), record, data)?;
            }
        }
        if !source.advance() {
            outcome = Outcome::Unusable;
        }
    }
    out.writer.into_inner()?.finish()?;
    report(rewriter.counts())?;
    Ok(outcome)
}

/// What became of the packets, on standard error: standard output may be the capture.
fn report(counts: Counts) -> io::Result<()> {
    let Counts { packets, kept, copies, others } = counts;
    let mut text = format!("roce-pcap: {packets} packets, {kept} written");
    if copies > 0 {
        text.push_str(&format!(", {copies} copies dropped"));
    }
    if others > 0 {
        text.push_str(&format!(", {others} left out: not RoCEv2 that can be read"));
    }
    writeln!(io::stderr(), "{text}")
}
