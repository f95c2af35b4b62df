//! A model of one direction of a connection: what the requests of one side do to the memory of
//! the other, and what they return.
//!
//! It knows three things of the transport, and nothing of how they come about: requests are
//! carried out in the order they were posted, each exactly once, in packets of the path MTU. A
//! READ may also return what later requests wrote, since its answer may be lost and read again.
//! Places in the sequence of packets are plain numbers from 0 here, never wrapped.

use crate::plan::{Kind, Request};

/// One direction of a connection.
#[derive(Debug)]
pub struct Direction {
    requests: Vec<Request>,
    mtu: usize,
    /// The remote memory at the start, and when everything posted so far is carried out.
    initial: Vec<u8>,
    image: Vec<u8>,
    posted: Vec<Posted>,
}

/// A request that has been posted.
#[derive(Debug)]
pub struct Posted {
    /// Its first packet, and the one after its last.
    pub begins: u64,
    /// The packet after its last.
    pub ends: u64,
    /// Messages up to here, its own included.
    messages: usize,
    /// Which receive it takes.
    pub receive: Option<usize>,
    /// What it writes, and where.
    effect: Option<(usize, Vec<u8>)>,
    /// The memory that it is about, as it is when it is its turn: what a READ or an atomic
    /// returns, what a WRITE leaves.
    seen: Vec<u8>,
    /// An atomic's operands: what to compare with, what to swap in or add.
    pub operands: [u64; 2],
}

impl Direction {
    /// A direction whose requests find this memory.
    #[must_use]
    pub fn new(requests: Vec<Request>, mtu: u32, initial: Vec<u8>) -> Self {
        let mtu = usize::try_from(mtu).unwrap_or(1);
        let image = initial.clone();
        Self { requests, mtu, initial, image, posted: Vec::new() }
    }

    /// All requests, posted or not.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Those that have been posted.
    #[must_use]
    pub fn posted(&self) -> &[Posted] {
        &self.posted
    }

