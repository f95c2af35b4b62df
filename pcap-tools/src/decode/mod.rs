//! Decoding for people and programs: one line a packet, a tree of every field, or JSON.

mod cm;
mod fields;
mod line;
mod native;
mod pause;
mod tree;

use std::io::{self, Write};

use roce_codec::icrc::{IcrcVerdict, NotCheckable};

use crate::capture::Packet;
use crate::dissect::{Dissected, dissect};

/// How packets are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// One line a packet.
    Line,
    /// Every header field on a line of its own, as `tshark -V`.
    Tree,
    /// One JSON object a packet, under the field names of Wireshark.
    JsonLines,
}

/// What was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets read.
    pub packets: u64,
    /// Those sent to RoCEv2's port.
    pub roce_packets: u64,
    /// Those that cannot be read although they were.
    pub malformed: u64,
    /// RoCE v1 and native InfiniBand.
    pub native_packets: u64,
    /// PAUSE and PFC frames.
    pub pauses: u64,
}

/// Writes packets one by one.
#[derive(Debug)]
pub struct Decoder {
    style: Style,
    all: bool,
    first_ns: Option<u64>,
    counts: Counts,
}

impl Decoder {
    /// Writes RoCEv2 packets, and RoCE v1, native InfiniBand and PAUSE frames among them, in the
    /// given style and, with `all`, a line for each other packet.
    #[must_use]
    pub fn new(style: Style, all: bool) -> Self {
        Self { style, all, first_ns: None, counts: Counts::default() }
    }

    /// What was decoded so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Decodes a packet and writes what there is to say of it.
    ///
    /// # Errors
    /// What `out` says.
    pub fn packet(&mut self, packet: &Packet<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.counts.packets += 1;
        if self.first_ns.is_none() {
            self.first_ns = packet.timestamp_ns;
        }
        let since_ns = packet.timestamp_ns.zip(self.first_ns);
        let since_ns = since_ns.map(|(now, first)| now.saturating_sub(first));
        match dissect(packet) {
            Dissected::Roce(frame) => {
                self.counts.roce_packets += 1;
                match self.style {
                    Style::Line => line::roce(packet, since_ns, &frame, out),
                    Style::Tree => tree::roce(packet, since_ns, &frame, out),
                    Style::JsonLines => fields::roce(packet, &frame, out),
                }
            }
            Dissected::Native(frame) => {
                self.counts.native_packets += 1;
                match self.style {
                    Style::Line => native::line(packet, since_ns, &frame, out),
                    Style::Tree => native::tree(packet, since_ns, &frame, out),
                    Style::JsonLines => native::fields(packet, &frame, out),
                }
            }
            Dissected::MacControl(frame) => {
                self.counts.pauses += 1;
                match self.style {
                    Style::Line => pause::line(packet, since_ns, &frame, out),
                    Style::Tree => pause::tree(packet, since_ns, &frame, out),
                    Style::JsonLines => pause::fields(packet, &frame, out),
                }
            }
            Dissected::Malformed(malformed) => {
                self.counts.roce_packets += 1;
                self.counts.malformed += 1;
                let text = format!("malformed RoCEv2: {malformed}");
                self.unread(packet, since_ns, &text, out)
            }
            Dissected::Other(other) if self.all => {
                self.unread(packet, since_ns, &format!("not RoCEv2: {other}"), out)
            }
            Dissected::Other(_) => Ok(()),
        }
    }

    fn unread(
        &self,
        packet: &Packet<'_>,
        since_ns: Option<u64>,
        text: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match self.style {
            Style::JsonLines => fields::unread(packet, text, out),
            _ => line::unread(packet, since_ns, text, out),
        }
    }
}

/// An ICRC verdict in a word.
fn icrc_word(verdict: IcrcVerdict) -> &'static str {
    match verdict {
        IcrcVerdict::Valid => "valid",
        IcrcVerdict::Invalid { .. } => "invalid",
        IcrcVerdict::NotCheckable(NotCheckable::Truncated) => "truncated",
        IcrcVerdict::NotCheckable(NotCheckable::NotFilled) => "not filled in",
        IcrcVerdict::NotCheckable(_) => "not checkable",
    }
}
