//! The figures as named columns: one list for JSON and CSV.

use super::figures::Figures;
use crate::message::Cause;

/// A column: its name, which ends in its unit where it has one, what it says, and its value.
pub(super) type Measure = (&'static str, fn(&Figures) -> Option<u64>);

macro_rules! counts {
    ($($name:literal: $($field:ident).+;)*) => {
        [$(($name, |figures: &Figures| Some(figures.$($field).+)),)*]
    };
}

/// What was sent and asked for.
const TRAFFIC: [Measure; 18] = counts! {
    "packets": packets;
    "wire_bytes": wire_bytes;
    "damaged_packets": damaged_packets;
    "sends": operations.send;
    "writes": operations.write;
    "reads": operations.read;
    "atomics": operations.atomic;
    "flushes": operations.flush;
    "atomic_writes": operations.atomic_write;
    "datagrams": operations.datagram;
    "acknowledged": endings.acknowledged;
    "refused": endings.refused;
    "rnr_ended": endings.rnr;
    "open": endings.open;
    "answers_unseen": endings.answers_unseen;
    "unreliable": endings.unreliable;
    "bytes": bytes;
    "retransmitted_packets": retransmitted_packets;
};

/// Marks and answers.
const ANSWERS: [Measure; 7] = counts! {
    "late_packets": late_packets;
    "copied_packets": copied_packets;
    "sequence_naks": sequence_naks;
    "refusal_naks": refusals;
    "rnr_naks": rnr_naks;
    "ce_packets": ce_packets;
    "cnp_packets": cnps;
};

/// What is worked out, and may be unknown.
const WORKED_OUT: [Measure; 18] = [
    ("duration_ns", Figures::elapsed_ns),
    ("goodput_bps", Figures::goodput_bps),
    ("latency_count", |figures| Some(figures.latency.count())),
    ("latency_min_ns", |figures| figures.latency.min_ns()),
    ("latency_p50_ns", |figures| figures.latency.quantile_ns(0.5)),
    ("latency_p99_ns", |figures| figures.latency.quantile_ns(0.99)),
    ("latency_p999_ns", |figures| figures.latency.quantile_ns(0.999)),
    ("latency_max_ns", |figures| figures.latency.max_ns()),
    ("losses", |figures| Some(figures.losses())),
    ("losses_sequence_nak", |figures| Some(figures.recoveries_by(Cause::SequenceNak))),
    ("losses_implied_nak", |figures| Some(figures.recoveries_by(Cause::ImpliedNak))),
    ("losses_timeout", |figures| Some(figures.recoveries_by(Cause::Timeout))),
    ("losses_answer_lost", |figures| Some(figures.recoveries_by(Cause::AnswerLost))),
    ("losses_unknown", |figures| Some(figures.recoveries_by(Cause::Unknown))),
    ("rnr_waits", |figures| Some(figures.recoveries_by(Cause::ReceiverNotReady))),
    ("recovered", |figures| Some(figures.recovery.count())),
    ("recovery_p50_ns", |figures| figures.recovery.quantile_ns(0.5)),
    ("recovery_max_ns", |figures| figures.recovery.max_ns()),
];

/// All columns, in order.
pub(super) fn measures() -> impl Iterator<Item = &'static Measure> {
    TRAFFIC.iter().chain(&ANSWERS).chain(&WORKED_OUT)
}
