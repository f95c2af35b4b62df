//! Pages of the rules about what surrounds the transport: keys, ports, congestion and pauses.

use super::Rule;

pub(super) const fn text(rule: Rule) -> (&'static str, &'static str) {
    match rule {
        Rule::RcReadLimit => (
            "No more READs and atomics are under way than agreed",
            "READs, atomics, FLUSHes and ATOMIC WRITEs take a slot each at the responder until they \
are answered; REQ and REP agree on how many there are (responder resources). One more is refused as \
an invalid request, and the connection ends.\n\n\
Judged where the exchange was captured. Fails when the responder refuses it, or when the oldest is \
answered at least 50 us later. Unknown where that answer was not seen itself: the tap may have missed \
one, or mirrors of the two directions have clocks that differ.",
        ),
        Rule::RcCredit => (
            "Messages keep to the credits",
            "An acknowledgement may state how many receives the responder has: credits beyond its \
MSN. A requester whose REQ or REP said so (end-to-end flow control) sends SENDs and immediates up to \
there, and one packet more, to ask for news. What comes beyond finds no receive, and draws an RNR NAK.\n\n\
Judged where the exchange was captured, from the first acknowledgement with credits on. Fails when the \
next acknowledgement, at least 50 us later, still has no receive for it.",
        ),
        Rule::PkeyMatch => (
            "The P_Keys of a connection's packets match",
            "A queue pair is of one partition: the lower 15 bits of the P_Key. Two keys match if \
those are equal and not zero, and at least one of the two has the upper bit, full membership: 0x2a00 \
and 0xaa00 do, 0x2a00 and 0x2a00 do not. Receivers drop what does not match, silently.\n\n\
Judged against the P_Key of the REQ that set the connection up; where that was not captured, \
against the packets before it in the flow, if a packet certainly follows them.\n\n\
Unknown where the queue pair may have a new owner, for datagrams, whose senders may be several, and \
where only the two directions differ and the CM exchange was not captured. Notifications of congestion \
are not judged.",
        ),
        Rule::QkeyMatch => (
            "Datagrams carry the Q_Key of their queue pair",
            "A UD queue pair drops what has another Q_Key than its own, silently. A SIDR_REP states \
it to whoever resolves a service.\n\n\
Unknown where no SIDR_REP was captured and datagrams to one queue pair carry different Q_Keys, and for \
Q_Keys with the top bit, which only privileged senders may use. Multicast and QP1 (MAD-QP1) are not \
judged.",
        ),
        Rule::CmMad => (
            "Messages of the connection manager mean something",
            "Class version 2, method Send, an attribute that the connection manager has; a path \
MTU of one of the five codes, a transport, a P_Key that is not 0, a queue pair that can be \
connected, the RDMA IP CM header's versions, no reserved value where a message has a choice. The \
receiver rejects others or drops them, and the connection times out.",
        ),
        Rule::CmOrder => (
            "Messages of the connection manager come in order",
            "REQ, REP, RTU from the side that asked; REJ instead of any of them; DREQ, DREP. \
What contradicts what was seen fails: a REP or RTU from the side that does not send it, the same REQ \
or REP again with other contents, a REP after its sender rejected.\n\n\
Unknown where a message does not follow and the tap may have missed one.",
        ),
        Rule::CmPsn => (
            "Connections start at the PSN stated",
            "The Starting PSN in REQ and REP is that which the receiver of the message sends its \
first request with, unlike in other ways to connect, where each side states its own. A responder that \
was told otherwise drops or refuses everything.\n\n\
Fails when a request that started elsewhere is followed by requests from the PSN stated, or by a \
sequence NAK for it. Unknown where the first requests were not seen, and where nothing tells the \
connection from another one's on the same queue pairs.",
        ),
        Rule::CmQpn => (
            "Connections go to the queue pair stated",
            "Requests go to the QPN in the other side's REQ or REP. Within two seconds of a REP, a \
flow between the same hosts that starts at exactly the PSN stated, before anything went to the queue \
pair stated, is that connection's, with the wrong queue pair.",
        ),
        Rule::UdpSrcPort => (
            "A connected queue pair sends from one UDP port",
            "Switches choose one of several paths by a hash over addresses and ports. RC and UC \
queue pairs keep the port, which spreads connections and keeps each one's packets in order. Any \
number will do: 0xC000 to 0xFFFF is usual, some devices take the QPN.\n\n\
Fails under a device profile that says the port is constant, and is unknown otherwise: multipath \
devices change it by design. UD and notifications of congestion are not judged.\n\n\
What to look at: sequence NAKs without loss are what a port that changes leads to.",
        ),
        Rule::EcnCe => (
            "Only ECN-capable packets are marked",
            "A switch marks CE what says ECT(0) or ECT(1), and drops what says Not-ECT. A mark \
on a packet whose sender has only sent Not-ECT was made by something else: a box on the way that \
rewrites the type of service, or shifts DSCP and ECN wrongly (DSCP is the upper six bits).\n\n\
Judged apart for acknowledgements and the rest. Unknown where fewer than eight packets of the flow \
were seen before.",
        ),
        Rule::EcnCnp => (
            "Marked data leads to a notification of its sender",
            "The receiver of data marked CE sends a congestion notification packet (opcode 0x81) to \
the queue pair it came from. Devices put many marks together: one notification may stand for all within \
some microseconds, and on some devices for other queue pairs too, so marks and notifications are not one \
to one. Marks on acknowledgements, notifications and multicast lead to none.\n\n\
Fails under a device profile that says the device sends notifications and how long that takes at most \
(sends_cnps, cnp_max_delay_ns), when at least four marks 50 us apart stayed without any. Unknown \
otherwise: some devices send none, Linux rxe among them, and notifications have no numbers by which a \
tap's losses show.",
        ),
        Rule::CnpSpacing => (
            "Notifications keep their distance",
            "Devices limit how often they notify: a queue pair, a host or the whole port once in \
some microseconds (50 in the paper on DCQCN). Senders halve their rate for each, so more are harm.\n\n\
Fails under a device profile that states the time (cnp_min_interval_ns, cnp_scope), below half of it: \
what waits on its way comes closer. Unknown between that and the whole, for what may be a mirror's copy, \
and without a profile below 4 us.",
        ),
        Rule::CnpCause => (
            "Notifications are caused by marks",
            "For information, and never more than unknown: where no marked data was seen the other \
way, the tap may be before the switch that marks, and some devices also notify with a sequence NAK.",
        ),
        Rule::CnpRate => (
            "Senders slow down when notified",
            "Fails under a device profile that says the sender heeds notifications (heeds_cnps): \
sixteen in a row, at most 100 us apart, the first after 5 ms without any, and over the last eight of \
them the flow is no slower than nine tenths of what it was before, above 1 Gb/s. Unknown without a profile: senders that go by \
the round-trip time need not heed them.",
        ),
        Rule::PfcFrame => (
            "PAUSE and PFC frames have their fixed form",
            "To 01:80:c2:00:00:01 (a PAUSE also to the peer's own address), from a single \
station, untagged, EtherType 0x8808, opcode 0x0001 or 0x0101, the upper half of the class-enable \
vector and all reserved bytes zero. A MAC ignores others, and sends on.\n\n\
Unknown for the opcodes of passive optical networks and the extension: MAC control, but no flow \
control.",
        ),
        Rule::PauseStorm => (
            "Pauses end in time",
            "A sender that keeps a priority paused without a break for 100 ms (or what the device \
profile states) stops that priority on the whole path back to the sources: a NIC whose receive \
pipeline hangs, or a cycle of switches that wait for each other. Watchdogs of switches and NICs act on \
the same time.\n\n\
A pause goes on as long as it is renewed before its quanta, 512 bit times each, run out. Without the \
rate of the link (if_speed of a pcapng interface, or else link_gbps in the profile) only renewals that come in time at 800 Gb/s are certain; \
unknown where they would be in time at 1 Gb/s.\n\n\
What to look at: who sends them. On a host's port it is that host; on a switch's, look further down.",
        ),
        _ => ("", ""),
    }
}
