"""roce-perf against perftest's own servers in the guest: every program over IPv4 and IPv6, what its options do, and
2 % loss."""

import dataclasses
import itertools
import json

from . import perftest
from .perftest import FAMILIES, PORTS, PROGRAMS
from .scenario import LOSS, Scenario, complaint

# On a loaded machine an emulated guest takes longer than perftest's 67 ms.
PATIENCE = ("-u", "17")  # 537 ms
TIMEOUT = ("-u", "13")  # 34 ms, under loss
ADDRESSES = {"ipv4": 0, "ipv6": 1, "ipv6-link-local": 2}  # places in scenario.Place.addresses
PRINTS_NOTHING = ("read_lat", "atomic_lat")  # as servers
ALL = ("-a", "-u", "18")  # an emulated guest takes a while for 8 MiB
ALL_SIZES = [2**bit for bit in range(1, 24)]


@dataclasses.dataclass(frozen=True)
class Perf(perftest.Client):
    """One run of roce-perf. `options` are given to both sides, `ours` to roce-perf and `theirs` to the server alone;
    `seconds` stands in for the number of iterations."""

    ours: tuple = ()
    theirs: tuple = ()
    seconds: int = 0
    binary = "roce-perf"

    @property
    def services(self):
        return ()

    @property
    def all_sizes(self):
        return "-a" in self.options

    @property
    def operations(self):
        times = len(ALL_SIZES) if self.all_sizes else 1
        return {} if self.seconds else {self.program.split("_")[0]: self.iterations * self.qps * times}

    @property
    def listens(self):
        return f"netstat -ltn | grep -q ':{PORTS[self.program]} '"

    def arguments(self, card=None, place=None):
        """The words that both sides take; those of roce-perf, when it is told where it is."""
        how_long = ["-D", str(self.seconds)] if self.seconds else ["-n", str(self.iterations)]
        words = ["-p", str(PORTS[self.program]), "-m", str(self.mtu), *how_long]
        if not self.program.startswith("atomic") and not self.all_sizes:
            words += ["-s", str(self.size)]
        words += self.options
        if "-u" not in self.options:
            words += PATIENCE
        if place is None:
            return words
        address = place.addresses[ADDRESSES[self.family]]
        return [self.program, card.client("ipv4"), *place.words(), "-x", address, "--json", *words, *self.ours]

    def server(self, card):
        return [f"ib_{self.program}", "-F", "-d", card.device, "-x", str(card.gids[self.family]), *self.arguments(),
                *self.theirs]

    def check(self, output, status):
        problem = complaint("roce-perf", output.replace('"port":', ""), status) if status else None
        if problem:
            return [problem]
        lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"') and '"results"' in line]
        if len(lines) != 1:
            return [f"roce-perf printed {len(lines)} lines of results"]
        problems = []
        rows = lines[0]["results"]
        size = 8 if self.program.startswith("atomic") else self.size
        sizes = ALL_SIZES if self.all_sizes else [size]
        if [row["bytes"] for row in rows] != sizes:
            problems.append(f"roce-perf measured messages of {[row['bytes'] for row in rows]} bytes")
        for row in rows:
            problems += self._check_row(row)
        if lines[0]["path_mtu"] != self.mtu or lines[0]["qps"] != self.qps:
            problems.append(f"roce-perf ran with path MTU {lines[0]['path_mtu']}, {lines[0]['qps']} queue pairs")
        return problems

    def _check_row(self, row):
        wanted = self.iterations * self.qps
        if row["iterations"] < 10 if self.seconds else row["iterations"] != wanted:
            return [f"roce-perf reports {row['iterations']} iterations"]
        latency = row["latency_us"]
        in_order = [0, *(latency[name] for name in ("min", "p50", "p99", "p999", "max"))]
        if latency["samples"] == 0 or in_order != sorted(in_order) or in_order[1] == 0:
            return [f"roce-perf reports latencies of {latency}"]
        if self.program.endswith("bw"):
            bandwidth = row["bandwidth"]
            peak = bandwidth["peak_mib_s"]
            if not 0 < bandwidth["average_mib_s"] <= (peak or float("inf")) * 1.01:
                return [f"roce-perf reports {bandwidth}"]
        return []

    def check_server(self, output, status):
        """A bandwidth server prints what it is told at the end, a pinging one what it has measured itself."""
        if self.program in PRINTS_NOTHING or self.seconds or self.all_sizes:
            problem = complaint(f"ib_{self.program} -F", output, status)
            return [problem] if problem else []
        return super().check(output, status)


