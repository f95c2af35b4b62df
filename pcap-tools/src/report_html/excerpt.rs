//! The packets that the page shows: those that findings and losses speak of, and their neighbours.

use std::collections::{BTreeMap, VecDeque};

use crate::capture::Packet;
use crate::decode::{Decoder, Style};

/// Packets before and after one that is of interest.
const AROUND: usize = 2;
/// Packets shown for the sake of losses, and in all.
const MOST_FOR_LOSSES: usize = 1_000;
const MOST: usize = 2_000;

/// Why a packet is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    /// A NAK, or something sent again.
    Loss,
    /// A finding speaks of it.
    Finding,
}

/// A packet that went by, kept for those that may want to see it.
#[derive(Debug)]
struct Kept {
    packet: Packet<'static>,
    data: Vec<u8>,
}

/// Packets as lines of text, by number.
#[derive(Debug)]
pub(super) struct Excerpt {
    decoder: Decoder,
    /// The last packets, newest last.
    recent: VecDeque<Kept>,
    lines: BTreeMap<u64, String>,
    /// Packets that are still to be shown because of one before them, and why that is.
    following: Option<(usize, Interest)>,
    is_first: bool,
}

impl Excerpt {
    pub(super) fn new() -> Self {
        Self {
            decoder: Decoder::new(Style::Line, true),
            recent: VecDeque::new(),
            lines: BTreeMap::new(),
            following: None,
            is_first: true,
        }
    }

    /// Takes the next packet, and why it is of interest, if it is.
    pub(super) fn packet(&mut self, packet: &Packet<'_>, interest: Option<Interest>) {
        if std::mem::take(&mut self.is_first) {
            // Times count from the first packet.
            let _ = self.decoder.packet(packet, &mut std::io::sink());
        }
        if let Some(interest) = interest {
            let recent = std::mem::take(&mut self.recent);
            for kept in &recent {
                self.show(&Packet { data: &kept.data, ..kept.packet }, interest);
            }
            self.recent = recent;
            self.following = Some((AROUND + 1, interest));
        }
        if let Some((left, interest)) = self.following {
            self.show(packet, interest);
            self.following = (left > 1).then_some((left - 1, interest));
        }
        let mut data = match self.recent.len() {
            AROUND => self.recent.pop_front().map(|kept| kept.data).unwrap_or_default(),
            _ => Vec::new(),
        };
        data.clear();
        data.extend_from_slice(packet.data);
        self.recent.push_back(Kept { packet: Packet { data: &[], ..*packet }, data });
    }

    fn show(&mut self, packet: &Packet<'_>, interest: Interest) {
        let most = match interest {
            Interest::Loss => MOST_FOR_LOSSES,
            Interest::Finding => MOST,
        };
        if self.lines.len() >= most || self.lines.contains_key(&packet.number) {
            return;
        }
        let mut line = Vec::new();
        // A Vec takes everything.
        let _ = self.decoder.packet(packet, &mut line);
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        self.lines.insert(packet.number, line);
    }

    /// Whether the page shows a packet.
    pub(super) fn has(&self, packet: u64) -> bool {
        self.lines.contains_key(&packet)
    }

    /// The packets by number, each as `decode` has it.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, &str)> {
        self.lines.iter().map(|(number, line)| (*number, line.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::LinkType;

    fn packet(number: u64, data: &[u8]) -> Packet<'_> {
        Packet { number, ..Packet::new(LinkType::ETHERNET, data) }
    }

    #[test]
    fn neighbours_are_shown_and_all_is_bounded() {
        let mut excerpt = Excerpt::new();
        for number in 1..=20 {
            excerpt.packet(&packet(number, &[0; 60]), (number == 10).then_some(Interest::Loss));
        }
        let shown: Vec<u64> = excerpt.lines().map(|(number, _)| number).collect();
        assert_eq!(shown, [8, 9, 10, 11, 12]);
        assert!(excerpt.has(12) && !excerpt.has(13));
        for number in 21..9_000 {
            excerpt.packet(&packet(number, &[0; 60]), Some(Interest::Loss));
        }
        assert_eq!(excerpt.lines().count(), MOST_FOR_LOSSES);
        for number in 9_000..19_000 {
            excerpt.packet(&packet(number, &[0; 60]), Some(Interest::Finding));
        }
        assert_eq!(excerpt.lines().count(), MOST);
    }
}
