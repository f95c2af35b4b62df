//! The UDP source port of a queue pair, by which switches choose a path: a QP that keeps it keeps
//! its packets in order.

use roce_codec::ib::Service;

use super::habits::Tie;
use super::judge::{At, Judge};
use super::kept::{Comparison, Kept};
use super::packet::{Network, Seen};
use super::rule::Rule;

/// Judges a packet of a connection.
#[inline]
pub(super) fn check(
    port: &mut Kept<u16>,
    seen: &Seen<'_, '_>,
    tie: Tie,
    at: At,
    told: &mut u64,
    judge: &mut Judge,
) {
    let Network::Roce(frame) = seen.network else { return };
    if !matches!(seen.info.service, Service::Rc | Service::Uc | Service::Xrc) {
        return;
    }
    let found = frame.udp().src_port;
    let before = match port.compare(found) {
        Comparison::First | Comparison::Adopted => return,
        Comparison::Same => return judge.pass(Rule::UdpSrcPort),
        Comparison::Odd(before) => before,
    };
    let words = || {
        let message = "the queue pair sends from another port: switches may take another path";
        (before.to_string(), found.to_string(), message.into())
    };
    match judge.profile().constant_source_port {
        Some(true) if tie == Tie::Sure => judge.fail(Rule::UdpSrcPort, at, words()),
        Some(false) => {}
        _ => judge.unknown_once(Rule::UdpSrcPort, at, told, words),
    }
}
