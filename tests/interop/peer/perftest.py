"""perftest without -R: its eight programs over path MTU, message size, address family and attachment.

The first part of the table is a covering array: every pair of values of every two factors occurs, and as many triples
as its length allows. After it come the options, several clients at once, and the runs under injected faults.
"""

import dataclasses
import itertools
import re

from . import exchange
from .scenario import FAULT_TIMEOUT, FAULTS, LOSS, Scenario, complaint

PROGRAMS = ("write_bw", "read_bw", "send_bw", "atomic_bw", "write_lat", "read_lat", "send_lat", "atomic_lat")
MTUS = (256, 512, 1024, 2048, 4096)
SIZES = (1, 3, 1023, 1024, 1025, 65536)
FAMILIES = ("ipv4", "ipv6")
ATTACHMENTS = ("tap", "veth")
COVERING_ROWS = 72

FIRST_PORT = 18515
PORTS = {program: FIRST_PORT + number for number, program in enumerate(PROGRAMS)}


@dataclasses.dataclass(frozen=True)
class Client:
    """One run of a perftest program in the guest."""

    program: str
    mtu: int = 1024
    size: int = 1024
    family: str = "ipv4"  # or ipv6, ipv6-link-local, default: no -x, perftest chooses
    iterations: int = 20
    options: tuple = ()
    killed: bool = False  # in the middle of its run

    @property
    def qps(self):
        return int(self.options[self.options.index("-q") + 1]) if "-q" in self.options else 1

    @property
    def services(self):
        return (f"perftest:{self.program}:{PORTS[self.program]}",)

    @property
    def pairs(self):
        return pairs

    @property
    def operations(self):
        return {self.program.split("_")[0]: self.iterations * self.qps}

    def command(self, card):
        words = [f"ib_{self.program}", "-d", card.device, *self.arguments()]
        if self.family != "default":
            words += ["-x", str(card.gids[self.family])]
        return words + [card.server("ipv4")]

    def server_command(self, card):
        gid = [] if self.family == "default" else ["-x", str(card.gids[self.family])]
        return [f"ib_{self.program}", "-d", card.device, *self.arguments(), *gid]

    def check(self, output, status):
        """The program's own word: its status, no word of complaint, and a row of results for all iterations."""
        problem = complaint(f"ib_{self.program}", output, status)
        if problem:
            return [problem]
        row = [line.split() for line in output.splitlines() if re.match(r"\s*\d+\s+\d+\s+[\d.]+", line)]
        size = 8 if self.program.startswith("atomic") else self.size
        if [words[:2] for words in row] != [[str(size), str(self.iterations * self.qps)]]:
            return [f"ib_{self.program}: no result for {self.iterations * self.qps} iterations of {size} bytes"]
        return []

    def arguments(self):
        """perftest's, but for the device, the GID index and the server's name."""
        words = ["-F", "-p", str(PORTS[self.program]), "-m", str(self.mtu), "-n", str(self.iterations)]
        if not self.program.startswith("atomic"):
            words += ["-s", str(self.size)]
        return words + list(self.options)


def pairs(frames):
    """The connected queue pairs, from the exchange on the wire."""
    return exchange.pairs(frames, PORTS.values())


def covering():
    scenarios = []
    for number, (program, mtu, size, family, attachment) in enumerate(_covering_rows()):
        options = _option_variety(program, number)
        if family == "ipv6" and number % 3 == 0:
            family = "ipv6-link-local"
        client = Client(program, mtu, size, family, _iterations(program, size), options)
        what = program if program.startswith("atomic") else f"{program}-{size}"
        words = "".join(options).replace("CMP_AND_SWAP", "cas")
        scenarios.append(Scenario(f"{what}-mtu{mtu}-{family}-{attachment}{words}", attachment, (client,)))
    return scenarios


