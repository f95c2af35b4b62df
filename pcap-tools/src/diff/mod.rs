//! Two captures of the same traffic, held against each other: two taps, or before and after a box.
//!
//! Packets are matched by what no way changes: ICRC, IP identification and length, and which of
//! several such packets it is. What is left over is matched once more by addresses, queue pair,
//! PSN and opcode, so that a packet whose ICRC was made anew is found to be changed and not lost.
//!
//! Memory is bounded: a packet that is not found among the [`MAX_WAITING`] next of the other
//! capture is there no more.

mod change;
mod delay;

use std::collections::{HashMap, VecDeque};
use std::io::Read;

use roce_codec::Frame;
use roce_codec::ib::{Opcode, Psn};
use roce_codec::net::{Ecn, Ip};

pub use change::Change;
pub use delay::Delays;

use crate::capture::{CaptureError, LinkType, Packet, Reader};
use crate::dissect::{Dissected, dissect};
use crate::observed::FlowKey;

/// Packets of each capture that wait for their like.
pub const MAX_WAITING: usize = 1 << 15;

/// One of the two captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

impl Side {
    /// `A` or `B`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

/// A packet, as it is spoken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number in its capture, from 1.
    pub number: u64,
    /// Nanoseconds since 1970.
    pub time_ns: Option<u64>,
    /// Flow, opcode and PSN, if it is RoCEv2.
    pub roce: Option<(FlowKey, Opcode, Psn)>,
    /// The DMA length of its RETH, if it has one: bytes.
    pub dma_len: Option<u32>,
}

/// A difference between the captures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// A packet is in one capture only: lost behind that tap, or not captured by the other.
    Only(Side, Place),
    /// A packet is not the same in both.
    Changed {
        /// In the first.
        a: Place,
        /// In the second.
        b: Place,
        /// What is different.
        changes: Vec<Change>,
    },
    /// A packet of a flow comes behind one in the second capture that it came before in the first.
    Reordered {
        /// In the first.
        a: Place,
        /// In the second.
        b: Place,
    },
}

/// The numbers of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Packets of each capture.
    pub packets: [u64; 2],
    /// Packets found in both.
    pub matched: u64,
    /// Packets in one only.
    pub only: [u64; 2],
    /// Packets of which something changed that may not.
    pub changed: u64,
    /// Packets of which something changed that may.
    pub rewritten: u64,
    /// Packets out of order within their flow.
    pub reordered: u64,
    /// Marked congestion experienced in one only.
    pub marked: [u64; 2],
    /// How long from the first tap to the second.
    pub delays: Delays,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Roce { icrc: [u8; 4], identification: u16, len: usize },
    Other(Vec<u8>),
}

#[derive(Debug)]
struct Waiting {
    place: Place,
    link: Option<LinkType>,
    data: Vec<u8>,
}

/// Compares packets as they come.
#[derive(Debug, Default)]
struct Comparison {
    waiting: [HashMap<Key, VecDeque<Waiting>>; 2],
    /// In the order they came; what was matched meanwhile is passed over.
    order: [VecDeque<(Key, u64)>; 2],
    summary: Summary,
    /// The time of each capture's last packet.
    last_ns: [u64; 2],
    /// By flow, the furthest packet of the first capture that was matched in the second's order.
    furthest: HashMap<FlowKey, u64>,
    left_over: [VecDeque<Waiting>; 2],
    told: Vec<Told>,
}

/// What comes of a packet.
#[derive(Debug)]
pub(crate) enum Told {
    /// It is in both captures; whether it was changed in what may not change.
    Pair {
        a: Place,
        b: Place,
        changed: bool,
    },
    Difference(Difference),
}

/// Compares two captures; `with` is told of each difference.
///
/// # Errors
/// Why one of them cannot be read further, and which; what came before has been compared.
pub fn compare<A: Read, B: Read>(
    a: Reader<A>,
    b: Reader<B>,
    mut with: impl FnMut(&Difference),
) -> (Summary, Vec<(Side, CaptureError)>) {
    compare_all(a, b, |told| {
        if let Told::Difference(difference) = told {
            with(difference);
        }
    })
}

