//! The tables of messages and of recoveries.

use super::column::{Flag, I64, Label, Maybe, Time, U32, Word, signed};
use super::flow::flow_id;
use super::table::columns;
use super::word;
use crate::message::{Ending, Message, Recovery};

/// A message, or a recovery, of a capture.
pub(super) struct Of<'a, T> {
    pub(super) file: &'a str,
    pub(super) connection: Option<i64>,
    pub(super) is: &'a T,
}

fn nak(ending: Ending) -> Option<String> {
    match ending {
        Ending::Refused(code) => Some(code.to_string()),
        _ => None,
    }
}

columns! {
    /// The messages.
    Messages |row: &Of<'_, Message>|
    file: Label = row.file, "The capture";
    flow_id: I64 = flow_id(&row.is.flow), "The flow of its requests";
    connection_id: Maybe<I64> = row.connection, "Its connection";
    service: Word = word::service(row.is.service), "Transport service: RC, UC, UD, XRC";
    operation: Word = word::operation(row.is.operation), "SEND, WRITE, READ, COMPARE_SWAP, FETCH_ADD, FLUSH, ATOMIC_WRITE";
    first_psn: U32 = row.is.first_psn.get(), "PSN of its first packet, or of the first that was seen";
    last_psn: U32 = row.is.last_psn.get(), "Its last PSN; of a READ that of its last response";
    bytes: I64 = signed(row.is.bytes), "Bytes of user data";
    packets: U32 = row.is.packets, "Request packets, each counted once";
    whole: Flag = row.is.whole, "Whether all its request packets were seen";
    first_packet: I64 = signed(row.is.first_packet), "Number of the packet that was seen first";
    last_packet: I64 = signed(row.is.last_packet), "Number of the request packet that was seen last";
    start_time: Maybe<Time> = row.is.started_ns, "Time of the first";
    sent_time: Maybe<Time> = row.is.sent_ns, "When its last packet was first seen";
    answer_packet: Maybe<I64> = row.is.answer_packet.map(signed), "The packet that completed or refused it";
    answer_time: Maybe<Time> = row.is.answered_ns, "Time of that";
    latency_ns: Maybe<I64> = row.is.latency_ns().map(signed), "From its first packet to the answer that completed it, at the tap";
    retransmitted: U32 = row.is.retransmitted, "Request packets that came again before it was completed";
    rnr_naks: U32 = row.is.rnr_naks, "RNR NAKs for it";
    ending: Word = row.is.ending.name(), "acknowledged, refused, rnr, open, answers_unseen, unreliable";
    nak: Maybe<Label> = nak(row.is.ending).as_deref(), "How it was refused";
}

columns! {
    /// The recoveries.
    Recoveries |row: &Of<'_, Recovery>|
    file: Label = row.file, "The capture";
    flow_id: I64 = flow_id(&row.is.flow), "The flow of the requests";
    connection_id: Maybe<I64> = row.connection, "Its connection";
    cause: Word = row.is.cause.name(), "sequence_nak, implied_nak, rnr, timeout, answer_lost, unknown";
    is_loss: Flag = row.is.cause.is_loss(), "Whether a packet was lost or came too late: all but rnr";
    psn: U32 = row.is.psn.get(), "The PSN that was missing, or was sent again first";
    stall_time: Maybe<Time> = row.is.stalled_ns, "When progress stopped";
    detected_time: Maybe<Time> = row.is.detected_ns, "When the loss showed";
    detected_packet: I64 = signed(row.is.detected_packet), "The packet that showed it";
    resent_time: Maybe<Time> = row.is.resent_ns, "When the requester first went back";
    resent_packet: Maybe<I64> = row.is.resent_packet.map(signed), "The packet it went back with";
    recovered_time: Maybe<Time> = row.is.recovered_ns, "When an answer said that the PSN had arrived";
    recovered_packet: Maybe<I64> = row.is.recovered_packet.map(signed), "That answer";
    recovery_ns: Maybe<I64> = row.is.time_ns().map(signed), "From the stall until the PSN was answered";
    packets_resent: U32 = row.is.packets_resent, "Request packets sent again until then";
    rounds: U32 = row.is.rounds, "Times the requester went back until then";
}