def options():
    """One option each that the covering rows do not try, or try only mildly."""
    def one(name, attachment, *clients, **more):
        return Scenario(name, attachment, clients, **more)

    every = tuple(Client(program, iterations=10) for program in PROGRAMS)
    return [
        one("default-gid", "veth", Client("write_bw", family="default")),
        one("write_bw-four-qps", "veth", Client("write_bw", size=3000, iterations=96, options=("-q", "4", "-t", "8"))),
        one("read_bw-four-qps", "tap", Client("read_bw", size=3000, iterations=50, options=("-q", "4"))),
        one("send_bw-four-qps", "veth", Client("send_bw", size=3000, iterations=100, options=("-q", "4"))),
        one("atomic_bw-four-qps", "tap", Client("atomic_bw", iterations=50, options=("-q", "4"))),
        one("read_bw-one-outstanding", "veth", Client("read_bw", size=8192, options=("-o", "1"))),
        one("write_bw-post-list", "veth", Client("write_bw", size=64, iterations=1000, options=("-l", "10"))),
        one("send_bw-many-small", "veth", Client("send_bw", size=2, iterations=2000)),
        one("write_bw-megabyte", "veth", Client("write_bw", 4096, 1 << 20, iterations=5)),
        one("read_bw-megabyte", "tap", Client("read_bw", 4096, 1 << 20, iterations=5)),
        one("write_lat-counter-wraps", "veth", Client("write_lat", size=8, iterations=600)),
        one("send_lat-many", "tap", Client("send_lat", size=8, iterations=600)),
        one("every-program-in-turn", "veth", *every),
        one("four-programs-at-once", "veth",
            *(Client(program, 1024, 4096, iterations=200) for program in ("write_bw", "read_bw", "send_bw", "atomic_bw")),
            together=True),
        one("client-killed", "veth",
            Client("write_bw", 1024, 65536, iterations=100000, killed=True),
            Client("write_bw", 1024, 65536, iterations=10)),
    ]


def faults():
    """Loss, duplication and reordering both ways, long enough for ten of each. One acknowledgement answers several
    WRITEs or SENDs, so that those runs take more of them.

    The SENDs are of one packet. rxe's requester, when its timer strikes just as a SEND of several packets has been
    acknowledged in its middle, goes on with a wrong PSN and opcode, and fails; between two rxe it does so too."""
    runs = (
        ("write_bw", "veth", Client("write_bw", 1024, 2048, "ipv4", 3000, FAULT_TIMEOUT)),
        ("read_bw", "veth", Client("read_bw", 1024, 3000, "ipv6", 1000, FAULT_TIMEOUT)),
        ("send_bw", "veth", Client("send_bw", 1024, 1023, "ipv6", 3000, FAULT_TIMEOUT)),
        ("atomic_bw", "veth", Client("atomic_bw", 1024, 8, "ipv4", 1000, FAULT_TIMEOUT)),
        ("write_lat", "tap", Client("write_lat", 1024, 1024, "ipv6", 600, FAULT_TIMEOUT)),
        ("send_lat", "tap", Client("send_lat", 1024, 1024, "ipv4", 600, FAULT_TIMEOUT)),
    )
    return [Scenario(f"faults-{name}", attachment, (client,), FAULTS.format(seed=number + 1), 120)
            for number, (name, attachment, client) in enumerate(runs)]