/// Compares two captures; `with` is told of every packet of both.
pub(crate) fn compare_all<A: Read, B: Read>(
    mut a: Reader<A>,
    mut b: Reader<B>,
    mut with: impl FnMut(&Told),
) -> (Summary, Vec<(Side, CaptureError)>) {
    let mut comparison = Comparison::default();
    let mut errors = Vec::new();
    let (mut more_a, mut more_b) = (true, true);
    while more_a || more_b {
        // The first is read ahead, so that the second finds what it is looking for; beyond that,
        // whichever is behind in time.
        let [waiting_a, waiting_b] = [0, 1].map(|side: usize| comparison.order[side].len());
        let [last_a, last_b] = comparison.last_ns;
        let ahead = waiting_a < MAX_WAITING / 2 || (waiting_b > 0 && last_a <= last_b);
        let (side, next) = if more_a && (ahead || !more_b) {
            (Side::A, a.next_packet())
        } else {
            (Side::B, b.next_packet())
        };
        match (side, next) {
            (_, Some(Ok(packet))) => comparison.packet(side, &packet),
            (side, Some(Err(error))) => errors.push((side, error)),
            (Side::A, None) => more_a = false,
            (Side::B, None) => more_b = false,
        }
        comparison.told.drain(..).for_each(|told| with(&told));
    }
    comparison.finish();
    comparison.told.drain(..).for_each(|told| with(&told));
    (comparison.summary, errors)
}

fn index(side: Side) -> usize {
    match side {
        Side::A => 0,
        Side::B => 1,
    }
}

/// The frame of a packet, if it is RoCEv2.
fn frame<'a>(data: &'a [u8], link: Option<LinkType>) -> Option<Frame<'a>> {
    let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let packet = Packet {
        number: 0,
        offset: 0,
        timestamp_ns: None,
        interface: 0,
        link,
        direction: None,
        fcs_len: 0,
        link_bps: None,
        orig_len: len,
        data,
    };
    match dissect(&packet) {
        Dissected::Roce(frame) => Some(frame),
        _ => None,
    }
}

impl Comparison {
    fn packet(&mut self, side: Side, packet: &Packet<'_>) {
        let own = index(side);
        self.summary.packets[own] += 1;
        self.last_ns[own] = packet.timestamp_ns.unwrap_or(self.last_ns[own]);
        let frame = match dissect(packet) {
            Dissected::Roce(frame) => Some(frame),
            _ => None,
        };
        let place = Place {
            number: packet.number,
            time_ns: packet.timestamp_ns,
            roce: frame.map(|it| (FlowKey::of_frame(&it), it.opcode(), it.psn())),
            dma_len: frame.and_then(|it| Some(it.reth()?.dma_len)),
        };
        let key = match &frame {
            // A cut packet shows no ICRC: its PSN stands for it.
            Some(frame) => Key::Roce {
                icrc: if frame.missing() > 0 {
                    frame.psn().get().to_be_bytes()
                } else {
                    frame.icrc()
                },
                identification: match frame.ip() {
                    Ip::V4(ip) => ip.identification,
                    Ip::V6(_) => 0,
                },
                len: frame.udp_payload_len(),
            },
            None => Key::Other(packet.data.to_vec()),
        };
        let new = Waiting { place, link: packet.link, data: packet.data.to_vec() };
        let found = self.waiting[1 - own].get_mut(&key).and_then(VecDeque::pop_front);
        if let Some(other) = found {
            if self.waiting[1 - own].get(&key).is_some_and(VecDeque::is_empty) {
                self.waiting[1 - own].remove(&key);
            }
            match side {
                Side::A => self.matched(&new, &other),
                Side::B => self.matched(&other, &new),
            }
            return;
        }
        self.order[own].push_back((key.clone(), new.place.number));
        self.waiting[own].entry(key).or_default().push_back(new);
        if self.order[own].len() > MAX_WAITING {
            self.expire(side);
        }
        // What was matched long ago leaves its place.
        while let Some((key, number)) = self.order[own].front() {
            let first = self.waiting[own].get(key).and_then(VecDeque::front);
            if first.is_some_and(|first| first.place.number <= *number) {
                break;
            }
            self.order[own].pop_front();
        }
    }

