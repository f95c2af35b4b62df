//! Pages of the rules about what surrounds the transport: keys, ports, congestion and pauses.

use super::Rule;

pub(super) const fn text(rule: Rule) -> (&'static str, &'static str) {
    match rule {
        Rule::PkeyMatch => (
            "The P_Keys of a connection's packets match",
            "A queue pair is of one partition: the lower 15 bits of the P_Key. Two keys match if \
those are equal and not zero, and at least one of the two has the upper bit, full membership: 0x2a00 \
and 0xaa00 do, 0x2a00 and 0x2a00 do not. Receivers drop what does not match, silently.\n\n\
Judged against the packets before it in the flow, where a packet certainly follows them.\n\n\
Unknown where the queue pair may have a new owner, for datagrams, whose senders may be several, and \
where only the two directions differ and the CM exchange was not captured. Notifications of congestion \
are not judged.",
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
        Rule::PfcFrame => (
            "PAUSE and PFC frames have their fixed form",
            "To 01:80:c2:00:00:01 (a PAUSE also to the peer's own address), from a single \
station, untagged, EtherType 0x8808, opcode 0x0001 or 0x0101, the upper half of the class-enable \
vector and all reserved bytes zero. A MAC ignores others, and sends on.\n\n\
Unknown for the opcodes of passive optical networks and the extension: MAC control, but no flow \
control.",
        ),
        Rule::PauseStorm => (
            "Pauses end",
            "A sender that keeps a priority paused without a break for 100 ms (or what the device \
profile states) stops that priority on the whole path back to the sources: a NIC whose receive \
pipeline hangs, or a cycle of switches that wait for each other. Watchdogs of switches and NICs act on \
the same time.\n\n\
A pause goes on as long as it is renewed before its quanta, 512 bit times each, run out. Without the \
rate of the link (link_gbps in the profile) only renewals that come in time at 800 Gb/s are certain; \
unknown where they would be in time at 1 Gb/s.\n\n\
What to look at: who sends them. On a host's port it is that host; on a switch's, look further down.",
        ),
        _ => ("", ""),
    }
}