def lossy():
    """All eight programs at 2 % loss each way, over either family, long enough for ten losses in each direction: a WRITE
    or SEND is acknowledged about once for three, and in the latency tests both sides send."""
    iterations = {"write_bw": 2500, "send_bw": 2500, "write_lat": 400, "send_lat": 400}
    scenarios = []
    for number, (program, family) in enumerate(itertools.product(PROGRAMS, FAMILIES)):
        # SENDs of one packet: see faults().
        size = 3000 if program in ("write_bw", "read_bw") else 1024
        client = Client(program, 1024, size, family, iterations.get(program, 700), FAULT_TIMEOUT)
        attachment = ATTACHMENTS[(number // 2 + number) % 2]
        scenarios.append(Scenario(f"loss-{program}-{family}", attachment, (client,), LOSS.format(seed=number + 1), 120))
    return scenarios


def recovery():
    """Loss, and a responder that drops what is behind a gap: the others hold it. SENDs are of one packet: see
    faults()."""
    runs = (("write_bw", "tap", 3000, 2500), ("read_bw", "veth", 3000, 700),
            ("send_bw", "tap", 1024, 2500), ("atomic_bw", "veth", 8, 700))
    return [Scenario(f"go-back-n-{program}", attachment,
                     (Client(program, 1024, size, "ipv4", iterations, FAULT_TIMEOUT),),
                     LOSS.format(seed=number + 21), 120, serve=("--recovery", "go-back-n"))
            for number, (program, attachment, size, iterations) in enumerate(runs)]


def newer():
    """The eight programs once each from the newer kernel, and its newer perftest, and four of them at 2 % loss."""
    scenarios = []
    for number, program in enumerate(PROGRAMS):
        family, attachment = FAMILIES[number % 2], ATTACHMENTS[number // 2 % 2]
        client = Client(program, MTUS[-1 - number % 3], 65536 if program.endswith("bw") else 1025, family)
        scenarios.append(Scenario(f"newer-{program}-{family}", attachment, (client,), kernel="newer"))
    for number, (program, size, iterations) in enumerate((("write_bw", 3000, 2500), ("read_bw", 3000, 700),
                                                          ("send_bw", 1024, 2500), ("atomic_bw", 8, 700))):
        family = FAMILIES[(number + 1) % 2]
        client = Client(program, 1024, size, family, iterations, FAULT_TIMEOUT)
        scenarios.append(Scenario(f"newer-loss-{program}-{family}", ATTACHMENTS[number % 2], (client,),
                                  LOSS.format(seed=number + 1), 120, kernel="newer"))
    return scenarios


def hostile():
    """Every program in turn, while somebody else sends the responder mutated frames."""
    clients = tuple(Client(program, 1024, 4096, iterations=200) for program in PROGRAMS if program != "write_lat")
    return [Scenario("hostile-neighbour", "veth", clients + (Client("write_lat", size=64, iterations=200),),
                     hostile=True, seconds=60)]


def _covering_rows():
    """Greedy, and the same every time: of all rows, take the one that covers most pairs not covered yet, then most
    triples. An atomic's size is fixed, so its rows stand for all sizes at once and count for none."""
    factors = (PROGRAMS, MTUS, SIZES, FAMILIES, ATTACHMENTS)
    candidates = list(itertools.product(*factors))
    candidates = [row for row in candidates if not row[0].startswith("atomic") or row[2] == SIZES[0]]
    groups = {width: list(itertools.combinations(range(len(factors)), width)) for width in (2, 3)}

    def covers(row, width):
        atomic = row[0].startswith("atomic")
        return {(group, tuple(row[i] for i in group)) for group in groups[width] if not (atomic and 2 in group)}

    missing = {width: set().union(*(covers(row, width) for row in candidates)) for width in groups}
    rows = []
    while len(rows) < COVERING_ROWS or missing[2]:
        best = max(candidates, key=lambda row: (len(covers(row, 2) & missing[2]), len(covers(row, 3) & missing[3])))
        rows.append(best)
        candidates.remove(best)
        for width in groups:
            missing[width] -= covers(best, width)
    return sorted(rows, key=lambda row: (PROGRAMS.index(row[0]), row[1:]))


def _iterations(program, size):
    if size >= 65536:
        return 8
    # A multiple of every -t below: perftest counts completions in steps of it, and with several queue pairs and a
    # remainder it can take the others' surplus for those of one that is not done, and wait for ever.
    return 20 if program.endswith("lat") else 64


def _option_variety(program, number):
    if program.endswith("lat"):
        return ()
    choices = [(), ("-q", "2"), ("-t", "1"), ("-t", "16", "-q", "4"), ()]
    if program.startswith(("read", "atomic")):
        choices += [("-o", "2"), ("-o", "16")]
    if program.startswith("atomic"):
        choices += [("-A", "CMP_AND_SWAP"), ("-A", "CMP_AND_SWAP", "-q", "2")]
    return choices[number % len(choices)]