    /// The oldest packet that waits has waited too long.
    fn expire(&mut self, side: Side) {
        let own = index(side);
        let Some((key, number)) = self.order[own].pop_front() else { return };
        let Some(queue) = self.waiting[own].get_mut(&key) else { return };
        if queue.front().is_some_and(|first| first.place.number == number)
            && let Some(old) = queue.pop_front()
        {
            if queue.is_empty() {
                self.waiting[own].remove(&key);
            }
            self.left_over[own].push_back(old);
            if self.left_over[own].len() > MAX_WAITING
                && let Some(gone) = self.left_over[own].pop_front()
            {
                self.only(side, gone.place);
            }
        }
    }

    fn only(&mut self, side: Side, place: Place) {
        self.summary.only[index(side)] += 1;
        self.told.push(Told::Difference(Difference::Only(side, place)));
    }

    fn matched(&mut self, a: &Waiting, b: &Waiting) {
        let (place_a, place_b) = (a.place, b.place);
        self.summary.matched += 1;
        if let (Some(from), Some(to)) = (place_a.time_ns, place_b.time_ns) {
            self.summary.delays.add(to.wrapping_sub(from).cast_signed());
        }
        let (Some(frame_a), Some(frame_b)) = (frame(&a.data, a.link), frame(&b.data, b.link))
        else {
            self.told.push(Told::Pair { a: place_a, b: place_b, changed: false });
            return;
        };
        let ce = [&frame_a, &frame_b]
            .map(|frame| Ecn::of_traffic_class(frame.traffic_class()) == Ecn::Ce);
        if ce == [true, false] {
            self.summary.marked[0] += 1;
        }
        if ce == [false, true] {
            self.summary.marked[1] += 1;
        }
        let changes = change::changes(&frame_a, &frame_b);
        let (a, b) = (place_a, place_b);
        let changed = changes.iter().any(|change| !change.is_allowed());
        self.told.push(Told::Pair { a, b, changed });
        if changed {
            self.summary.changed += 1;
            self.told.push(Told::Difference(Difference::Changed { a, b, changes }));
        } else if !changes.is_empty() {
            self.summary.rewritten += 1;
        }
        let Some((flow, ..)) = place_a.roce else { return };
        if self.furthest.len() >= MAX_WAITING {
            self.furthest.clear();
        }
        let furthest = self.furthest.entry(flow).or_default();
        if place_a.number < *furthest {
            self.summary.reordered += 1;
            self.told.push(Told::Difference(Difference::Reordered { a, b }));
        }
        *furthest = (*furthest).max(place_a.number);
    }

    /// Both have ended: what is left over is matched once more, by what its headers say.
    fn finish(&mut self) {
        for side in [Side::A, Side::B] {
            while !self.order[index(side)].is_empty() {
                self.expire(side);
            }
        }
        let identity = |waiting: &Waiting| {
            let (flow, opcode, psn) = waiting.place.roce?;
            let frame = frame(&waiting.data, waiting.link)?;
            let identification = match frame.ip() {
                Ip::V4(ip) => ip.identification,
                Ip::V6(_) => 0,
            };
            Some((flow, opcode, psn, identification))
        };
        let [left_a, left_b] = std::mem::take(&mut self.left_over);
        let mut by_identity: HashMap<_, VecDeque<Waiting>> = HashMap::new();
        let mut only_b = Vec::new();
        for waiting in left_b {
            match identity(&waiting) {
                Some(key) => by_identity.entry(key).or_default().push_back(waiting),
                None => only_b.push(waiting.place),
            }
        }
        for a in left_a {
            let key = identity(&a);
            let found = key.and_then(|key| by_identity.get_mut(&key)?.pop_front());
            match found {
                Some(b) => self.matched(&a, &b),
                None => self.only(Side::A, a.place),
            }
        }
        only_b.extend(by_identity.into_values().flatten().map(|waiting| waiting.place));
        only_b.sort_unstable_by_key(|place| place.number);
        for place in only_b {
            self.only(Side::B, place);
        }
    }
}
