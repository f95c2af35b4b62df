"""librdmacm's ucmatose and udaddy in the guest against ours, either side: messages over connections that RDMA CM makes,
and datagrams to a queue pair that it finds."""

import dataclasses
import itertools
import operator

from . import wire
from .scenario import LOSS, Scenario, complaint

UCMATOSE_PORT, UDADDY_PORT = 7471, 7174
_SEND_LAST, _SEND_ONLY = 0x02, 0x04
_UD_SEND_ONLY_IMMEDIATE = 0x65


@dataclasses.dataclass(frozen=True)
class Ucmatose:
    """`ucmatose -s`: the server sends first, the client sends back what it has received. Our server looks at that."""

    family: str = "ipv4"
    connections: int = 1
    count: int = 10
    size: int = 100
    killed: bool = False

    program = "ucmatose"
    binary = "roce-responder"
    listens = "sleep 1"  # an RDMA CM listener shows nowhere
    qps = 0
    pairs = None  # our server compares what comes back
    operations = {}

    @property
    def services(self):
        return (f"ucmatose:{UCMATOSE_PORT},count={self.count},size={self.size}",)

    def command(self, card):
        return ["ucmatose", "-s", card.server(self.family), "-f", "ip", "-c", str(self.connections),
                "-C", str(self.count), "-S", str(self.size)]

    def check(self, output, status):
        if " rounds" in output:
            return self.check_ours(output, status)
        problem = complaint("ucmatose", output, status)
        if problem:
            return [problem]
        wanted = ("data transfers complete", "return status 0")
        return [f"ucmatose does not say: {words}" for words in wanted if words not in output][:1]

    # Ours against the guest's.

    def server(self, card):
        return ["ucmatose", "-b", card.client(self.family), "-f", "ip", "-C", str(self.count), "-S", str(self.size)]

    def check_server(self, output, status):
        return Ucmatose.check(self, output, status)

    def arguments(self, card, place):
        return ["ucmatose", *place.words(), "-s", card.client(self.family), "-C", str(self.count), "-S", str(self.size)]

    def check_ours(self, output, status):
        problem = complaint("roce-responder ucmatose", output, status)
        return [problem] if problem else [] if f"done, {self.count} rounds" in output else [output.strip()[-200:]]

    def check_frames(self, frames):
        """As many messages each way as were asked for, and the client's are the server's."""
        return _check_counts(frames, (_SEND_LAST, _SEND_ONLY), self.connections * self.count)


@dataclasses.dataclass(frozen=True)
class Udaddy:
    """`udaddy -s`: finds the server's queue pair by SIDR, sends datagrams, and waits for as many."""

    family: str = "ipv4"
    connections: int = 1
    count: int = 10
    size: int = 100
    killed: bool = False

    program = "udaddy"
    qps = 0
    pairs = None
    operations = {}

    @property
    def services(self):
        return (f"udaddy:{UDADDY_PORT}",)

    def command(self, card):
        return ["udaddy", "-s", card.server(self.family), "-f", "ip", "-c", str(self.connections),
                "-C", str(self.count), "-S", str(self.size)]

    def check(self, output, status):
        problem = complaint("udaddy", output, status)
        if problem:
            return [problem]
        wanted = ("data transfers complete", "return status 0")
        return [f"udaddy does not say: {words}" for words in wanted if words not in output][:1]

    def check_frames(self, frames):
        return _check_counts(frames, (_UD_SEND_ONLY_IMMEDIATE,), self.connections * self.count)


@dataclasses.dataclass(frozen=True)
class UdaddyThere(Udaddy):
    """Ours against `udaddy` in the guest. That one has one buffer for both ways, and sends from where the area for a GRH
    is when something comes: its answers are that area and the beginning of what has come. Our client looks at that."""

    binary = "roce-responder"
    listens = "sleep 1"  # an RDMA CM listener shows nowhere

    def server(self, card):
        return ["udaddy", "-b", card.client(self.family), "-f", "ip", "-C", str(self.count), "-S", str(self.size)]

    def check_server(self, output, status):
        return Udaddy.check(self, output, status)

    def arguments(self, card, place):
        return ["udaddy", *place.words(), "-s", card.client(self.family), "-C", str(self.count), "-S", str(self.size)]

    def check(self, output, status):
        problem = complaint("roce-responder udaddy", output, status)
        return [problem] if problem else [] if f"done, {self.count} rounds" in output else [output.strip()[-200:]]

    def check_frames(self, frames):
        return _check_counts(frames, (_UD_SEND_ONLY_IMMEDIATE,), self.count, _behind_the_area)


def _behind_the_area(there, back):
    """Whether answers are 40 bytes and the beginning of what was sent."""
    return {each[40:] for each in back} == {each[:-40] for each in there}


def _check_counts(frames, ends, wanted, answers=operator.eq):
    """Messages by direction, told by who sent the first packet that ends one; each PSN of a queue pair once. `answers`
    says whether payloads are answered by others."""
    ended, payloads = {}, {}
    for _, frame, _ in frames:
        packet = wire.roce(frame)
        if packet and packet.qpn != 1 and packet.opcode in ends:
            ended.setdefault(packet.source, set()).add((packet.qpn, packet.psn))
            payloads.setdefault(packet.source, set()).add(frame[packet.payload_offset:packet.payload_end])
    counts = [len(each) for each in ended.values()]
    problems = []
    if counts != [wanted] * 2:
        problems.append(f"{' and '.join(map(str, counts)) or 'no'} messages by sender, {wanted} each way wanted")
    if len(payloads) == 2 and not any(answers(*pair) for pair in itertools.permutations(payloads.values())):
        problems.append("what was sent there is not what was sent back")
    return problems


def programs():
    scenarios = []
    for family in ("ipv4", "ipv6"):
        for attachment in ("veth", "tap"):
            scenarios.append(Scenario(f"ucmatose-{family}-{attachment}", attachment, (Ucmatose(family),)))
            scenarios.append(Scenario(f"udaddy-{family}-{attachment}", attachment, (Udaddy(family),)))
    return scenarios + [
        Scenario("ucmatose-four-connections", "veth", (Ucmatose("ipv4", 4, 20, 5000),)),
        Scenario("ucmatose-long", "tap", (Ucmatose("ipv6", 1, 5, 65536),)),
        Scenario("udaddy-four-resolutions", "veth", (Udaddy("ipv4", 4, 20, 1000),)),
        Scenario("udaddy-long", "tap", (Udaddy("ipv6", 1, 5, 4096),)),
        *(Scenario(f"ucmatose-ours-{family}", attachment, (Ucmatose(family, 1, 20, 5000),), ours="client")
          for family, attachment in (("ipv4", "veth"), ("ipv6", "tap"))),
        *(Scenario(f"udaddy-ours-{family}", attachment, (UdaddyThere(family, 1, 20, 1000),), ours="client")
          for family, attachment in (("ipv4", "veth"), ("ipv6", "tap"))),
        Scenario("ucmatose-then-udaddy", "veth", (Ucmatose(), Udaddy())),
    ]


def lossy():
    """2 % loss each way, ten losses in each direction. One packet a message: see perftest.faults(). A lost MAD, or the
    loss that rxe's timer has to make good, costs seconds."""
    return [Scenario(f"loss-ucmatose-{family}", attachment, (Ucmatose(family, 2, 512, 500),), LOSS.format(seed=seed), 170)
            for family, attachment, seed in (("ipv4", "veth", 81), ("ipv6", "tap", 82))]
