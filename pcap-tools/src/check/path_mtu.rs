//! Payload against the path MTU of its connection.

use roce_codec::ib::PathMtu;
use roce_engine::rules::length::{self, LengthFault};

use super::flow::Flow;
use super::judge::{At, Judge};
use super::opcode;
use super::packet::Seen;
use super::rule::Rule;

/// The payload against the path MTU, which a First or Middle shows. A connection keeps it, so a
/// packet in order that shows another one is wrong; elsewhere the connection may be another one.
#[inline]
pub(super) fn check(
    flow: &mut Flow,
    peer_mtu: Option<PathMtu>,
    seen: &Seen<'_, '_>,
    in_order: bool,
    at: At,
    judge: &mut Judge,
) {
    if !seen.info.payload {
        return;
    }
    let shown = if seen.info.position.ends() { None } else { opcode::mtu_of(seen.payload_len) };
    let Some(mtu) = flow.mtu.or(peer_mtu) else {
        flow.mtu = shown;
        return;
    };
    let len = u32::try_from(seen.payload_len).unwrap_or(u32::MAX);
    let verdict = length::packet(seen.info.position, len, Some(mtu));
    if verdict.fault().is_none_or(|fault| fault == LengthFault::EmptyLast) {
        judge.pass(Rule::PayloadMtu);
    } else if in_order {
        let expected = match seen.info.position.ends() {
            true => format!("at most {mtu} bytes"),
            false => format!("{mtu} bytes"),
        };
        let found = format!("{len} bytes");
        let message = format!("{} against the path MTU of its connection", seen.bth.opcode);
        judge.fail(Rule::PayloadMtu, at, (expected, found, message));
    } else {
        flow.mtu = shown;
    }
}
