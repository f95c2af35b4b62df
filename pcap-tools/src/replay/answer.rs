//! One captured answer against one of ours, field by field.

use roce_codec::Frame;
use roce_codec::ib::{AethKind, Msn, Opcode, Operation, Psn};

use super::freedom::Freedom;
use super::own::{Executed, Own, OwnAnswer};
use super::recording::Recording;
use super::report::Field;
use super::stream::Stream;

/// What comparing two answers found.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) freedoms: Vec<Freedom>,
    pub(super) fields: Vec<Field>,
}

/// What answers of a stream are compared by.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) recording: &'a Recording,
    pub(super) stream: &'a Stream,
    pub(super) own: &'a Own,
    /// By how much the captured MSNs are ahead: the capture began in the middle.
    pub(super) msn_base: Msn,
    /// What our responder reads is what was learned; a target's memory is its own.
    pub(super) memory_is_ours: bool,
}

/// Requests that are looked at for one answer.
const NEWEST: usize = 4096;

/// How far a message number lies after another.
pub(super) fn msn_distance(after: Msn, before: Msn) -> i32 {
    Psn::new(after.get()).distance_from(Psn::new(before.get()))
}

pub(super) fn is_ack(frame: &Frame<'_>) -> bool {
    frame.info().operation == Operation::Acknowledge
        && frame.aeth().is_some_and(|aeth| matches!(aeth.syndrome.kind(), AethKind::Ack(_)))
}

fn is_kept(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::ReadRequest
            | Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::AtomicWrite
            | Operation::Flush
    )
}

impl<'a> Sides<'a> {
    pub(super) fn theirs(&self, index: usize) -> Frame<'a> {
        self.recording.frame(index)
    }

    pub(super) fn ours(&self, answer: &OwnAnswer) -> Frame<'a> {
        self.own.frame(answer)
    }

    /// Where in the recording the request is that called for an answer of ours.
    pub(super) fn asked_at(&self, answer: &OwnAnswer) -> usize {
        self.stream.requests[answer.request]
    }

    /// Compares the captured answer at `index` with one of ours.
    pub(super) fn compare(&self, index: usize, answer: &OwnAnswer) -> Judged {
        let (theirs, ours) = (self.theirs(index), self.ours(answer));
        let mut judged = Judged::default();
        let retry = self.opcodes(&theirs, &ours, answer, &mut judged);
        self.psns(&theirs, &ours, answer, &mut judged);
        headers(&theirs, &ours, &mut judged);
        match (theirs.aeth(), ours.aeth()) {
            (Some(expected), Some(found)) => {
                let kinds = (expected.syndrome.kind(), found.syndrome.kind());
                if let (AethKind::Ack(one), AethKind::Ack(other)) = kinds {
                    if one != other {
                        judged.freedoms.push(Freedom::Credits);
                    }
                } else if expected.syndrome != found.syndrome {
                    judged.field("syndrome", expected.syndrome, found.syndrome);
                }
                self.msns(index, answer, (expected.msn, found.msn), &mut judged);
            }
            (expected, found) if expected.is_some() != found.is_some() && !retry => {
                let name = |there: bool| if there { "present" } else { "absent" };
                judged.field("AETH", name(expected.is_some()), name(found.is_some()));
            }
            _ => {}
        }
        let originals = [theirs, ours].map(|frame| frame.atomic_ack_eth().map(|eth| eth.original));
        if let [Some(expected), Some(found)] = originals
            && expected != found
        {
            let values = (format!("{expected:#x}"), format!("{found:#x}"));
            self.memory("original value", values, &mut judged);
        }
        self.payloads(&theirs, &ours, &mut judged);
        judged
    }

    /// Compares the opcodes; says whether they differ as those of a READ's rest may.
    fn opcodes(
        &self,
        theirs: &Frame<'_>,
        ours: &Frame<'_>,
        answer: &OwnAnswer,
        judged: &mut Judged,
    ) -> bool {
        let opcodes = (theirs.opcode(), ours.opcode());
        if opcodes.0 == opcodes.1 {
            return false;
        }
        const FIRST: Opcode = Opcode::RC_RDMA_READ_RESPONSE_FIRST;
        const MIDDLE: Opcode = Opcode::RC_RDMA_READ_RESPONSE_MIDDLE;
        const LAST: Opcode = Opcode::RC_RDMA_READ_RESPONSE_LAST;
        const ONLY: Opcode = Opcode::RC_RDMA_READ_RESPONSE_ONLY;
        let request = self.recording.frame(self.asked_at(answer));
        let psn = request.psn();
        // The rest of a READ: not its beginning.
        let rest = request.info().operation == Operation::ReadRequest
            && answer.duplicate
            && ours.psn() == psn
            && self.original(psn).is_some_and(|original| original.first != psn);
        let may_differ =
            matches!(opcodes, (MIDDLE, FIRST) | (FIRST, MIDDLE) | (LAST, ONLY) | (ONLY, LAST));
        if rest && may_differ {
            judged.freedoms.push(Freedom::ReadRetryOpcode);
            return true;
        }
        judged.field("opcode", opcodes.0, opcodes.1);
        false
    }

    fn psns(&self, theirs: &Frame<'_>, ours: &Frame<'_>, answer: &OwnAnswer, judged: &mut Judged) {
        let (expected, found) = (theirs.psn(), ours.psn());
        if expected == found {
            return;
        }
        let request = self.recording.frame(self.asked_at(answer));
        let acks_duplicate = answer.duplicate
            && is_ack(theirs)
            && is_ack(ours)
            && !is_kept(request.info().operation);
        if acks_duplicate && expected.is_within(request.psn(), answer.expected.sub(1)) {
            judged.freedoms.push(Freedom::DuplicatePsn);
        } else {
            judged.field("PSN", expected, found);
        }
    }

    fn msns(
        &self,
        index: usize,
        answer: &OwnAnswer,
        (expected, found): (Msn, Msn),
        judged: &mut Judged,
    ) {
        let found = Msn::new(found.get().wrapping_add(self.msn_base.get()));
        let ahead = msn_distance(expected, found);
        if ahead == 0 {
            return;
        }
        let asked_at = self.asked_at(answer);
        let request = self.recording.frame(asked_at);
        let operation = request.info().operation;
        // READs that may have been counted before this answer went out.
        let later = i32::try_from(self.kept_between(asked_at, index)).unwrap_or(i32::MAX);
        let first = Opcode::RC_RDMA_READ_RESPONSE_FIRST;
        let uncounted = operation == Operation::ReadRequest && self.theirs(index).opcode() == first;
        let behind = i32::from(answer.counted).max(i32::from(uncounted));
        if (-behind..=later).contains(&ahead) {
            judged.freedoms.push(Freedom::ReadMsn);
            return;
        }
        let original = self.original(request.psn()).filter(|_| answer.duplicate);
        if is_kept(operation)
            && let Some(original) = original
        {
            let base = self.msn_base.get();
            let then = Msn::new(original.msn.get().wrapping_add(base));
            if ahead < 0 && msn_distance(expected, then) >= 0 {
                judged.freedoms.push(Freedom::DuplicateMsn);
                return;
            }
        }
        judged.field("MSN", expected.get(), found.get());
    }

    /// The payload, as far as it was captured.
    fn payloads(&self, theirs: &Frame<'_>, ours: &Frame<'_>, judged: &mut Judged) {
        let lengths = (theirs.payload_len(), ours.payload_len());
        if lengths.0 != lengths.1 {
            judged.field("payload", format!("{} bytes", lengths.0), format!("{} bytes", lengths.1));
            return;
        }
        let ([expected, _], [found, _]) = (theirs.payload(), ours.payload());
        let different = expected.iter().zip(found).position(|(one, other)| one != other);
        if let Some(at) = different {
            let byte = |bytes: &[u8]| {
                let byte = bytes.get(at).copied().unwrap_or_default();
                format!("{byte:#04x} at byte {at}")
            };
            self.memory("payload", (byte(expected), byte(found)), judged);
        }
    }

    /// Memory that differs.
    fn memory(&self, name: &'static str, values: (String, String), judged: &mut Judged) {
        if self.memory_is_ours {
            judged.field(name, values.0, values.1);
        } else {
            judged.freedoms.push(Freedom::OwnerStore);
        }
    }

    /// READs and their like that were asked for between two places of the recording.
    fn kept_between(&self, from: usize, to: usize) -> usize {
        let executed = &self.own.executed;
        let start = executed.partition_point(|request| request.index <= from);
        let newer = executed.iter().skip(start).take(NEWEST);
        let between = newer.take_while(|request| request.index < to);
        between.filter(|request| !request.acknowledged).count()
    }

    /// The newest executed request that this PSN is of.
    fn original(&self, psn: Psn) -> Option<&Executed> {
        let newest = self.own.executed.iter().rev().take(NEWEST);
        newest.into_iter().find(|request| psn.is_within(request.first, request.last))
    }
}

