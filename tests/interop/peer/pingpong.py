"""rdma-core's ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong: a message goes there and comes back, either side being ours."""

import dataclasses
import ipaddress
import re

from . import exchange, wire
from .scenario import LOSS, Scenario, complaint

PORTS = {"rc": 18535, "uc": 18536, "ud": 18537}
FAMILIES = ("ipv4", "ipv6", "ipv6-link-local")

_ADDRESS = re.compile(rb"([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{32})\0")
_PAGE = 4096
_SERVICE = {"rc": 0, "uc": 1, "ud": 3}  # the upper three bits of the opcode
_STARTS, _ENDS = {0x00, 0x04}, {0x02, 0x04}  # SEND First and Only, Last and Only, in the lower five


@dataclasses.dataclass(frozen=True)
class PingPong:
    """A run of one of the programs in the guest, against our server or, in a scenario whose `ours` is "client", as server
    of our client. Both look at what they receive (-c)."""

    transport: str
    size: int = 4096
    iterations: int = 20
    mtu: int = 1024
    family: str = "ipv4"
    killed: bool = False

    binary = "roce-responder"
    qps = 1

    @property
    def program(self):
        return f"ibv_{self.transport}_pingpong"

    @property
    def port(self):
        return PORTS[self.transport]

    @property
    def services(self):
        mtu = "" if self.transport == "ud" else f",mtu={self.mtu}"
        return (f"pingpong:{self.transport}:{self.port}{mtu},iterations={self.iterations},check",)

    @property
    def operations(self):
        return {"send": self.iterations}

    @staticmethod
    def pairs(frames):
        """The connected queue pairs, from the exchange on the wire. It names no region."""
        found = []
        for port, client, server in exchange.streams(frames, PORTS.values()):
            ends = [_end(stream) for stream in (client, server)]
            if None not in ends:
                found.append(exchange.Pair(port, *ends))
        return found

    def command(self, card):
        return [*self.server(card), card.server("ipv4")]

    def check(self, output, status):
        """Either client's own words: the programs' last two lines, which ours prints too."""
        problem = complaint(self.program, output, status)
        if problem:
            return [problem]
        wanted = (f"{2 * self.size * self.iterations} bytes in ", f"{self.iterations} iters in ")
        missing = [words for words in wanted if not any(line.startswith(words) for line in output.splitlines())]
        return [f"{self.program} does not say: {missing[0]}"] if missing else []

    def server(self, card):
        return [self.program, "-d", card.device, "-g", str(card.gids[self.family]), "-p", str(self.port),
                "-s", str(self.size), "-n", str(self.iterations), *self._mtu(), "-c"]

    def _mtu(self):
        return [] if self.transport == "ud" else ["-m", str(self.mtu)]

    @property
    def listens(self):
        return f"netstat -ltn | grep -q ':{self.port} '"

    def check_server(self, output, status):
        bad = next((line for line in output.splitlines() if "invalid data" in line), None)
        return [f"{self.program} said: {bad}"] if bad else self.check(output, status)

    def arguments(self, card, place):
        return ["pingpong", self.transport, card.client("ipv4"), *place.words(), "--tcp-port", str(self.port),
                "--gid", place.addresses[FAMILIES.index(self.family)], "-s", str(self.size),
                "-n", str(self.iterations), *self._mtu(), "-c"]

    def check_frames(self, frames):
        """On the wire: as many messages each way as were asked for, each as it was sent when it comes back, and each
        page of it beginning with what the programs look for."""
        return [problem for pair in self.pairs(frames) if pair.port == self.port
                for problem in self.check_pair(frames, pair)][:3]

    def check_pair(self, frames, pair, pages=True):
        there, back = (messages(frames, self.transport, *ends) for ends in
                       ((pair.client, pair.server), (pair.server, pair.client)))
        problems = []
        if [len(there), len(back)] != [self.iterations] * 2:
            problems.append(f"{len(there)} messages there and {len(back)} back, {self.iterations} wanted")
        for number, (sent, returned) in enumerate(zip(there, back)):
            if len(sent) != self.size:
                problems.append(f"message {number} has {len(sent)} bytes, not {self.size}")
            elif sent != returned:
                problems.append(f"message {number} came back changed")
            elif pages and any(sent[::_PAGE]):
                problems.append(f"a page of message {number} does not begin with 0")
        return problems


def messages(frames, transport, sender, receiver):
    """What one side has SENT to the other, each PSN once and in order. Frames without a source QP: a flow is told by
    where it goes, and by its first PSN."""
    packets = {}
    for _, frame, _ in frames:
        packet = wire.roce(frame)
        if packet and packet.qpn == receiver.qpn and packet.destination == receiver.address \
                and packet.opcode >> 5 == _SERVICE[transport] and packet.opcode & 0x1F <= 0x05:
            packets.setdefault((packet.psn - sender.psn) % 2**24, (packet, frame))
    found, message = [], b""
    for distance, (packet, frame) in sorted(packets.items()):
        payload = frame[packet.payload_offset:packet.payload_end]
        message = payload if packet.opcode & 0x1F in _STARTS else message + payload
        if packet.opcode & 0x1F in _ENDS:
            found.append(message)
        del distance
    return found


def _end(stream):
    match = _ADDRESS.match(stream)
    if match is None:
        return None
    gid = ipaddress.IPv6Address(bytes.fromhex(match[4].decode()))
    return exchange.End(gid.ipv4_mapped or gid, int(match[2], 16), int(match[3], 16), None, None)


def both_ways():
    """Sizes around the path MTU and the page, over each family and attachment, the guest being client and server."""
    rows = (
        PingPong("rc", 4096, 50), PingPong("rc", 1, 50, 256, "ipv6"), PingPong("rc", 1024, 20, 1024, "ipv6-link-local"),
        PingPong("rc", 4097, 20, 4096, "ipv6"), PingPong("rc", 65536, 10, 2048), PingPong("rc", 1_000_000, 3, 4096),
        PingPong("uc", 4096, 50), PingPong("uc", 1, 50, 256, "ipv6"), PingPong("uc", 1024, 20, 1024, "ipv6-link-local"),
        PingPong("uc", 4097, 20, 4096, "ipv6"), PingPong("uc", 65536, 10, 2048),
        PingPong("ud", 2048, 50, 4096), PingPong("ud", 1, 50, 4096, "ipv6"), PingPong("ud", 4096, 20, 4096, "ipv6"),
        PingPong("ud", 1000, 20, 4096, "ipv6-link-local"),
    )
    scenarios = []
    for number, each in enumerate(rows):
        name = f"{each.transport}_pingpong-{each.size}-mtu{each.mtu}-{each.family}"
        attachments = ("tap", "veth") if number % 2 else ("veth", "tap")
        scenarios.append(Scenario(f"{name}-{attachments[0]}", attachments[0], (each,)))
        scenarios.append(Scenario(f"our-{name}-{attachments[1]}", attachments[1], (each,), ours="client"))
    return scenarios


def lossy():
    """2 % loss each way, long enough for ten losses in each direction. Of one packet: see perftest.faults(). The
    programs ask for a timeout of 67 ms, which rxe waits out for most losses."""
    scenarios = []
    for number, (ours, family) in enumerate((ours, family) for ours in ("server", "client")
                                            for family in ("ipv4", "ipv6")):
        each = PingPong("rc", 1024, 500, 1024, family)
        name = f"loss-{'our-' if ours == 'client' else ''}rc_pingpong-{family}"
        scenarios.append(Scenario(name, ("veth", "tap")[number % 2], (each,), LOSS.format(seed=number + 21), 180,
                                  ours=ours))
    return scenarios
