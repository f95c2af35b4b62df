//! Two captures of the same traffic, from either side of where it is lost.
//!
//! Packets are matched by what they are, not by when: a packet that only one tap has was lost between
//! the two. The tap nearer a host is the one that has everything the host sent.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use super::recording::Recording;

/// What was lost between two taps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Drops {
    /// Requests that only the tap nearer their sender has.
    pub requests: u64,
    /// Answers that only the tap nearer their sender has.
    pub answers: u64,
    /// Packets that only the tap farther from their sender has: they did not pass the other one, or
    /// its capture has lost them.
    pub strays: u64,
}

/// Which tap is nearer to whom.
#[derive(Debug)]
pub(super) struct Taps {
    /// By (source, destination): packets that only the first and only the second tap has.
    lone: HashMap<(IpAddr, IpAddr), [Lone; 2]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Lone {
    requests: u64,
    answers: u64,
}

impl Lone {
    fn all(self) -> u64 {
        self.requests + self.answers
    }
}

impl Taps {
    /// Matches the packets of two captures.
    pub(super) fn of(recordings: &[Recording; 2]) -> Self {
        let mut balance: HashMap<u64, i64> = HashMap::new();
        for index in 0..recordings[1].len() {
            *balance.entry(identity(&recordings[1], index)).or_default() += 1;
        }
        for index in 0..recordings[0].len() {
            *balance.entry(identity(&recordings[0], index)).or_default() -= 1;
        }
        let mut lone: HashMap<(IpAddr, IpAddr), [Lone; 2]> = HashMap::new();
        for (tap, sign) in [(0, -1), (1, 1)] {
            for index in 0..recordings[tap].len() {
                let left = balance.entry(identity(&recordings[tap], index)).or_default();
                if left.signum() != sign {
                    continue;
                }
                *left -= sign;
                let frame = recordings[tap].frame(index);
                let lone = &mut lone.entry((frame.src(), frame.dst())).or_default()[tap];
                if frame.info().is_request() {
                    lone.requests += 1;
                } else {
                    lone.answers += 1;
                }
            }
        }
        Self { lone }
    }

    fn between(&self, src: IpAddr, dst: IpAddr) -> [Lone; 2] {
        self.lone.get(&(src, dst)).copied().unwrap_or_default()
    }

    /// Which tap is nearer to `host` than to `peer`: it has what the host sent and was lost, and has
    /// not what was lost on its way there. The first where nothing was lost.
    pub(super) fn nearer(&self, host: IpAddr, peer: IpAddr) -> usize {
        let [out, back] = [self.between(host, peer), self.between(peer, host)];
        let for_tap = |near: usize| out[near].all() + back[1 - near].all();
        usize::from(for_tap(1) > for_tap(0))
    }

    /// What was lost in all.
    pub(super) fn drops(&self) -> Drops {
        let mut drops = Drops::default();
        for ((src, dst), lone) in &self.lone {
            let near = self.nearer(*src, *dst);
            drops.requests += lone[near].requests;
            drops.answers += lone[near].answers;
            drops.strays += lone[1 - near].all();
        }
        drops
    }
}

/// What a packet is, whichever tap saw it: its ICRC covers everything that routers leave alone.
fn identity(recording: &Recording, index: usize) -> u64 {
    let frame = recording.frame(index);
    let mut hasher = DefaultHasher::new();
    (frame.src(), frame.dst(), frame.opcode().0, frame.dest_qp().get()).hash(&mut hasher);
    (frame.psn().get(), frame.payload_len(), frame.icrc()).hash(&mut hasher);
    hasher.finish()
}
