//! The figures of a flow, a host, or a whole capture.

use roce_codec::ib::{Operation, Service};

use super::times::Times;
use crate::message::{Cause, Ending, Message, Recovery};

/// Messages by what they ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operations {
    /// SENDs of connections.
    pub send: u64,
    /// RDMA WRITEs.
    pub write: u64,
    /// RDMA READs.
    pub read: u64,
    /// COMPARE SWAP and FETCH ADD.
    pub atomic: u64,
    /// FLUSHes.
    pub flush: u64,
    /// ATOMIC WRITEs.
    pub atomic_write: u64,
    /// Datagrams (UD), management included.
    pub datagram: u64,
}

impl Operations {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self { send, write, read, atomic, flush, atomic_write, datagram } = self;
        send + write + read + atomic + flush + atomic_write + datagram
    }

    fn count(&mut self, message: &Message) {
        *match (message.service, message.operation) {
            (Service::Ud, _) => &mut self.datagram,
            (_, Operation::Write) => &mut self.write,
            (_, Operation::ReadRequest) => &mut self.read,
            (_, Operation::CompareSwap | Operation::FetchAdd) => &mut self.atomic,
            (_, Operation::Flush) => &mut self.flush,
            (_, Operation::AtomicWrite) => &mut self.atomic_write,
            _ => &mut self.send,
        } += 1;
    }

    fn add(&mut self, other: &Self) {
        self.send += other.send;
        self.write += other.write;
        self.read += other.read;
        self.atomic += other.atomic;
        self.flush += other.flush;
        self.atomic_write += other.atomic_write;
        self.datagram += other.datagram;
    }
}

/// Messages by how they ended; see [`Ending`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Endings {
    /// Executed, and the answer seen.
    pub acknowledged: u64,
    /// Refused by a NAK.
    pub refused: u64,
    /// Given up for want of a receive.
    pub rnr: u64,
    /// Not answered when the connection or the capture ended.
    pub open: u64,
    /// Of flows whose answers were not seen.
    pub answers_unseen: u64,
    /// Nothing answers them: UC and UD.
    pub unreliable: u64,
}

/// What was counted. Times are the tap's, bytes are octets.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Packets sent.
    pub packets: u64,
    /// Their bytes on the wire, as the file states them: without preamble, most often without FCS.
    pub wire_bytes: u64,
    /// Packets with a wrong ICRC that no known mistake explains; nothing else of them is counted.
    pub damaged_packets: u64,
    /// Packets marked congestion experienced (CE) on their way.
    pub ce_packets: u64,
    /// Messages begun.
    pub operations: Operations,
    /// How they ended.
    pub endings: Endings,
    /// User data of the messages that were acknowledged, or are unreliable.
    pub bytes: u64,
    /// From a message's first packet to its completion.
    pub latency: Times,
    /// Request packets that came again.
    pub retransmitted_packets: u64,
    /// Request packets that later ones overtook, or that were lost before the tap and sent again.
    pub late_packets: u64,
    /// Packets that the tap saw twice.
    pub copied_packets: u64,
    /// Recoveries by cause, in the order of [`Cause::ALL`].
    pub recoveries: [u64; Cause::ALL.len()],
    /// Losses (recoveries without RNR) that were made good in the capture: from the stall to the
    /// answer.
    pub recovery: Times,
    /// NAKs for a missing PSN, in answer to these requests.
    pub sequence_naks: u64,
    /// NAKs that refuse a request.
    pub refusals: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
    /// Congestion notifications received for what was sent here.
    pub cnps: u64,
    /// First packet, and last packet or answer, nanoseconds since 1970.
    pub span_ns: Option<(u64, u64)>,
}

impl Figures {
    /// Bits of user data a second, from the first packet to the last answer; `None` where no time
    /// has passed, or the file has none.
    #[must_use]
    pub fn goodput_bps(&self) -> Option<u64> {
        let elapsed_ns = self.elapsed_ns()?;
        let bit_ns = u128::from(self.bytes) * 8 * 1_000_000_000;
        u64::try_from(bit_ns.checked_div(u128::from(elapsed_ns))?).ok()
    }

    /// Nanoseconds from the first packet to the last answer.
    #[must_use]
    pub fn elapsed_ns(&self) -> Option<u64> {
        self.span_ns.map(|(first, last)| last.saturating_sub(first))
    }

    /// Recoveries that were losses.
    #[must_use]
    pub fn losses(&self) -> u64 {
        let counts = Cause::ALL.iter().zip(&self.recoveries);
        counts.filter(|(cause, _)| cause.is_loss()).map(|(_, count)| count).sum()
    }

    /// Recoveries of one cause.
    #[must_use]
    pub fn recoveries_by(&self, cause: Cause) -> u64 {
        let counts = Cause::ALL.iter().zip(&self.recoveries);
        counts.filter(|(other, _)| **other == cause).map(|(_, count)| count).sum()
    }

    pub(super) fn heard(&mut self, time_ns: Option<u64>) {
        let Some(now) = time_ns else { return };
        let (first, last) = self.span_ns.unwrap_or((now, now));
        self.span_ns = Some((first.min(now), last.max(now)));
    }

    pub(super) fn message(&mut self, message: &Message) {
        self.operations.count(message);
        let endings = &mut self.endings;
        *match message.ending {
            Ending::Acknowledged => &mut endings.acknowledged,
            Ending::Refused(_) => &mut endings.refused,
            Ending::ReceiverNotReady => &mut endings.rnr,
            Ending::Open => &mut endings.open,
            Ending::AnswersUnseen => &mut endings.answers_unseen,
            Ending::Unreliable => &mut endings.unreliable,
        } += 1;
        if matches!(message.ending, Ending::Acknowledged | Ending::Unreliable) {
            self.bytes = self.bytes.saturating_add(message.bytes);
        }
        if let Some(ns) = message.latency_ns() {
            self.latency.record(ns);
        }
        self.heard(message.answered_ns);
    }

    pub(super) fn recovery(&mut self, recovery: &Recovery) {
        for (cause, count) in Cause::ALL.iter().zip(&mut self.recoveries) {
            *count += u64::from(*cause == recovery.cause);
        }
        if recovery.cause.is_loss()
            && let Some(ns) = recovery.time_ns()
        {
            self.recovery.record(ns);
        }
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.wire_bytes = self.wire_bytes.saturating_add(other.wire_bytes);
        self.damaged_packets += other.damaged_packets;
        self.ce_packets += other.ce_packets;
        self.operations.add(&other.operations);
        self.endings.acknowledged += other.endings.acknowledged;
        self.endings.refused += other.endings.refused;
        self.endings.rnr += other.endings.rnr;
        self.endings.open += other.endings.open;
        self.endings.answers_unseen += other.endings.answers_unseen;
        self.endings.unreliable += other.endings.unreliable;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.latency.add(&other.latency);
        self.retransmitted_packets += other.retransmitted_packets;
        self.late_packets += other.late_packets;
        self.copied_packets += other.copied_packets;
        for (sum, count) in self.recoveries.iter_mut().zip(other.recoveries) {
            *sum += count;
        }
        self.recovery.add(&other.recovery);
        self.sequence_naks += other.sequence_naks;
        self.refusals += other.refusals;
        self.rnr_naks += other.rnr_naks;
        self.cnps += other.cnps;
        if let Some((first, last)) = other.span_ns {
            self.heard(Some(first));
            self.heard(Some(last));
        }
    }
}
