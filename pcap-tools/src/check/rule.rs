//! The rules: identifier, severity and clause. Their pages are in `catalogue`.

use std::fmt;

/// How much a violation matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; peers cope.
    Info,
    /// Against the specification; peers usually cope.
    Warning,
    /// Against the specification; peers drop it, refuse it or get wrong data.
    Error,
}

impl Severity {
    /// `info`, `warning` or `error`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What judging by a rule came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The rule is kept.
    Pass,
    /// The rule is broken.
    Fail,
    /// The capture cannot tell.
    Unknown,
}

impl Verdict {
    /// `pass`, `fail` or `unknown`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $severity:ident, $clause:literal;)*) => {
        /// A rule that captures are judged by.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            /// All rules, in the order packets meet them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub(crate) const COUNT: usize = Self::ALL.len();

            /// The identifier, such as `RC-PSN-GAP`.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            /// How much breaking it matters.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }

            /// Where the specification says it.
            #[must_use]
            pub const fn clause(self) -> &'static str {
                match self { $(Self::$name => $clause,)* }
            }
        }
    };
}

rules! {
    /// The IP and UDP lengths agree.
    IpUdpLength = "IP-UDP-LENGTH", Error, "IBTA Annex A17.3; RFC 768";
    /// No fragments.
    IpFragment = "IP-FRAGMENT", Error, "IBTA Annex A17.3";
    /// No IPv4 options.
    Ipv4Options = "IPV4-OPTIONS", Warning, "IBTA Annex A17.3";
    /// IPv4 packets carry the don't-fragment flag.
    Ipv4Df = "IPV4-DF", Warning, "IBTA Annex A17.3";
    /// There is room for every header of the opcode, the pad and the ICRC.
    RoceLength = "ROCE-LENGTH", Error, "IBTA 9.6";
    /// The ICRC is right.
    RoceIcrc = "ROCE-ICRC", Error, "IBTA 7.8.1; Annex A17.3.3";
    /// The CRC of the last link is right.
    IbVcrc = "IB-VCRC", Error, "IBTA 7.8.2";
    /// The transport header version is 0.
    BthVersion = "BTH-VERSION", Error, "IBTA 9.6";
    /// Reserved bits are zero.
    BthReserved = "BTH-RESERVED", Info, "IBTA 9.2";
    /// The pad count fits the payload.
    BthPad = "BTH-PAD", Error, "IBTA 9.2";
    /// Pad bytes are zero.
    BthPadBytes = "BTH-PAD-BYTES", Info, "IBTA 9.2";
    /// The opcode has a meaning.
    BthOpcode = "BTH-OPCODE", Error, "IBTA 9.2, table 38";
    /// Unreliable services ask for no acknowledgement.
    BthAckReq = "BTH-ACKREQ", Info, "IBTA 9.2";
    /// The payload has a length that its opcode allows.
    PayloadLength = "PAYLOAD-LENGTH", Error, "IBTA 9.7.4.1.6; C9-92";
    /// The payload fits the path MTU of its connection.
    PayloadMtu = "PAYLOAD-MTU", Error, "IBTA 9.7.4.1.6; C9-92";
    /// No message is longer than 2³¹ bytes.
    RethDmaLen = "RETH-DMALEN", Error, "IBTA 9.7.4.1.6; C9-94";
    /// The syndrome has a meaning and fits its packet.
    AethSyndrome = "AETH-SYNDROME", Error, "IBTA 9.3, table 45";
    /// A congestion notification packet has its fixed form.
    CnpFormat = "CNP-FORMAT", Error, "IBTA Annex A17.9";
    /// What goes to QP1 is a management datagram.
    MadQp1 = "MAD-QP1", Error, "IBTA 13.4; 13.5";
    /// A queue pair keeps its service.
    QpService = "QP-SERVICE", Error, "IBTA 9.6";
    /// First, Middle and Last come in order.
    RcMessageOrder = "RC-MESSAGE-ORDER", Error, "IBTA 9.7.4.1.2";
    /// A WRITE carries the bytes its RETH promises.
    RcWriteLength = "RC-WRITE-LENGTH", Error, "IBTA 9.7.4.1.6; C9-92";
    /// PSNs follow each other.
    RcPsnGap = "RC-PSN-GAP", Warning, "IBTA 9.7.1";
    /// A PSN is sent again for a reason.
    RcPsnDuplicate = "RC-PSN-DUPLICATE", Info, "IBTA 9.7.1";
    /// What is sent again is the same.
    RcRetransmission = "RC-RETRANSMISSION", Error, "IBTA 9.7.5";
    /// A READ sent again asks for what is left of the first.
    RcReadRetry = "RC-READ-RETRY", Error, "IBTA 9.7.5.1.2; C9-96";
    /// A requester waits out its timer before it sends again.
    RcRetryTime = "RC-RETRY-TIME", Warning, "IBTA 9.7.6.1.3; C9-141";
    /// Nothing that was acknowledged is sent again.
    RcTimeout = "RC-TIMEOUT", Info, "IBTA 9.7.6.1.3";
    /// A requester gives up after as many retries as agreed.
    RcRetryCount = "RC-RETRY-COUNT", Warning, "IBTA 9.9.2.1.1; 9.9.2.4.2";
    /// A requester waits as long as an RNR NAK asks.
    RcRnrTimer = "RC-RNR-TIMER", Warning, "IBTA 9.7.5.2.8; C9-118";
    /// RNR NAKs meet requests that take a receive.
    RcRnrOperation = "RC-RNR-OPERATION", Warning, "IBTA 9.7.5.2.8";
    /// Receives are posted in time.
    RcRnr = "RC-RNR", Info, "IBTA 9.7.5.2.8";
    /// Requests are not refused.
    RcRefused = "RC-REFUSED", Warning, "IBTA 9.7.5.2; table 58";
    /// After a NAK that ends the connection there is silence.
    RcAfterNak = "RC-AFTER-NAK", Error, "IBTA 9.9.3";
    /// Answers carry PSNs of requests.
    RcAckPsn = "RC-ACK-PSN", Error, "IBTA 9.7.5";
    /// Message sequence numbers only grow, and by no more than there are messages.
    RcMsn = "RC-MSN", Error, "IBTA 9.7.7; C9-148";
    /// A gap draws one NAK.
    RcNakRepeat = "RC-NAK-REPEAT", Warning, "IBTA 9.7.5";
    /// READ responses come as First, Middle, Last.
    RcReadOrder = "RC-READ-ORDER", Error, "IBTA 9.7.5";
    /// READ responses carry what their request asked for.
    RcReadResponse = "RC-READ-RESPONSE", Error, "IBTA 9.7.5";
    /// An atomic acknowledge answers an atomic.
    RcAtomicAck = "RC-ATOMIC-ACK", Error, "IBTA 9.7.5";
    /// No more READs and atomics are under way than agreed.
    RcReadLimit = "RC-READ-LIMIT", Error, "IBTA 9.7.4.1.4; 9.7.7.1";
    /// Messages keep to the credits.
    RcCredit = "RC-CREDIT", Warning, "IBTA 9.7.7.2; C9-157";
    /// The P_Keys of a connection's packets match.
    PkeyMatch = "PKEY-MATCH", Error, "IBTA 9.6.1.1.1; 10.9.3";
    /// Datagrams carry the Q_Key of their queue pair.
    QkeyMatch = "QKEY-MATCH", Error, "IBTA 9.6.1.4.1; C9-38";
    /// Messages of the connection manager mean something.
    CmMad = "CM-MAD", Error, "IBTA 12.6 to 12.8, 12.11";
    /// Messages of the connection manager come in order.
    CmOrder = "CM-ORDER", Error, "IBTA 12.9";
    /// Connections start at the PSN stated.
    CmPsn = "CM-PSN", Error, "IBTA 12.7.20";
    /// Connections go to the queue pair stated.
    CmQpn = "CM-QPN", Error, "IBTA 12.7.18";
    /// A connected queue pair sends from one UDP port.
    UdpSrcPort = "UDP-SRC-PORT", Warning, "IBTA Annex A17.4.2";
    /// Only ECN-capable packets are marked.
    EcnCe = "ECN-CE", Warning, "RFC 3168, 5";
    /// Marked data leads to a notification.
    EcnCnp = "ECN-CNP", Warning, "IBTA Annex A17.9.3";
    /// Notifications keep their distance.
    CnpSpacing = "CNP-SPACING", Warning, "IBTA Annex A17.9.3; DCQCN";
    /// Notifications are caused by marks.
    CnpCause = "CNP-CAUSE", Info, "IBTA Annex A17.9.3";
    /// Senders slow down when notified.
    CnpRate = "CNP-RATE", Warning, "IBTA Annex A17.9.3; DCQCN";
    /// PAUSE and PFC frames have their fixed form.
    PfcFrame = "PFC-FRAME", Error, "IEEE 802.3 annex 31B; 31D";
    /// Pauses end.
    PauseStorm = "PAUSE-STORM", Error, "IEEE 802.1Q 36";
}

impl Rule {
    /// The rule of that identifier, in any case of letters.
    #[must_use]
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.id().eq_ignore_ascii_case(id))
    }

    /// Its place in [`Rule::ALL`].
    pub(crate) const fn index(self) -> usize {
        // Flows remember in 64 bits which rules have been called unknown.
        const { assert!(Self::COUNT <= 64) };
        self as usize
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_unique_and_found() {
        for (index, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(Rule::from_id(rule.id()), Some(*rule));
            assert_eq!(rule.index(), index);
        }
        assert_eq!(Rule::from_id("rc-psn-gap"), Some(Rule::RcPsnGap));
        assert_eq!(Rule::from_id("RC-PSN"), None);
    }
}
