"""Who serves: the project's responder, or, for the self-test, a second guest's perftest.

Either has `start(scenario, directory)` and `stop() -> Outcome`.
"""

import dataclasses
import glob
import json
import os
import shlex
import signal
import subprocess
import sys
import time

from . import lab
from .perftest import PORTS, PROGRAMS
from .scenario import Card, Place

READY_SECONDS = 15
STOP_SECONDS = 15
HOSTILE_SECONDS = 120
HOSTILE_FRAMES = 100_000
SERVER_CARD = Card("rxe0", "eth0", lab.NET_BRIDGED, lab.HOST_SERVER, {"ipv6-link-local": 0, "ipv4": 1, "ipv6": 2})


class TargetError(Exception):
    """The server did not start, or did not end as it should."""


@dataclasses.dataclass
class Outcome:
    """What the server left behind. Each is None where this server has no such thing."""

    stats: dict = None
    capture: str = None
    regions: list = None
    faults: dict = None
    problems: list = dataclasses.field(default_factory=list)


class Responder:
    """`roce-responder serve`, one process a scenario, with the services that its clients need."""

    host = lab.HOST_RESPONDER
    attachments = {"tap": (0, lab.NET_DIRECT, "tap-direct"), "veth": (1, lab.NET_BRIDGED, "veth-near")}

    def __init__(self, the_lab, binary):
        self._lab, self._binary = the_lab, binary
        self._process = self._directory = self._interface = self._services = None

    def place(self, scenario, directory):
        _, net, interface = self.attachments[scenario.attachment]
        addresses = tuple(of(net, lab.HOST_RESPONDER) for of in (lab.ipv4, lab.ipv6, lab.link_local))
        return Place(interface, addresses, scenario.fault, directory)

    def start(self, scenario, directory):
        place = self.place(scenario, directory)
        self._directory, self._interface, self._services = directory, place.interface, len(scenario.services)
        command = lab.dying_with_us("ip", "netns", "exec", self._lab.near, self._binary) + [
            "serve", *place.words(), "--dump-memory", f"{directory}/memory", *scenario.serve]
        for service in scenario.services:
            command += ["--service", service]
        if scenario.hostile:
            # Thousands of connections: what each may reach, and is dumped, is kept small.
            command += ["--region-size", "64K"]
        with open(f"{directory}/responder.log", "wb") as errors, open(f"{directory}/responder.out", "wb") as output:
            output.write(f"# {' '.join(command)}\n".encode())
            output.flush()
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                             start_new_session=True)
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready():
            if self._process.poll() is not None:
                raise TargetError(f"responder ended with status {self._process.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise TargetError(f"responder is not ready after {READY_SECONDS} s: {self._last_words()}")
            time.sleep(0.02)

    def stop(self):
        outcome = Outcome(capture=f"{self._directory}/capture.pcapng", regions=[])
        self._process.send_signal(signal.SIGINT)
        try:
            status = self._process.wait(STOP_SECONDS)
            if status != 0:
                outcome.problems.append(f"responder ended with status {status}: {self._last_words()}")
        except subprocess.TimeoutExpired:
            self.abandon()
            outcome.problems.append(f"responder did not end within {STOP_SECONDS} s of SIGINT")
        if self._lab.has_xdp(self._lab.near, self._interface):
            outcome.problems.append(f"responder left its XDP program on {self._interface}")
        with open(f"{self._directory}/responder.out", encoding="utf-8", errors="replace") as output:
            take_stats(outcome, output, "responder")
        for index in glob.glob(f"{self._directory}/memory/index.jsonl"):
            with open(index, encoding="utf-8") as file:
                outcome.regions = [json.loads(line) for line in file]
        return outcome

    def abandon(self):
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _ready(self):
        with open(f"{self._directory}/responder.log", encoding="utf-8", errors="replace") as log:
            return sum(line.rstrip().endswith(": ready") for line in log) >= self._services

    def _last_words(self):
        with open(f"{self._directory}/responder.log", encoding="utf-8", errors="replace") as log:
            lines = log.read().strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def take_stats(outcome, lines, program):
    """The counters, of a line that a program of ours printed."""
    lines = [line for line in lines if line.startswith('{"stats"')]
    if lines:
        outcome.stats = json.loads(lines[-1])["stats"]
        outcome.faults = outcome.stats.get("faults")
    else:
        outcome.problems.append(f"{program} printed no counters")


class Hostile:
    """roce-hostile: a neighbour on the bridge that sends the responder mutated frames. It ends by itself, with status 0
    when the responder stood it."""

    def __init__(self, the_lab, binary):
        self._lab, self._binary = the_lab, binary
        self._process = self._log = None

    def start(self, directory):
        self._log = f"{directory}/hostile.log"
        command = lab.dying_with_us("ip", "netns", "exec", self._lab.wire, self._binary) + [
            "--interface", "veth-hostile",
            "--server", lab.ipv4(lab.NET_BRIDGED, lab.HOST_RESPONDER),
            "--client", lab.ipv4(lab.NET_BRIDGED, lab.HOST_BYSTANDER),
            "--hostile", lab.ipv4(lab.NET_BRIDGED, lab.HOST_HOSTILE),
            "--ports", ",".join(str(PORTS[program]) for program in ("write_bw", "read_bw", "send_bw", "atomic_bw")),
            "--frames", str(HOSTILE_FRAMES),
        ]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             start_new_session=True)

    def finish(self):
        try:
            status = self._process.wait(HOSTILE_SECONDS)
        except subprocess.TimeoutExpired:
            self.abandon()
            return [f"roce-hostile did not end within {HOSTILE_SECONDS} s"]
        return [f"roce-hostile: status {status}; see {self._log}"] if status else []

    def abandon(self):
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Relay:
    """peer.relay between two interfaces of the wire, neither of which may be on the bridge. Starts when made."""

    def __init__(self, the_lab, one, other, words):
        command = lab.dying_with_us("ip", "netns", "exec", the_lab.wire, sys.executable, "-m", "peer.relay",
                                    one, other, words)
        self._process = subprocess.Popen(command, cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                         start_new_session=True)
        if self._process.stdout.readline().strip() != "ready":
            raise TargetError("the relay did not start")

    def stop(self):
        """Returns what it counted, by direction."""
        self._process.terminate()
        return json.loads(self._process.communicate(timeout=STOP_SECONDS)[0])

    def abandon(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def repairing(the_lab):
    """A relay in the bridge's place, between the guest and us, for the ICRC of FLUSHes."""
    for device in ("tap-bridged", "veth-far"):
        the_lab.run(the_lab.wire, "ip", "link", "set", device, "nomaster")
    return Relay(the_lab, "tap-bridged", "veth-far", "flush")


def bridge(the_lab):
    """The bridge again."""
    for device in ("tap-bridged", "veth-far"):
        the_lab.run(the_lab.wire, "ip", "link", "set", device, "master", "bridge")


class SecondGuest:
    """perftest's own server over rxe, behind a relay that can lose, double and reorder."""

    host = lab.HOST_SERVER
    attachments = {"tap": (1, lab.NET_BRIDGED, None), "veth": (1, lab.NET_BRIDGED, None)}

    def __init__(self, the_lab, guest):
        self._lab, self._guest = the_lab, guest
        self._relay = self._directory = None

    def start_relay(self, fault=""):
        self.abandon()
        self._relay = Relay(self._lab, "tap-bridged", "tap-server", fault)

    def start(self, scenario, directory):
        self.start_relay(scenario.fault)
        words = []
        for program, clients in _by_program(scenario.clients).items():
            runs = "; ".join(shlex.join(client.server_command(SERVER_CARD)) for client in clients)
            words.append(f"({runs}) >/tmp/server-{program}.log 2>&1 &")
        self._guest.run("rm -f /tmp/server-*; " + " ".join(words), 10)
        wanted = len(_by_program(scenario.clients))
        deadline = time.monotonic() + READY_SECONDS
        while int(self._guest.run("netstat -ltn | grep -c ':185[0-9][0-9] '", 10)[0] or 0) < wanted:
            if time.monotonic() > deadline:
                raise TargetError("the second guest's perftest does not listen")
        del directory

    def stop(self):
        time.sleep(0.2)
        self._guest.run("killall -9 " + " ".join(f"ib_{program}" for program in PROGRAMS), 10)
        return Outcome(faults=self._relay.stop())

    def abandon(self):
        if self._relay is not None:
            self._relay.abandon()


def _by_program(clients):
    programs = {}
    for client in clients:
        programs.setdefault(client.program, []).append(client)
    return programs
