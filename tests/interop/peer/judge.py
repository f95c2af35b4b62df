"""Holds one scenario's leavings against each other. Every check appends its findings, in words, to one list."""

import functools
import os
import subprocess

from . import icrc, lab, replay, wire

TOOL_SECONDS = 120
FAULTS_WANTED = 10


class Judge:
    """`roce_pcap` is the path of the capture checker, or None to do without."""

    def __init__(self, roce_pcap):
        self._roce_pcap = roce_pcap

    def judge(self, scenario, runs, frames, outcome, directory):
        """runs: (client, output, status) each. frames: what the guest's card saw. Returns the list of problems."""
        problems = list(outcome.problems)
        for client, output, status in runs:
            problems += check_client(client, output, status)
        capture = outcome.capture
        if capture is None:
            capture = f"{directory}/wire.pcap"
            wire.write_pcap(capture, frames)
            recorded = []
        else:
            recorded = read_capture(capture, problems)
        on_guest = icrc.of_rxe if scenario.rxe_flush else icrc.computed
        problems += check_icrc("on the wire", frames, on_guest)
        problems += check_memory(scenario, frames, outcome)
        for client in scenario.clients:
            problems += client.check_frames(frames) if hasattr(client, "check_frames") else []
        if outcome.stats is not None:
            problems += check_sum(outcome.stats)
        if scenario.hostile:
            return problems  # what the neighbour sent is neither clean nor on the guest's wire
        repaired = scenario.rxe_flush == "repaired"
        problems += check_icrc("in the capture", recorded, icrc.computed if repaired else on_guest)
        if outcome.capture is not None and not scenario.fault:
            problems += check_recorded([(stamp, icrc.right(frame), length) for stamp, frame, length in frames]
                                       if repaired else frames, recorded)
        if outcome.stats is not None:
            problems += check_counters(outcome.stats, *count(frames, scenario))
        if scenario.fault:
            problems += check_faults(scenario.fault, outcome.faults)
        if scenario.rxe_flush == "dropped":
            problems += check_dropped(frames, outcome.stats)
        else:
            problems += self._check_rules(capture)
        problems += check_tshark(capture)
        return problems

    def _check_rules(self, capture):
        if self._roce_pcap is None:
            return []
        status, output = _tool(self._roce_pcap, "check", "--profile", "rxe", capture)
        return [] if status == 0 else [f"roce-pcap check: status {status}: {_first_line(output)}"]


def check_client(client, output, status):
    """The program's own word; of one that was to be killed, its status alone."""
    if client.killed:
        return [] if status in (137, 143) else [f"{client.program} ended ({status}) before it was killed"]
    return client.check(output, status)


def read_capture(path, problems):
    try:
        return list(wire.read_pcapng(path))
    except (OSError, wire.CaptureError, LookupError) as error:
        problems.append(f"capture: {error}")
        return []


def check_dropped(frames, stats):
    """There were FLUSHes, and the responder counted each as a packet with a bad ICRC, and nothing else so."""
    flushes = sum(packet is not None and packet.opcode == icrc.FLUSH for _, frame, _ in frames
                  for packet in (wire.roce(frame),))
    counted = (stats or {}).get("drops", {}).get("bad_icrc", 0)
    if flushes and flushes == counted:
        return []
    return [f"{flushes} FLUSHes with rxe's ICRC, {counted} dropped for theirs"]


def check_icrc(where, frames, oracle=icrc.computed):
    for number, (_, frame, length) in enumerate(frames, 1):
        packet = wire.roce(frame)
        if packet is None:
            continue
        if len(frame) < length:
            return [f"frame {number} {where} is cut"]
        expected, found = oracle(frame, packet), icrc.carried(frame, packet)
        if expected != found:
            return [f"frame {number} {where}: ICRC {found.hex()}, should be {expected.hex()}"]
    return []


def check_recorded(frames, recorded):
    """Without faults, the responder's capture holds the very frames that passed."""
    passed = sorted(frame for _, frame, _ in frames if wire.roce(frame))
    kept = sorted(frame for _, frame, _ in recorded)
    if passed == kept:
        return []
    return [f"the capture's {len(kept)} frames are not the {len(passed)} on the wire"]


