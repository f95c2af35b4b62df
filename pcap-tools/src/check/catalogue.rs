//! The page of each rule: what it asks for, when the capture cannot tell, what to look at.

mod fabric;

use super::rule::Rule;

impl Rule {
    /// What the rule asks for, in one line.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.text().0
    }

    /// The rule's page, as `roce-pcap explain` prints it below the heading.
    #[must_use]
    pub const fn page(self) -> &'static str {
        self.text().1
    }

    const fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::IpUdpLength => (
                "The lengths in the IP and UDP headers agree",
                "IPv4's total length less its header, IPv6's payload length, and UDP's length are \
the same number. Receivers take the ICRC from where the IP length says the packet ends, so a packet \
whose lengths disagree is dropped.\n\n\
Bytes after the IP packet (Ethernet padding) do not count.",
            ),
            Self::IpFragment => (
                "RoCEv2 packets are not fragmented",
                "No receiver puts fragments of RoCEv2 together. A fragment means that a router \
between the two hosts has a smaller MTU than the path MTU calls for, and that the sender did not set \
the don't-fragment flag (see IPV4-DF).\n\n\
Only the first fragment of a packet shows its UDP port; later ones count as other traffic.",
            ),
            Self::Ipv4Options => (
                "IPv4 headers carry no options",
                "The RoCEv2 annex asks for a header length of five words. NICs parse packets at \
fixed offsets and drop what has options.",
            ),
            Self::Ipv4Df => (
                "IPv4 packets carry the don't-fragment flag",
                "A packet that may be fragmented on its way arrives in pieces that no receiver \
puts together. Most receivers do not look at the flag.",
            ),
            Self::RoceLength => (
                "There is room for every header, the pad and the ICRC",
                "Measured from the BTH: 12 bytes, the extension headers the opcode calls for, as \
many pad bytes as the BTH counts, and 4 bytes of ICRC. The shortest RoCEv2 packet has a UDP length \
of 24.\n\n\
Unknown where the capture's snap length cut the headers.",
            ),
            Self::RoceIcrc => (
                "The ICRC is right",
                "CRC-32 over eight bytes of ones, IP, UDP, BTH, extension headers, payload and \
pad, with the fields that may change on the way set to ones: IPv4 type of service, time to live and \
checksum; IPv6 traffic class, flow label and hop limit; UDP checksum; BTH byte 4. It is stored \
least significant byte first; both values here are in wire order.\n\n\
A wrong one means damage on the way, or a box that rewrote addresses, ports or the BTH without a new \
ICRC. Nothing else in such a packet is judged. Or it was computed wrongly: known mistakes are tried, \
and named where they give the value found. Among them: Linux rxe's FLUSH, whose ICRC covers BTH, FETH \
and RETH a second time, unmasked; rxe up to 2019, which left the pad bytes out; the byte order; the \
complement or the eight bytes of ones forgotten; fields not masked; VLAN tags or Ethernet padding \
covered; the ICRC at the end of a padded frame. Chance names one less than once in two million \
damaged packets.\n\n\
Unknown where the device profile names the mistake (`check --profile rxe`: its FLUSH), where the \
capture cut the packet, or where the field is zero because the packet was captured \
before the sender's hardware filled it in.",
            ),
            Self::IbVcrc => (
                "The CRC of the last link is right",
                "Native InfiniBand packets end in a CRC of 16 bits over everything from the LRH \
on, made anew by each link. A wrong one with a right ICRC means damage on the last link, behind \
it, or a tool that changed the packet. Packets without it (the capture left it out) are not judged.",
            ),
            Self::BthVersion => (
                "The transport header version is 0",
                "There is no other version. Receivers drop the packet.",
            ),
            Self::BthReserved => (
                "Reserved bits of the BTH are zero",
                "Six bits beside FECN and BECN and seven beside the acknowledge request. \
Receivers ignore them, so this is for information. The first six are not covered by the ICRC: a \
switch may have set them.",
            ),
            Self::BthPad => (
                "The pad count fits the payload",
                "Payload and pad together end on a multiple of four bytes, and there are no more \
pad bytes than that takes.",
            ),
            Self::BthPadBytes => (
                "Pad bytes are zero",
                "Senders write zeroes. Receivers do not look, but the ICRC covers them.",
            ),
            Self::BthOpcode => (
                "The opcode has a meaning",
                "Reserved opcodes are dropped. 0x80 is the congestion notification of native \
InfiniBand; RoCEv2's is 0x81.\n\n\
Unknown for the range left to manufacturers, 0xC0 to 0xFF.",
            ),
            Self::BthAckReq => (
                "Unreliable services ask for no acknowledgement",
                "There is no acknowledgement on UC and UD. Receivers ignore the bit, so this is for \
information. Linux sets it on management datagrams, where it is not reported.",
            ),
            Self::PayloadLength => (
                "The payload has a length that its opcode allows",
                "First and Middle packets carry exactly one path MTU (256, 512, 1024, 2048 or \
4096 bytes), Last at least one byte, Only up to 4096, ATOMIC WRITE eight, and requests and answers \
without data none. A responder answers other lengths with an invalid-request NAK.",
            ),
            Self::PayloadMtu => (
                "The payload fits the path MTU of its connection",
                "The first First or Middle packet shows the path MTU; it stays the same for the \
life of the connection, in both directions. First and Middle packets carry exactly that much, others \
no more.\n\n\
Judged only where the packet follows the one before it; elsewhere the queue pair may serve another \
connection.",
            ),
            Self::RethDmaLen => (
                "No message is longer than 2147483648 bytes",
                "The DMA length in the RETH is the length of the whole message, at most 2^31 \
bytes. A responder answers more with an invalid-request NAK.",
            ),
            Self::AethSyndrome => (
                "The syndrome has a meaning and fits its packet",
                "Acknowledge packets carry an ACK, an RNR NAK or one of five NAK codes; READ \
responses and atomic acknowledges carry an ACK, since a refusal has a packet of its own.",
            ),
            Self::CnpFormat => (
                "A congestion notification packet has its fixed form",
                "Opcode 0x81 with BECN set, no solicited event, MigReq, acknowledge request or \
PSN, and sixteen reserved bytes of zero. Its UDP source port may be anything.",
            ),
            Self::MadQp1 => (
                "What goes to QP1 is a management datagram",
                "A UD SEND of 256 bytes from QP1 with Q_Key 0x80010000 and MAD base version 1. \
The connection manager drops everything else, and connections time out.",
            ),
            Self::QpService => (
                "A queue pair keeps its service",
                "The upper three bits of the opcode are the service, a property of the queue \
pair. A packet of another service is dropped silently.\n\n\
Judged only where the PSN is the one that comes next; elsewhere the QPN may have a new owner.",
            ),
            Self::RcMessageOrder => (
                "First, Middle and Last come in order",
                "After a First or Middle comes a Middle or Last of the same operation, after a \
Last or Only something that starts a message. A responder answers anything else with an \
invalid-request NAK. Holds for RC, XRC and UC.\n\n\
Judged only between packets whose PSNs follow each other: what was lost between others is not known.",
            ),
            Self::RcWriteLength => (
                "A WRITE carries the bytes its RETH promises",
                "The payloads from First to Last (or of the Only) add up to the DMA length. A \
responder answers anything else with an invalid-request NAK.\n\n\
Judged only where every packet of the message was captured in order.",
            ),
            Self::RcPsnGap => (
                "PSNs follow each other",
                "Never a violation by itself, hence unknown: the missing packets may have \
been lost in the network before the tap, dropped by the tap or its buffers, or come later in the \
file (several paths, merged mirrors). A sequence NAK for the first missing PSN says that the \
responder missed them too. A second tap (`check --second-tap`) that has them settles it: it passes \
then.\n\n\
What to look at: drop counters of the switches on the way (congestion without PFC or ECN), and of \
the capture itself.",
            ),
            Self::RcPsnDuplicate => (
                "A PSN is sent again for a reason",
                "A packet that equals an earlier one in every bit that the ICRC covers, within 100 \
us, is a copy: merged mirrors see packets twice, and so may a network. Hence always unknown, and told \
once a flow. What is sent again later is judged by the other rules.",
            ),
            Self::RcRetransmission => (
                "What is sent again is the same",
                "A request that is sent again has the PSN, opcode, length and contents it had \
before, extension headers and payload to the last byte; only a READ may be cut to what is still missing \
(RC-READ-RETRY).\n\n\
Unknown where the request had been acknowledged: the queue pair then more likely serves a new \
connection. Unknown, too, where only the payload differs: the application may have changed its \
memory meanwhile (perftest does). Linux 7.2 sends ATOMIC WRITEs and FLUSHes again with address 0, \
which the profile rxe explains.",
            ),
            Self::RcReadRetry => (
                "A READ sent again asks for what is left of the first",
                "A READ may be sent again from where its answers broke off: with the PSN of the \
first answer that is missing, the address moved on by one path MTU for each answer before it, the same \
R_Key, and no more than what is left. A responder answers nothing else under an old PSN.\n\n\
Unknown where the READ had been answered already, or the pair of flows is not sure.",
            ),
            Self::RcRetryTime => (
                "A requester waits out its timer before it sends again",
                "Without a NAK, a request comes again when its timer has run out: 4.096 us times \
two to the power of the local ACK timeout, and up to four times as long, counted from the last answer \
that brought progress.\n\n\
Judged where the CM exchange that states the timeout was captured. Too soon is unknown, since \
the application may have set another timeout, and devices have adaptive modes; it fails where the device \
profile says that there are none (`check --profile`), and the pair of flows is sure. Too late \
is never told: nobody can see when the timer was stopped.",
            ),
            Self::RcTimeout => (
                "Nothing that was acknowledged is sent again",
                "A request comes again although its acknowledgement passed the tap. Either that was \
lost between the tap and the requester, or it came too late, or the requester does not heed it: Linux \
rxe, for one, ignores a second NAK until there was an ACK, and waits for its timer. Hence always \
unknown.\n\n\
What to look at: a capture at the requester, its drop counters, and the time the responder took.",
            ),
            Self::RcRetryCount => (
                "A requester gives up after as many retries as agreed",
                "Retries without any progress are counted: timeouts against retry_cnt, RNR NAKs \
against rnr_retry (7 is without end). When they are used up the request fails and the queue pair goes \
to error.\n\n\
Judged where the CM exchange was captured. Unknown where retry_cnt is 7, which Linux takes for one \
without end, or the pair of flows is not sure.",
            ),
            Self::RcRnrTimer => (
                "A requester waits as long as an RNR NAK asks",
                "The five bits of an RNR NAK are a code for 0.01 to 655.36 ms (0 is the longest), \
and the request it names must not come again sooner. Packets behind it may have been on their way.\n\n\
Unknown where the request had been sent more than once, so that a copy may have been on its way, \
without timestamps, and where the pair of flows is not sure.",
            ),
            Self::RcRnrOperation => (
                "RNR NAKs meet requests that take a receive",
                "SENDs take a receive with their first packet, WRITEs with immediate with their \
last. READs, atomics and other WRITEs take none. Devices that page memory on demand answer those with \
an RNR NAK too: unknown, unless the device profile tells.",
            ),
            Self::RcRnr => (
                "Receives are posted in time",
                "A message came before there was a receive for it. Nobody broke the protocol, hence \
always unknown: the sender waits and tries again. But it costs time, and with a finite rnr_retry in the end the \
connection.",
            ),
            Self::RcRefused => (
                "Requests are not refused",
                "A NAK other than for a sequence error ends the connection: 0x61 invalid request, \
0x62 remote access error, 0x63 remote operational error. The requester asked for what it may not \
have, or the responder gave too little: a capture cannot tell which, hence always unknown. The \
finding says which request it was and what may be wrong with it.\n\n\
What to look at: the R_Key, address and length as the application computed them, the access rights \
of region and queue pair, the size of receives.",
            ),
            Self::RcAfterNak => (
                "After a NAK that ends the connection there is silence",
                "The responder's queue pair is in error: it answers nothing any more. Answers to \
earlier requests go out before the NAK.\n\n\
Unknown where the pair of flows is not sure.",
            ),
            Self::RcAckPsn => (
                "Answers carry PSNs of requests",
                "The PSN of an ACK, a NAK or a READ response is that of a request that was sent. \
Requesters ignore others.\n\n\
RC packets do not name their sender's queue pair, so which flow answers which is learned from \
matching PSNs. Unknown where that is not known yet, where the request may have been missed by the \
tap, and where it was sent before the capture began. A failure needs a pair that has matched many \
times and dozens of later requests that still do not reach the PSN.",
            ),
            Self::RcMsn => (
                "Message sequence numbers only grow, by no more than there are messages",
                "The MSN in an AETH counts the messages the responder has completed; a READ may \
count when it starts. A newer PSN never comes with a smaller MSN, nor with one that grew by more \
than the requests in between.\n\n\
Old answers that come again are not judged: their MSN may be that of then or of now.",
            ),
            Self::RcNakRepeat => (
                "A gap draws one NAK",
                "After a sequence NAK the responder stays silent until the missing PSN arrives. \
Requesters go back at each NAK, so a second one doubles the retransmission.\n\n\
Judged only where the second NAK is no copy of the first and nothing was sent again in between.",
            ),
            Self::RcReadOrder => (
                "READ responses come as First, Middle, Last",
                "Judged between responses whose PSNs follow each other. A response may start anew in \
the middle where a READ was sent again from there.\n\n\
Unknown where a Middle or Last answers the start of a READ that was asked for once: it may ask again \
for the rest of one that the tap has missed.",
            ),
            Self::RcReadResponse => (
                "READ responses carry what their request asked for",
                "Each response but the last carries one path MTU, the last what remains of the \
DMA length, and FLUSH and ATOMIC WRITE are answered by an empty response.\n\n\
Unknown where the request was not seen, the pair of flows is not sure, or the path MTU is not known.",
            ),
            Self::RcAtomicAck => (
                "An atomic acknowledge answers an atomic",
                "The request with its PSN is a COMPARE SWAP or FETCH ADD. A refused atomic is \
answered by an Acknowledge with a NAK instead.\n\n\
Unknown where the request was not seen.",
            ),
            Self::RcReadLimit
            | Self::RcCredit
            | Self::PkeyMatch
            | Self::QkeyMatch
            | Self::CmMad
            | Self::CmOrder
            | Self::CmPsn
            | Self::CmQpn
            | Self::UdpSrcPort
            | Self::EcnCe
            | Self::EcnCnp
            | Self::CnpSpacing
            | Self::CnpCause
            | Self::CnpRate
            | Self::PfcFrame
            | Self::PauseStorm => fabric::text(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_page() {
        for rule in Rule::ALL {
            assert!(rule.title().len() > 10 && !rule.title().ends_with('.'), "{rule}");
            assert!(rule.page().ends_with('.') && !rule.page().contains("  "), "{rule}");
        }
    }
}
