//! NAKs that are no loss: what was refused, and what may have been wrong with it.

use roce_codec::ib::{NakCode, Operation, Psn, RnrTimer};

use super::history::{Keyed, Past};
use super::judge::{At, Judge};
use super::opcode;
use super::request::RequestStream;
use super::rule::Rule;

/// A request that was refused for good.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    pub(super) psn: Psn,
    /// The NAK's ICRC: tells a copy.
    pub(super) icrc: [u8; 4],
}

/// An RNR NAK: no receive was there. Only requests that take one should meet it.
pub(super) fn not_ready(
    psn: Psn,
    timer: RnrTimer,
    past: Option<Past>,
    at: At,
    told: &mut u64,
    judge: &mut Judge,
) {
    let found = format!("RNR NAK for PSN {psn}, wait {}", wait(timer));
    let what = past.map_or("a request that was not seen".into(), |past| past.opcode.to_string());
    let takes_receive = past.map(|past| opcode::takes_receive(past.opcode.info()));
    let words = || {
        let message = format!("{what} takes no receive: a device that pages on demand says so");
        ("ACK or NAK".into(), found.clone(), message)
    };
    match (takes_receive, judge.profile().rnr_to_rdma) {
        (Some(false), Some(false)) => judge.fail(Rule::RcRnrOperation, at, words()),
        (Some(false), None) => judge.unknown_once(Rule::RcRnrOperation, at, told, words),
        (Some(_), _) => judge.pass(Rule::RcRnrOperation),
        (None, _) => {}
    }
    let message = match takes_receive {
        Some(false) => format!("{what} met a responder that was not ready"),
        _ => format!("{what} found no receive posted"),
    };
    judge.unknown(Rule::RcRnr, at, ("a receive".into(), found, message));
}

fn wait(timer: RnrTimer) -> String {
    let us = timer.wait_ns() / 1000;
    format!("{}.{:03} ms", us / 1000, us % 1000)
}

/// A NAK that ends the connection.
pub(super) fn refused(
    psn: Psn,
    code: NakCode,
    past: Option<Past>,
    requests: &RequestStream,
    at: At,
    judge: &mut Judge,
) {
    let keyed = requests.keyed().around(psn);
    let operation = past.map(|past| past.opcode.info().operation);
    // A SEND has no key of its own; the last one was another message's.
    let keyed = keyed.filter(|_| operation != Some(Operation::Send));
    let what = match (past, keyed) {
        (Some(past), Some(keyed)) => {
            format!("{} of {}", past.opcode, keyed.range())
        }
        (Some(past), None) => format!("{} with {} bytes", past.opcode, past.payload_len),
        (None, _) => "a request that was not seen".into(),
    };
    let cause = match (code, operation, keyed) {
        (_, None, _) => "it was not seen".into(),
        (NakCode::InvalidRequest, Some(operation), keyed) => invalid(operation, keyed),
        (NakCode::RemoteAccessError, _, Some(keyed)) => access(psn, keyed, requests),
        (NakCode::RemoteOperationalError, Some(Operation::Send), _) => {
            "longer than its receive (Linux rxe answers so), or a failure of the responder's own"
                .into()
        }
        (NakCode::RemoteOperationalError, ..) => "a failure of the responder's own".into(),
        _ => "for no reason that the capture shows".to_owned(),
    };
    let found = format!("NAK {:#04x} ({code}) for PSN {psn}", 0x60 | code.code());
    judge.unknown(Rule::RcRefused, at, ("ACK".into(), found, format!("{what}: {cause}")));
}

fn invalid(operation: Operation, keyed: Option<Keyed>) -> String {
    match (operation, keyed) {
        (Operation::AtomicWrite | Operation::CompareSwap | Operation::FetchAdd, Some(keyed))
            if !keyed.va.is_multiple_of(8) =>
        {
            "its address is no multiple of 8".into()
        }
        (Operation::Send, _) => {
            "longer than its receive, or out of sequence, or the queue pair does not take it".into()
        }
        (operation, _) if opcode::is_read_like(operation) || opcode::is_atomic(operation) => {
            "the queue pair does not permit it, or serves fewer of them at a time".into()
        }
        _ => "the queue pair does not permit it, or its length or sequence is wrong".into(),
    }
}

fn access(psn: Psn, keyed: Keyed, requests: &RequestStream) -> String {
    if requests.keyed().used_before(psn, keyed.rkey) {
        "the R_Key was good for a request before: now outside its region, without the right, or \
         invalidated since"
            .into()
    } else {
        "the R_Key was never used before: wrong, without the right, or the range outside its region"
            .into()
    }
}