impl Judged {
    fn field(
        &mut self,
        name: &'static str,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) {
        let (expected, found) = (expected.to_string(), found.to_string());
        self.fields.push(Field { name, expected, found });
    }
}

/// The BTH but for opcode and PSN.
fn headers(theirs: &Frame<'_>, ours: &Frame<'_>, judged: &mut Judged) {
    let (expected, found) = (theirs.bth(), ours.bth());
    if expected.mig_req != found.mig_req {
        judged.freedoms.push(Freedom::MigReq);
    }
    if expected.dest_qp != found.dest_qp {
        judged.field("destination QP", expected.dest_qp, found.dest_qp);
    }
    if expected.pkey != found.pkey {
        let [expected, found] = [expected, found].map(|bth| format!("{:#06x}", bth.pkey.0));
        judged.field("P_Key", expected, found);
    }
    let flags = [
        ("solicited event", expected.solicited, found.solicited),
        ("acknowledge request", expected.ack_req, found.ack_req),
        ("FECN", expected.fecn, found.fecn),
        ("BECN", expected.becn, found.becn),
    ];
    for (name, expected, found) in flags {
        if expected != found {
            judged.field(name, expected, found);
        }
    }
    let numbers = [
        ("header version", expected.version, found.version),
        ("pad count", expected.pad_count, found.pad_count),
        ("reserved bits", expected.resv6, found.resv6),
        ("reserved bits", expected.resv7, found.resv7),
    ];
    for (name, expected, found) in numbers {
        if expected != found {
            judged.field(name, expected, found);
        }
    }
}