def check_memory(scenario, frames, outcome):
    readers = dict.fromkeys(client.pairs for client in scenario.clients if client.pairs is not None)
    if not readers:
        return []
    pairs = [pair for read in readers for pair in read(frames)]
    wanted = sum(client.qps for client in scenario.clients if client.pairs is not None)
    if len(pairs) != wanted:
        return [f"{len(pairs)} queue pairs were connected on the wire, {wanted} expected"]
    regions = outcome.regions or []
    receives = {region["qpn"]: region["receives"] for region in regions if region.get("receives")}
    model = replay.Replay(receives, {region["qpn"]: region["rkey"] for region in regions})
    whole = scenario.rxe_flush != "dropped" and not any(client.killed for client in scenario.clients)
    model.run(frames, pairs, whole=whole)
    problems = model.problems[:3]
    for name, count_wanted in _operations(scenario).items():
        if model.executed[name] < count_wanted:
            problems.append(f"{model.executed[name]} of {count_wanted} {name} operations were on the wire")
    if outcome.regions is None:
        return problems
    dumped = set()
    for region in regions:
        with open(region["file"], "rb") as file:
            data = file.read()
        dumped.add(region["rkey"])
        # What is read is noise; all other memory is zero until the peer changes it.
        elsewhere = None if "read" in region["service"] else 0
        if elsewhere is None and not any(data[:4096]):
            problems.append(f"{region['service']} is read from zeroes, which proves nothing")
        if region["rkey"] in model.memories:
            wrong = model.memories[region["rkey"]].first_difference(region["va"], data, elsewhere)
            if wrong is not None:
                problems.append(f"memory of {region['service']} at {wrong:#x} is not what the peer left there")
    missing = [key for key in model.memories if key not in dumped]
    if missing:
        problems.append(f"no dump of the region with R_Key {missing[0]:#x}")
    return problems


def _operations(scenario):
    """How many of each operation the responder must have executed. A killed client's are not counted."""
    wanted = {}
    for client in scenario.clients:
        if client.pairs is not None and not client.killed:
            for name, number in client.operations.items():
                wanted[name] = wanted.get(name, 0) + number
    return wanted


def count(frames, scenario):
    """RoCE frames that went to the responder, and that came from it."""
    net = {"tap": lab.NET_DIRECT, "veth": lab.NET_BRIDGED}[scenario.attachment]
    client = bytes.fromhex(lab.mac(net, lab.HOST_CLIENT).replace(":", ""))
    ours = [frame for _, frame, _ in frames if wire.roce(frame)]
    return sum(frame[6:12] == client for frame in ours), sum(frame[0:6] == client for frame in ours)


def check_sum(stats):
    """received = acted on + the sum of the drop reasons."""
    received, drops = stats["rx_frames"], sum(stats["drops"].values())
    if received == stats["acted_on"] + drops:
        return []
    return [f"{received} received, but {stats['acted_on']} acted on and {drops} dropped"]


def check_counters(stats, wire_in, wire_out):
    """Both directions agree with what passed the guest's card. The injector stands between the wire and the counters."""
    problems = []
    received = stats["rx_frames"]
    inward, outward = _injected(stats, "rx"), _injected(stats, "tx")
    if wire_in != received + inward.get("drop", 0) - inward.get("duplicate", 0):
        problems.append(f"{wire_in} frames came on the wire, the responder counts {received} (injected: {inward})")
    if wire_out != stats["tx_frames"] - outward.get("drop", 0) + outward.get("duplicate", 0):
        problems.append(f"{wire_out} frames left on the wire, the responder counts {stats['tx_frames']} "
                        f"(injected: {outward})")
    return problems


def _injected(stats, direction):
    return (stats.get("faults") or {}).get(direction) or {}


def check_faults(wanted, faults):
    """Each kind of fault that was asked for occurred, and often enough, in each direction."""
    problems = []
    for direction, counts in (faults or {"none counted": {}}).items():
        for kind in (word.partition("=")[0] for word in wanted.split(",") if not word.startswith("seed=")):
            way, _, one_way = kind.rpartition("-")
            if way and way != direction:
                continue
            kind = one_way
            if counts.get(kind, 0) < FAULTS_WANTED:
                problems.append(f"{counts.get(kind, 0)} {kind} faults {direction}, {FAULTS_WANTED} wanted")
    return problems


def check_tshark(capture):
    """tshark must find every header well formed. What it makes of payloads is switched off: perftest's are random bytes,
    and tshark guesses at them (Ethernet, IP, NVMe, …) and calls its own wrong guesses malformed."""
    status, output = _tool("tshark", "-n", "-r", capture, *_no_guesses(), "-Y", "_ws.malformed", "-T", "fields",
                           "-e", "frame.number", "-e", "frame.protocols")
    if status != 0:
        return [f"tshark: status {status}: {_last_line(output)}"]
    lines = [line for line in output.splitlines() if line[:1].isdigit()]
    return [f"tshark finds {len(lines)} malformed frames, first {lines[0]}"] if lines else []


@functools.cache
def _no_guesses():
    """Options that switch off every dissector this tshark would try on an InfiniBand payload unasked."""
    words = ["-o", "infiniband.identify_payload:FALSE"]
    _, listed = _tool("tshark", "-G", "heuristic-decodes")
    for line in listed.splitlines():
        parent, _, rest = line.partition("\t")
        name = rest.partition("\t")[0]
        # These two are no protocols of their own; the preference covers them.
        if parent == "infiniband.payload" and name not in ("ethertype", "infiniband.eoib"):
            words += ["--disable-protocol", name]
    return words


def _tool(*command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TOOL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return -1, f"{os.path.basename(command[0])}: no answer in {TOOL_SECONDS} s"
    return done.returncode, done.stdout.decode(errors="replace")


def _first_line(text):
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _last_line(text):
    return _first_line("\n".join(reversed(text.splitlines())))
