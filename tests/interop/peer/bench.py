"""A guest and a server for it: runs scenarios one after another, and judges each while the next one runs."""

import concurrent.futures
import os
import shlex
import shutil
import time

from . import guest as guests
from . import lab
from .ourselves import Ourselves
from .scenario import Card
from .target import Hostile, Responder, SecondGuest, TargetError, bridge, repairing

SETTLE_SECONDS = 0.05  # the last acknowledgement may still be on its way to the tap
PATH_SECONDS = 20
AFTER_KILL_SECONDS = 1  # for perftest's own server to notice


class Bench:
    """A lab, a guest in it, and a server for it. `boot` comes first, `close` last."""

    def __init__(self, image, directory, judge, responder=None, hostile=None, keep=False):
        """responder: the binary to serve with; None serves from a second guest. hostile: the binary of the neighbour
        that sends nonsense, where a scenario wants one. keep: whether what a good scenario leaves stays."""
        self._image, self._directory, self._judge, self._binary = image, directory, judge, responder
        self._keep = keep
        self._lab = lab.Lab()
        self._hostile = Hostile(self._lab, hostile)
        self._client = self._server = self._target = self._repair = None
        self._gids = {}
        self._closed = False

    def boot(self):
        os.makedirs(self._directory)
        self._lab.make()
        try:
            self._boot()
        except BaseException:
            self.close()
            raise

    def close(self):
        """Ends everything; a scenario that is running fails."""
        self._closed = True
        self._hostile.abandon()
        if self._repair is not None:
            self._repair.abandon()
        if self._target is not None:
            self._target.abandon()
        for guest in (self._client, self._server):
            if guest is not None:
                guest.close()
        self._lab.remove()

    def run(self, scenarios, report):
        """Runs all; `report(name, seconds, problems, directory)` once each, in order."""
        with concurrent.futures.ThreadPoolExecutor(1) as judging:
            pending = []
            for scenario in scenarios:
                directory = os.path.join(self._directory, scenario.name)
                os.makedirs(directory)
                started = time.monotonic()
                runs, frames, outcome, problems = self._run(scenario, directory)
                seconds = time.monotonic() - started
                pending.append((scenario, seconds, directory, judging.submit(
                    self._finish, scenario, runs, frames, outcome, problems, directory)))
                while pending and (pending[0][3].done() or len(pending) > 4):
                    _report(report, pending.pop(0))
            while pending:
                _report(report, pending.pop(0))

    def _run(self, scenario, directory):
        """The live part: start the server, run the clients, stop the server, take what passed on the wire."""
        runs, outcome, problems = [], None, []
        card = self._target.attachments[scenario.attachment][0]
        try:
            if self._client is None:
                self._boot()
            self._client.wires[card].take()
            if scenario.rxe_flush == "repaired":
                self._repair = repairing(self._lab)
            if scenario.ours == "client":
                place = self._target.place(scenario, directory)
                runs, outcome = Ourselves(self._lab, self._client).run(scenario, self._card(scenario), place)
            else:
                self._target.start(scenario, directory)
                if scenario.hostile:
                    self._hostile.start(directory)
                runs = self._run_clients(scenario)
                if scenario.hostile:
                    problems += self._hostile.finish()
                time.sleep(SETTLE_SECONDS)
                outcome = self._target.stop()
        except (TargetError, guests.GuestError) as error:
            if self._closed:
                raise
            problems.append(str(error))
            self._target.abandon()
            self._hostile.abandon()
            if isinstance(error, guests.GuestError):
                self._client.close()
                self._client = None
        if self._repair is not None:
            self._repair.stop()
            self._repair = None
            bridge(self._lab)
        frames = self._client.wires[card].take() if self._client else []
        with open(f"{directory}/clients.txt", "w", encoding="utf-8") as file:
            for client, output, status in runs:
                file.write(f"# {client}\n{output}\n# status {status}\n")
        return runs, frames, outcome, problems

    def _run_clients(self, scenario):
        card = self._card(scenario)
        commands = [shlex.join(client.command(card)) for client in scenario.clients]
        if not scenario.together:
            results = []
            for client, command in zip(scenario.clients, commands):
                if client.killed:
                    command = self._killed_in_the_middle(scenario, command)
                results.append((client, *self._client.run(command, scenario.seconds)))
                if client.killed:
                    time.sleep(AFTER_KILL_SECONDS)
            return results
        started = " ".join(f"({command} >/tmp/output-{number} 2>&1; echo $? >/tmp/status-{number}) &"
                           for number, command in enumerate(commands))
        output, status = self._client.run(f"rm -f /tmp/status-*; {started} wait", scenario.seconds)
        if status != 0:
            return [(client, output, status) for client in scenario.clients]
        results = []
        for number, client in enumerate(scenario.clients):
            output, _ = self._client.run(f"cat /tmp/output-{number}", 10)
            status, _ = self._client.run(f"cat /tmp/status-{number}", 10)
            results.append((client, output, int(status)))
        return results

    def _killed_in_the_middle(self, scenario, command):
        """The command, killed once the device has sent some hundred packets more than before."""
        card = self._target.attachments[scenario.attachment][0]
        sent = f"$(cat /sys/class/infiniband/rxe{card}/ports/1/hw_counters/sent_pkts)"
        return (f"end=$(({sent} + 300)); {command} & "
                f"until [ {sent} -gt $end ]; do kill -0 $! || exit 1; done; kill -9 $!; wait $!")

    def _card(self, scenario):
        number, net, _ = self._target.attachments[scenario.attachment]
        gids = {family: index for (card, family), index in self._gids.items() if card == number}
        return Card(f"rxe{number}", f"eth{number}", net, self._target.host, gids)

    def _finish(self, scenario, runs, frames, outcome, problems, directory):
        if outcome is not None:
            problems += self._judge.judge(scenario, runs, frames, outcome, directory)
        if not problems and not self._keep:
            shutil.rmtree(directory)
        return problems

    def _boot(self):
        near, wire = self._lab.near, self._lab.wire
        self._client = guests.Guest(self._image, self._directory, "client", lab.HOST_CLIENT, [
            (self._lab.open_tap(near, "tap-direct"), lab.NET_DIRECT),
            (self._lab.open_tap(wire, "tap-bridged"), lab.NET_BRIDGED)])
        if self._binary is None and self._server is None:
            # The relay stands between the two taps, so neither may be on the bridge.
            self._lab.run(wire, "ip", "link", "set", "tap-bridged", "nomaster")
            self._server = guests.Guest(self._image, self._directory, "server", lab.HOST_SERVER,
                                        [(self._lab.open_tap(wire, "tap-server"), lab.NET_BRIDGED)])
            self._server.wait_ready()
            self._target = SecondGuest(self._lab, self._server)
        elif self._target is None:
            self._target = Responder(self._lab, self._binary)
        self._client.wait_ready()
        self._learn_gids()
        self._wait_for_paths()

    def _learn_gids(self):
        for card in (0, 1):
            listed, _ = self._client.run(
                f"for i in 0 1 2 3 4 5 6 7; do echo $i $(cat /sys/class/infiniband/rxe{card}/ports/1/gids/$i); done", 10)
            for line in listed.splitlines():
                index, _, gid = line.partition(" ")
                if gid.startswith("0000:0000:0000:0000:0000:ffff:"):
                    self._gids[card, "ipv4"] = int(index)
                elif gid.startswith("fe80:"):
                    self._gids[card, "ipv6-link-local"] = int(index)
                elif gid.startswith("fd78:"):
                    self._gids[card, "ipv6"] = int(index)

    def _wait_for_paths(self):
        """Until every address of the server answers: rxe resolves a path once, and gives up on the first silence."""
        host = self._target.host
        if isinstance(self._target, SecondGuest):
            self._target.start_relay()
        paths = sorted({self._target.attachments[name][:2] for name in self._target.attachments})
        for card, net in paths:
            for address in (lab.ipv4(net, host), lab.ipv6(net, host), f"{lab.link_local(net, host)}%eth{card}"):
                _, status = self._client.run(f"until ping -c 1 -W 1 {address}; do :; done", PATH_SECONDS)
                if status != 0:
                    raise guests.GuestError(f"guest client does not reach {address}")


def _report(report, entry):
    scenario, seconds, directory, judged = entry
    report(scenario.name, seconds, judged.result(), directory)
