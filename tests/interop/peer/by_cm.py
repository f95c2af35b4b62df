"""perftest with -R, either side: its connections are made by RDMA CM, and its exchange goes by SENDs over one of them.

perftest 4.5 has -R over IPv4 only, 25.01 over IPv6 too, with an option of its own. So the stock guest has the rows over
IPv4, and the newer one those over IPv6."""

import dataclasses
import itertools
import re

from . import exchange, perf, perftest, wire
from .perftest import ATTACHMENTS, PORTS, PROGRAMS
from .scenario import LOSS, Scenario

_OVER_IPV6 = "--ipv6-addr"
_SEND_ONLY = 0x04
_REQ, _REP = 0x0010, 0x0013
_VERSION = re.compile(rb"\d+\.\d+\0+")


def pairs(frames):
    """The connected queue pairs, from the MADs on the wire, less those whose first SEND is a version: they carry the
    exchange. Which R_Key a pair has is left open."""
    asked, found, exchanges = {}, {}, set()
    for _, frame, _ in frames:
        packet = wire.roce(frame)
        if packet is None:
            continue
        payload = frame[packet.payload_offset:packet.payload_end]
        if packet.opcode == _SEND_ONLY and len(payload) == 16 and _VERSION.fullmatch(payload):
            exchanges.add((packet.destination, packet.qpn))
        if packet.qpn != 1 or len(payload) != 256:
            continue
        attribute, number = int.from_bytes(payload[16:18], "big"), payload[24:28]
        if attribute == _REQ:
            asked[packet.source, number] = (payload[56:59], payload[68:71])
        elif attribute == _REP:
            request = asked.get((packet.destination, payload[28:32]))
            if request is not None:
                # The PSN that one states is the one that the other sends first.
                found.setdefault((packet.destination, payload[28:32]), exchange.Pair(
                    None, _end(packet.destination, request[0], payload[44:47]),
                    _end(packet.source, payload[36:39], request[1])))
    return [pair for pair in found.values() if (pair.server.address, pair.server.qpn) not in exchanges]


def _end(address, qpn, psn):
    return exchange.End(address, int.from_bytes(qpn, "big"), int.from_bytes(psn, "big"), None, None)


@dataclasses.dataclass(frozen=True)
class Client(perftest.Client):
    """One run of a perftest program in the guest with -R, against our server."""

    @property
    def pairs(self):
        return pairs

    def command(self, card):
        return [f"ib_{self.program}", "-d", card.device, "-R", *_family(self.family), *self.arguments(),
                card.server(self.family)]

    server_command = None


class Regular(Client):
    """With -z in place of -R: the exchange alone goes by SENDs, and it connects the queue pairs."""

    pairs = None
    operations = {}

    def command(self, card):
        return ["-z" if word == "-R" else word for word in super().command(card)]


@dataclasses.dataclass(frozen=True)
class Perf(perf.Perf):
    """roce-perf -R against a server of perftest's in the guest."""

    listens = "rdma resource show cm_id | grep -q LISTEN"

    @property
    def pairs(self):
        return pairs

    def arguments(self, card=None, place=None):
        words = super().arguments()
        if place is None:
            return ["-R", *words]
        return [self.program, card.client(self.family), *place.words(), "-R", "--json", *words, *self.ours]

    def server(self, card):
        return [f"ib_{self.program}", "-F", "-d", card.device, *_family(self.family), *self.arguments(), *self.theirs]


def _family(family):
    return [_OVER_IPV6] if family == "ipv6" else []


def served():
    """Every program against our server, from either guest, and what differs with -R."""
    return [
        *_every("cm", Client),
        Scenario("cm-write_bw-four-qps", "tap", (Client("write_bw", size=3000, options=("-q", "4", "-t", "5")),)),
        Scenario("cm-send_bw-two-qps", "veth", (Client("send_bw", size=3000, options=("-q", "2", "-t", "5")),)),
        Scenario("cm-four-programs-at-once", "veth",
                 tuple(Client(program, 1024, 4096, iterations=100) for program in PROGRAMS[:4]), together=True),
        Scenario("cm-client-killed", "veth", (Client("write_bw", 1024, 65536, iterations=100000, killed=True),
                                              Client("write_bw", 1024, 65536, iterations=10))),
        Scenario("cm-regular-pairs", "veth", (Regular("read_bw", size=3000),)),
    ]


def asked():
    """roce-perf -R against every server, in either guest."""
    return [
        *_every("perf-cm", Perf),
        _ours("write_bw-four-qps", "tap", Perf("write_bw", size=3000, options=("-q", "4", "-t", "5"))),
        _ours("send_bw-two-qps", "veth", Perf("send_bw", size=3000, options=("-q", "2", "-t", "5"))),
    ]


def lossy():
    """Every program at 2 % loss each way, long enough for ten losses in each direction, as of perftest without -R.

    The timeout of a guest's connection is RDMA CM's, 0.3 s at the newer kernel and 2 s at the stock one, so that it is
    the newer guest that asks. Of ours, -u is what both sides have."""
    iterations = {"write_bw": 2500, "send_bw": 2500, "write_lat": 600, "send_lat": 600}
    scenarios = []
    for number, program in enumerate(PROGRAMS):
        of_theirs = Client(program, 1024, 1024, "ipv6", iterations.get(program, 900))
        scenarios.append(Scenario(f"newer-cm-loss-{program}", ATTACHMENTS[number % 2], (of_theirs,),
                                  LOSS.format(seed=number + 91), 120, kernel="newer"))
        depth = ("-t", "16") if program.endswith("bw") else ()
        of_ours = Perf(program, 1024, 1024, "ipv4", iterations.get(program, 900), perf.TIMEOUT, ours=depth)
        scenarios.append(_ours(f"loss-{program}", ATTACHMENTS[(number + 1) % 2], of_ours,
                               fault=LOSS.format(seed=number + 111), seconds=120))
    return scenarios


def _every(name, kind):
    """Each program from the stock guest over IPv4, and from the newer one over IPv6."""
    scenarios = []
    for number, (program, (kernel, family)) in enumerate(itertools.product(
            PROGRAMS, (("stock", "ipv4"), ("newer", "ipv6")))):
        size, mtu = (1025, 2048) if program.endswith("lat") else (8192, 1024)
        more = {"ours": "client"} if kind is Perf else {}
        scenarios.append(Scenario(f"{'newer-' if kernel == 'newer' else ''}{name}-{program}-{family}",
                                  ATTACHMENTS[(number // 2 + number) % 2], (kind(program, mtu, size, family, 10),),
                                  kernel=kernel, **more))
    return scenarios


def _ours(name, attachment, client, **more):
    return Scenario(f"perf-cm-{name}", attachment, (client,), ours="client", **more)
