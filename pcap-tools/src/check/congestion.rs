//! Congestion marks and the notifications they lead to.

mod notification;
mod rate;

use roce_codec::ib::Operation;
use roce_codec::net::Ecn;

use super::judge::{At, Judge};
use super::packet::{Network, Seen};
use super::rule::Rule;

pub(super) use notification::Congestion;
pub(super) use rate::Sent;

/// Packets that were not ECN-capable, after which their sender is taken for one that sends none.
const HABIT: u8 = 8;

/// How a sender marks its packets as ECN-capable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Capability {
    /// Packets that were not, up to [`HABIT`].
    not_ect: u8,
    /// Whether any was.
    ect: bool,
}

/// How the packets of a flow are marked: data, and acknowledgements, which some senders treat
/// otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks([Capability; 2]);

impl Marks {
    /// A mark on packets that are not ECN-capable: switches drop those and do not mark them.
    #[inline]
    pub(super) fn check(&mut self, seen: &Seen<'_, '_>, at: At, told: &mut u64, judge: &mut Judge) {
        let Network::Roce(frame) = seen.network else { return };
        let class = usize::from(seen.info.operation == Operation::Acknowledge);
        let capability = &mut self.0[class];
        match Ecn::of_traffic_class(frame.traffic_class()) {
            Ecn::NotEct => capability.not_ect = capability.not_ect.saturating_add(1).min(HABIT),
            Ecn::Ect0 | Ecn::Ect1 => capability.ect = true,
            Ecn::Ce if capability.ect => judge.pass(Rule::EcnCe),
            // Nothing is known of the sender yet.
            Ecn::Ce if capability.not_ect == 0 => {}
            Ecn::Ce => {
                let words = || {
                    let message = "marked, though its sender's packets are not ECN-capable";
                    ("Not-ECT, as before".into(), "CE".into(), message.into())
                };
                if capability.not_ect >= HABIT {
                    judge.fail(Rule::EcnCe, at, words());
                } else {
                    judge.unknown_once(Rule::EcnCe, at, told, words);
                }
            }
        }
    }
}
