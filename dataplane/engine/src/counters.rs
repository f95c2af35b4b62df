//! Two kinds of counters: drop reasons, which partition what was received, and events under the
//! names operators know, which overlap.

/// Declares an enumeration whose variants index an array and have a name.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            const COUNT: usize = Self::ALL.len();

            /// The name in output.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            #[inline]
            const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

counted! {
    /// Why a received packet had no effect and no answer. Each received packet is either acted on
    /// or counted under exactly one of these.
    DropReason {
        /// Not a RoCEv2 packet.
        NotRoce = "not_roce",
        /// Cut short, lengths that disagree, IP options, a fragment.
        Malformed = "malformed",
        /// The ICRC is wrong.
        BadIcrc = "bad_icrc",
        /// The opcode is reserved or a manufacturer's.
        UnknownOpcode = "unknown_opcode",
        /// The transport header version is not 0.
        Version = "version",
        /// Payload and pad are not a multiple of four bytes.
        Pad = "pad",
        /// No queue pair has this number.
        UnknownQp = "unknown_qp",
        /// The queue pair's state does not take it.
        QpState = "qp_state",
        /// The opcode belongs to another service.
        WrongService = "wrong_service",
        /// Not from the queue pair's peer, or not to its address.
        Address = "address",
        /// The P_Key does not match.
        PKey = "pkey",
        /// The Q_Key of a datagram is not the queue pair's.
        QKey = "qkey",
        /// Ahead of the expected PSN, and the gap has been reported; or, where nothing is
        /// reported, the rest of a message of which something is missing.
        OutOfSequence = "out_of_sequence",
        /// Behind an RNR NAK: the peer will send it again. Or without a receive, where there is
        /// no NAK.
        ReceiverNotReady = "receiver_not_ready",
        /// A duplicate READ or atomic that is no longer held, or does not match.
        StaleDuplicate = "stale_duplicate",
        /// An answer to nothing that is outstanding.
        UnexpectedResponse = "unexpected_response",
        /// A repeated NAK for what is being sent again already.
        RepeatedNak = "repeated_nak",
        /// A reserved syndrome.
        ReservedSyndrome = "reserved_syndrome",
        /// A request of an unreliable service that a reliable one would refuse with a NAK.
        Refused = "refused",
        /// A congestion notification (rate control is not enabled).
        Cnp = "cnp",
    }
}

counted! {
    /// Events, under the names of Linux's `hw_counters` and rxe's where there is one.
    HwCounter {
        /// Packets sent.
        SentPackets = "sent_pkts",
        /// Requests ahead of the expected PSN.
        OutOfSequence = "out_of_sequence",
        /// Requests seen before.
        DuplicateRequest = "duplicate_request",
        /// Sequence NAKs received.
        PacketSeqErr = "packet_seq_err",
        /// Sequence errors implied by a later answer.
        ImpliedNakSeqErr = "implied_nak_seq_err",
        /// Sequence NAKs sent.
        SentSequenceNak = "sent_seq_nak",
        /// RNR NAKs sent.
        SentRnrNak = "send_rnr_err",
        /// RNR NAKs received.
        RcvdRnrNak = "rcvd_rnr_err",
        /// NAKs that end the connection, sent.
        SentFatalNak = "sent_fatal_nak",
        /// NAKs that end the connection, received.
        RcvdFatalNak = "rcvd_fatal_nak",
        /// Requests that ended after `rnr_retry` RNR NAKs.
        RnrNakRetryErr = "rnr_nak_retry_err",
        /// Requests that ended after `retry_cnt` timeouts or sequence errors.
        RetryExceededErr = "retry_exceeded_err",
        /// Timeouts.
        LocalAckTimeoutErr = "local_ack_timeout_err",
        /// Packets with a wrong ICRC.
        RxIcrcEncapsulated = "rx_icrc_encapsulated",
        /// Executed SENDs.
        RxSendRequests = "rx_send_requests",
        /// Executed SENDs that took a key away.
        RxInvalidateRequests = "rx_invalidate_requests",
        /// Executed WRITEs.
        RxWriteRequests = "rx_write_requests",
        /// Executed READs.
        RxReadRequests = "rx_read_requests",
        /// Executed atomics.
        RxAtomicRequests = "rx_atomic_requests",
        /// Executed ATOMIC WRITEs.
        RxAtomicWriteRequests = "rx_atomic_write_requests",
        /// Executed FLUSHes.
        RxFlushRequests = "rx_flush_requests",
        /// Packets held behind a gap.
        RxHeld = "rx_held",
        /// Held packets that were run once the gap had filled.
        RxHeldRun = "rx_held_run",
        /// Held packets that were not: their queue pair ended, or a READ in the gap took their PSN.
        RxHeldFreed = "rx_held_freed",
        /// Acknowledgements sent, positive ones.
        SentAcks = "sent_acks",
        /// Requests sent again.
        Retransmissions = "retransmissions",
        /// Times that READ answers had to wait for their rate.
        ReadPaced = "read_paced",
    }
}

/// Everything an engine counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Packets handed to [`Engine::handle_burst`](crate::Engine::handle_burst).
    pub received: u64,
    /// Those that had an effect or an answer.
    pub acted_on: u64,
    drops: [u64; DropReason::COUNT],
    events: [u64; HwCounter::COUNT],
}

impl Counters {
    pub(crate) const ZERO: Self = Self {
        received: 0,
        acted_on: 0,
        drops: [0; DropReason::COUNT],
        events: [0; HwCounter::COUNT],
    };

    /// Packets dropped for this reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.get(reason.index()).copied().unwrap_or_default()
    }

    /// Packets dropped for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// How often an event happened.
    #[must_use]
    pub fn event(&self, counter: HwCounter) -> u64 {
        self.events.get(counter.index()).copied().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn drop(&mut self, reason: DropReason) {
        if let Some(count) = self.drops.get_mut(reason.index()) {
            *count += 1;
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, counter: HwCounter) {
        if let Some(count) = self.events.get_mut(counter.index()) {
            *count += 1;
        }
    }
}
