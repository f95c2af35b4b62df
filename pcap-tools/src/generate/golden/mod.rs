//! Golden traces: one short trace for each way things go wrong, and what must be found in it.
//!
//! Each starts with the same [`PREAMBLE`]: a connection is made, and both ends send and are
//! acknowledged, so that it is clear who answers whom. What follows is the trace's own.

/// A table of traces: name, what happens, what must be found, and the script.
macro_rules! traces {
    ($($name:literal, $about:literal, [$($rule:ident $verdict:ident $packet:literal),*], $play:expr;)*) => {
        pub(super) const TRACES: &[super::Golden] = &[$(super::Golden {
            name: $name,
            about: $about,
            expect: &[$((
                $crate::check::Rule::$rule,
                $crate::check::Verdict::$verdict,
                $packet,
            ),)*],
            play: $play,
        },)*];
    };
}

mod answers;
mod congestion;
mod connections;
mod icrc;
mod packets;
mod recovery;
mod requests;
mod script;

use std::io::{self, Write};

use self::script::Script;
use crate::capture::{CaptureWriter, PacketRecord};
use crate::check::{Rule, Verdict};

/// Packets that every trace starts with.
pub const PREAMBLE: u64 = 46;

/// A trace of one error path.
#[derive(Debug, Clone, Copy)]
pub struct Golden {
    /// What it is called, such as `psn-gap-nak`.
    pub name: &'static str,
    /// What happens in it.
    pub about: &'static str,
    /// What must be found, and nothing else: rule, verdict, and the packet, counted from 1 behind
    /// the [`PREAMBLE`].
    pub expect: &'static [(Rule, Verdict, u64)],
    play: fn(&mut Script),
}

impl Golden {
    /// All of them.
    #[must_use]
    pub fn all() -> Vec<&'static Self> {
        let tables = [
            packets::TRACES,
            icrc::TRACES,
            requests::TRACES,
            answers::TRACES,
            recovery::TRACES,
            congestion::TRACES,
            connections::TRACES,
        ];
        tables.into_iter().flatten().collect()
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().into_iter().find(|golden| golden.name == name)
    }

    /// What must be found, by the packets' numbers in the trace, from 1.
    pub fn findings(&self) -> impl Iterator<Item = (Rule, Verdict, u64)> {
        self.expect.iter().map(|(rule, verdict, packet)| (*rule, *verdict, PREAMBLE + packet))
    }

    /// The packets: nanoseconds since 1970 and bytes from the Ethernet header on. The seed chooses
    /// hosts, queue pairs, PSNs, keys and payload.
    #[must_use]
    pub fn packets(&self, seed: u64) -> Vec<(u64, Vec<u8>)> {
        let mut script = Script::new(seed);
        script.preamble();
        (self.play)(&mut script);
        script.packets
    }

    /// Writes the trace, as packets of interface 0.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write<W: Write>(&self, seed: u64, out: &mut CaptureWriter<W>) -> io::Result<()> {
        for (timestamp_ns, packet) in self.packets(seed) {
            out.write(&PacketRecord::new(timestamp_ns, &packet))?;
        }
        Ok(())
    }
}