def every_server():
    """Each program over either family, path MTUs and sizes in turn. Of large messages by small packets, one READ at a
    time: sixteen of 65536 bytes are 4096 frames, which overflow a veth's queue of 256, and at times a tap's; what is
    lost of them is thousands of frames asked for again."""
    scenarios = []
    sizes = itertools.cycle((1, 1024, 65536, 3, 4097, 1025, 8))
    mtus = itertools.cycle((1024, 4096, 256, 2048, 512))
    for number, (program, family) in enumerate(itertools.product(PROGRAMS, FAMILIES)):
        size, mtu = next(sizes), next(mtus)
        client = Perf(program, mtu, size, family, 100, ours=("-o", "1") if size // mtu > 64 else ())
        attachment = perftest.ATTACHMENTS[(number // 2 + number) % 2]
        scenarios.append(_ours(f"{program}-{size}-mtu{mtu}-{family}", attachment, client))
    return scenarios


def options():
    """One option each."""
    return [
        _ours("link-local", "veth", Perf("write_bw", family="ipv6-link-local")),
        _ours("write_bw-four-qps", "veth", Perf("write_bw", size=3000, iterations=96, options=("-q", "4", "-t", "8"))),
        _ours("read_bw-two-qps", "tap", Perf("read_bw", size=3000, iterations=50, options=("-q", "2"))),
        _ours("send_bw-four-qps", "tap", Perf("send_bw", size=3000, iterations=200, options=("-q", "4"))),
        _ours("atomic_bw-two-qps", "veth", Perf("atomic_bw", iterations=50, options=("-q", "2"))),
        _ours("compare-swap", "tap", Perf("atomic_bw", options=("-A", "CMP_AND_SWAP"))),
        _ours("post-list", "tap", Perf("write_bw", size=64, iterations=1000, ours=("-l", "10"))),
        _ours("moderated", "veth", Perf("send_bw", size=64, iterations=777, ours=("-Q", "16"))),
        _ours("one-outstanding", "tap", Perf("read_bw", size=8192, ours=("-o", "1"))),
        _ours("server-allows-two", "veth", Perf("read_bw", size=8192, iterations=50, theirs=("-o", "2"))),
        _ours("counter-wraps", "veth", Perf("write_lat", size=8, iterations=600)),
        _ours("all-sizes-write_bw", "veth", Perf("write_bw", 4096, iterations=5, options=ALL), seconds=120),
        _ours("all-sizes-send_bw", "veth", Perf("send_bw", 4096, iterations=5, options=ALL), seconds=120),
        _ours("all-sizes-send_lat", "veth", Perf("send_lat", 4096, iterations=5, options=ALL), seconds=120),
        _ours("all-sizes-write_lat", "tap", Perf("write_lat", 4096, iterations=5, options=ALL), seconds=120),
        *(_ours(f"two-seconds-{program}", "veth", Perf(program, size=1024, seconds=2)) for program in PROGRAMS),
    ]


def lossy():
    """All eight at 2 % loss each way, long enough for ten losses in each direction.

    perftest's 128 outstanding messages would be more than an emulated guest acknowledges within the timeout: what is
    sent again then comes on top of what it has not got to yet, until the retries run out. Sixteen are not."""
    iterations = {"write_bw": 2500, "send_bw": 2500, "write_lat": 500, "send_lat": 500}
    scenarios = []
    for number, (program, family) in enumerate(itertools.product(PROGRAMS, FAMILIES)):
        size = 3000 if program in ("write_bw", "read_bw") else 1024
        depth = ("-t", "16") if program.endswith("bw") else ()
        client = Perf(program, 1024, size, family, iterations.get(program, 700), TIMEOUT, ours=depth)
        attachment = perftest.ATTACHMENTS[(number // 2 + number) % 2]
        scenarios.append(_ours(f"loss-{program}-{family}", attachment, client, LOSS.format(seed=number + 41), 120))
    return scenarios


def _ours(name, attachment, client, fault="", seconds=30):
    return Scenario(f"perf-{name}", attachment, (client,), fault, seconds, ours="client")