    /// The packets of everything posted.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.posted.last().map_or(0, |posted| posted.ends)
    }

    /// Posts the next request, with this payload.
    ///
    /// # Panics
    /// If there is none left.
    pub fn post(&mut self, payload: &[u8]) -> &Posted {
        let request = self.requests[self.posted.len()];
        let begins = self.end();
        let packets = match request.kind {
            // However much it is about.
            Kind::Flush => 1,
            kind if kind.is_local() => 0,
            _ => request.len.div_ceil(self.mtu).max(1),
        };
        let ends = begins + u64::try_from(packets).unwrap_or(1);
        let before = self.posted.last().map_or(0, |posted| posted.messages);
        let messages = before + usize::from(!request.kind.is_local());
        let receive = request
            .kind
            .takes_receive()
            .then(|| self.posted.iter().filter(|posted| posted.receive.is_some()).count());
        let range = request.remote..request.remote + request.len;
        let word = self.image.get(range.clone()).and_then(|bytes| bytes.try_into().ok());
        let word = u64::from_ne_bytes(word.unwrap_or_default());
        let (operands, result) = match request.kind {
            Kind::Swap => ([word, request.operand], request.operand),
            Kind::SwapMiss => ([!word, request.operand], word),
            Kind::Add => ([0, request.operand], word.wrapping_add(request.operand)),
            _ => ([0; 2], 0),
        };
        let (mut seen, mut effect) = (Vec::new(), None);
        if request.poison.is_none() {
            if request.kind.is_write() {
                effect = Some((request.remote, payload.to_vec()));
            } else if request.kind.is_atomic() {
                effect = Some((request.remote, result.to_ne_bytes().to_vec()));
            }
            if request.kind.is_atomic() || request.kind == Kind::Read {
                seen = self.image[range].to_vec();
            } else if request.kind.is_write() {
                seen = payload.to_vec();
            }
        }
        if let Some((at, bytes)) = &effect {
            self.image[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        self.posted.push(Posted { begins, ends, messages, receive, effect, seen, operands });
        &self.posted[self.posted.len() - 1]
    }

    /// Holds bytes to what request `index` returned, or left behind: each is what it was at the
    /// request's turn or, unless `exact`, what a later request wrote there. `actual` may be a
    /// first part.
    ///
    /// # Errors
    /// Where it is wrong.
    pub fn check(&self, index: usize, actual: &[u8], exact: bool) -> Result<(), String> {
        let request = &self.requests[index];
        let seen = &self.posted[index].seen;
        for (at, (is, was)) in actual.iter().zip(seen).enumerate() {
            if is == was {
                continue;
            }
            let place = request.remote + at;
            let later = self.posted[index + 1..].iter().any(|posted| {
                posted.effect.as_ref().is_some_and(|(from, bytes)| {
                    place.checked_sub(*from).and_then(|off| bytes.get(off)) == Some(is)
                })
            });
            if exact || !later {
                return Err(format!(
                    "request {index} ({:?}, {} bytes at {}): byte {at} is {is:#04x}, not {was:#04x}",
                    request.kind, request.len, request.remote
                ));
            }
        }
        Ok(())
    }

    /// How many messages are complete when packets before `place` have been executed.
    #[must_use]
    pub fn messages_before(&self, place: u64) -> usize {
        let done = self.posted.partition_point(|posted| posted.ends <= place);
        done.checked_sub(1).map_or(0, |last| self.posted[last].messages)
    }

    /// How many of a request's bytes lie in packets before `place`.
    #[must_use]
    pub fn bytes_before(&self, index: usize, place: u64) -> usize {
        let packets = place.saturating_sub(self.posted[index].begins);
        let bytes = usize::try_from(packets).unwrap_or(usize::MAX).saturating_mul(self.mtu);
        bytes.min(self.requests[index].len)
    }

    /// The remote memory when packets before `place` have been executed.
    #[must_use]
    pub fn remote_at(&self, place: u64) -> Vec<u8> {
        let mut memory = self.initial.clone();
        for (index, posted) in self.posted.iter().enumerate() {
            let Some((at, bytes)) = &posted.effect else { continue };
            let len =
                if posted.ends <= place { bytes.len() } else { self.bytes_before(index, place) };
            memory[*at..*at + len].copy_from_slice(&bytes[..len]);
        }
        memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: Kind, remote: usize, len: usize) -> Request {
        Request {
            kind,
            len,
            source: 0,
            remote,
            operand: 5,
            signaled: true,
            solicited: false,
            poison: None,
            cuts: 0,
            inline: false,
            fence: false,
        }
    }

    #[test]
    fn requests_take_effect_in_order() {
        let requests = vec![
            request(Kind::Write, 0, 600),
            request(Kind::Read, 590, 20),
            request(Kind::Write, 600, 4),
            request(Kind::Add, 600, 8),
        ];
        let mut direction = Direction::new(requests, 256, vec![0; 1000]);
        for payload in [vec![7; 600], vec![], vec![9; 4], vec![]] {
            direction.post(&payload);
        }
        let places: Vec<_> = direction.posted().iter().map(|p| (p.begins, p.ends)).collect();
        assert_eq!(places, [(0, 3), (3, 4), (4, 5), (5, 6)]);
        let at_its_turn = [[7; 10], [0; 10]].concat();
        assert_eq!(direction.check(1, &at_its_turn, true), Ok(()));
        let mut later = at_its_turn.clone();
        later[10..14].fill(9);
        assert_eq!(direction.check(1, &later, false), Ok(()));
        assert!(direction.check(1, &later, true).is_err());
        later[15] = 1;
        assert!(direction.check(1, &later, false).is_err());
        // Two packets of the first WRITE.
        let partly = direction.remote_at(2);
        assert_eq!((partly[511], partly[512]), (7, 0));
        assert_eq!(direction.messages_before(3), 1);
        let sum = u64::from_ne_bytes([9, 9, 9, 9, 0, 0, 0, 0]).wrapping_add(5);
        assert_eq!(direction.remote_at(6)[600..608], sum.to_ne_bytes());
    }
}
