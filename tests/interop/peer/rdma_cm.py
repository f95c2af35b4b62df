"""What begins by RDMA CM: rping, either side."""

import dataclasses
import re

from .scenario import LOSS, Scenario, complaint

RPING_PORT = 7174


@dataclasses.dataclass(frozen=True)
class Rping:
    """`rping -c -V` in the guest against our server, or ours against `rping -s` there; it looks at what comes back."""

    family: str = "ipv4"
    count: int = 10
    size: int = 64
    port: int = RPING_PORT
    killed: bool = False

    program = "rping"
    qps = 1
    pairs = None  # rping looks at the data itself
    binary = "roce-responder"

    @property
    def operations(self):
        return {}

    @property
    def services(self):
        return (f"rping:{self.port}",)

    def command(self, card):
        return ["rping", "-c", "-v", "-V", "-a", card.server(self.family), *self._words()]

    def check(self, output, status):
        problem = complaint("rping", output, status)
        if problem:
            return [problem]
        heads = re.findall(r"ping data: rdma-ping-(\d+): ", output)
        if heads == [str(number) for number in range(self.count)] or "rounds" in output:
            return [] if "rounds" not in output or f"{self.count} rounds" in output else [f"rping said: {output.strip()}"]
        return [f"rping: {len(heads)} of {self.count} pings came back"]

    def _words(self):
        return ["-C", str(self.count), "-S", str(self.size), "-p", str(self.port)]

    # Ours against the guest's.

    def server(self, card):
        return ["rping", "-s", "-v", "-a", card.client(self.family), *self._words()]

    @property
    def listens(self):
        # An RDMA CM listener shows nowhere but in the port that rxe's module is asked for; give it a moment.
        return "sleep 1"

    def check_server(self, output, status):
        heads = re.findall(r"server ping data: rdma-ping-(\d+): ", output)
        if heads != [str(number) for number in range(self.count)]:
            return [f"the guest's rping saw {len(heads)} of {self.count} pings, status {status}: {output[-200:]}"]
        return []

    def arguments(self, card, place):
        return ["rping", *place.words(), "--client", card.client(self.family), "--rping-port", str(self.port),
                "--count", str(self.count), "--size", str(self.size), "--verify"]


def rping():
    scenarios = []
    for family in ("ipv4", "ipv6"):
        for attachment in ("veth", "tap"):
            scenarios.append(Scenario(f"rping-{family}-{attachment}", attachment, (Rping(family),)))
        scenarios.append(Scenario(f"rping-ours-{family}", "veth", (Rping(family),), ours="client"))
    return scenarios + [
        Scenario("rping-long", "veth", (Rping(size=20000, count=20), Rping("ipv6", size=65535, count=3))),
        Scenario("rping-ours-long", "veth", (Rping(size=20000, count=20),), ours="client"),
        Scenario("rping-four-at-once", "veth", tuple(Rping(count=20, size=200 + n) for n in range(4)), together=True),
    ]


def lossy():
    """One lost MAD costs 4 s, and so does the loss of an answer: rxe's ACK timeout by RDMA CM is 2 s, doubled."""
    return [
        Scenario("lossy-rping", "veth", (Rping(count=150, size=3000),), fault=LOSS.format(seed=71), seconds=170),
        Scenario("lossy-rping-ours", "veth", (Rping(count=150, size=3000),), fault=LOSS.format(seed=72), seconds=170,
                 ours="client"),
    ]
