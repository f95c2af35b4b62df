"""guest/flush.c: FLUSH and ATOMIC WRITE, which no program of rdma-core or perftest issues, from the newer kernel."""

import dataclasses
import json

from . import exchange
from .scenario import FAULT_TIMEOUT, LOSS, Scenario, complaint

PORT = 18530
# Where we serve, and where we are the client.
ANSWERS_LOST = REQUESTS_LOST = "tx-drop=0.03,seed={seed}"


@dataclasses.dataclass(frozen=True)
class Flush:
    """One run of it. `refused`: what it must fail with, in the words of ibv_wc_status_str."""

    operation: str  # atomic_write, flush_range or flush_region
    mtu: int = 1024
    family: str = "ipv4"
    count: int = 20
    options: tuple = ()
    refused: str = ""
    killed: bool = False

    qps = 1

    @property
    def program(self):
        return f"flush {self.operation}"

    @property
    def services(self):
        """It connects as ib_atomic_lat does, and does what ib_atomic_lat would not be allowed."""
        return (f"perftest:atomic_lat:{PORT},access=all",)

    @property
    def pairs(self):
        return pairs

    @property
    def operations(self):
        if self.refused:
            return {}
        if self.operation == "atomic_write":
            return {"ATOMIC WRITE": self.count, "read": 1}
        return {"write": self.count, "FLUSH": self.count, "read": 1}

    def words(self, card):
        return ["flush", "-d", card.device, "-x", str(card.gids[self.family]), "-p", str(PORT), "-m", str(self.mtu),
                "-n", str(self.count), *self.options, self.operation]

    def command(self, card):
        return self.words(card) + [card.server("ipv4")]

    def check(self, output, status):
        if self.refused:
            said = f"flush: {self.operation}: {self.refused}"
            return [] if status == 1 and said in output.splitlines() else [f"flush did not say '{said}': {output[-200:]}"]
        problem = complaint("flush", output, status)
        if problem:
            return [problem]
        said = f"{self.operation}: {self.count} done"
        return [] if said in output.splitlines() else [f"flush did not say '{said}'"]


@dataclasses.dataclass(frozen=True)
class Ours(Flush):
    """roce-perf against guest/flush.c as server: ATOMIC WRITEs that count up, or FLUSHes of a region in which nothing is
    written. `operation` is the server's."""

    binary = "roce-perf"
    listens = f"netstat -ltn | grep -q ':{PORT} '"

    @property
    def operations(self):
        return {"ATOMIC WRITE" if self.operation == "counter" else "FLUSH": self.count}

    def arguments(self, card, place):
        kind = {"counter": "ATOMIC_WRITE", "flush_range": "FLUSH_RANGE", "flush_region": "FLUSH_REGION"}[self.operation]
        address = place.addresses[("ipv4", "ipv6").index(self.family)]
        return ["atomic_lat", card.client("ipv4"), *place.words(), "-x", address, "--json", "-p", str(PORT),
                "-m", str(self.mtu), "-n", str(self.count), "-A", kind, *self.options]

    def server(self, card):
        # Of no FLUSH of ours is anything left to be seen: the server is to find its region as it was.
        count = self.count if self.operation == "counter" else 0
        return ["flush", "-d", card.device, "-x", str(card.gids[self.family]), "-p", str(PORT), "-m", str(self.mtu),
                "-n", str(count), self.operation]

    def check(self, output, status):
        if status != 0:
            return [complaint("roce-perf", output, status)]
        rows = [row for line in output.splitlines() if line.startswith("{") and '"results"' in line
                for row in json.loads(line)["results"]]
        if [row["iterations"] for row in rows] != [self.count]:
            return [f"roce-perf reports {rows}"]
        return []

    def check_server(self, output, status):
        count = self.count if self.operation == "counter" else 0
        said = f"{self.operation}: {count} done"
        return [] if status == 0 and said in output.splitlines() else [f"the guest's flush did not say '{said}': {output[-200:]}"]


def pairs(frames):
    return exchange.pairs(frames, (PORT,))


def ours():
    """The same from our side, through the same relay."""
    scenarios = []
    for operation in ("counter", "flush_range", "flush_region"):
        for family in ("ipv4", "ipv6"):
            scenarios.append(Scenario(f"newer-ours-{operation}-{family}", "veth", (Ours(operation, family=family, count=100),),
                                      kernel="newer", ours="client",
                                      rxe_flush="" if operation == "counter" else "repaired"))
    scenarios.append(Scenario("newer-ours-counter-loss", "tap", (Ours("counter", count=700, options=("-u", "12")),),
                              LOSS.format(seed=3), 120, kernel="newer", ours="client"))
    # Requests alone: rxe never answers a FLUSH that it has executed already.
    scenarios.append(Scenario("newer-ours-flush_range-requests-lost", "veth",
                              (Ours("flush_range", count=700, options=("-u", "12")),), REQUESTS_LOST.format(seed=4), 120,
                              kernel="newer", ours="client", rxe_flush="repaired"))
    return scenarios


def flushes():
    """rxe's FLUSHes carry an ICRC of its own making (icrc.of_rxe), which a responder must drop. So they are sent as they
    are once, and are dropped, and then through a relay that puts the right one there.

    Only answers are lost. rxe sends a FLUSH or ATOMIC WRITE again with the address 0, to which an honest responder that
    has not seen the first one can only say: remote access error."""
    def one(name, client, attachment="veth", **more):
        return Scenario(f"newer-{name}", attachment, (client,), kernel="newer", **more)

    scenarios = [
        one("atomic_write-ipv4", Flush("atomic_write", count=600), "tap"),
        one("atomic_write-ipv6", Flush("atomic_write", family="ipv6")),
        one("atomic_write-answers-lost", Flush("atomic_write", count=700, options=FAULT_TIMEOUT),
            fault=ANSWERS_LOST.format(seed=1), seconds=120),
        # rxe takes seven retries for any number of them.
        one("flush-dropped", Flush("flush_range", count=1, options=(*FAULT_TIMEOUT, "-r", "6"),
                                   refused="transport retry counter exceeded"), rxe_flush="dropped"),
    ]
    for operation in ("flush_range", "flush_region"):
        for family in ("ipv4", "ipv6"):
            scenarios.append(one(f"{operation}-{family}", Flush(operation, family=family), rxe_flush="repaired"))
    # WRITEs of one packet, for the reason that perftest.faults() gives: between a WRITE of several and its FLUSH, rxe goes
    # on with a wrong PSN too.
    scenarios.append(one("flush_range-answers-lost", Flush("flush_range", 4096, count=400, options=("-u", "14")),
                         seconds=120, rxe_flush="repaired", fault=ANSWERS_LOST.format(seed=2)))
    return scenarios
