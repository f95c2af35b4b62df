"""A client of ours against a server in the guest."""

import os
import shlex
import subprocess
import time

from . import lab
from .target import Outcome, TargetError, take_stats

LISTEN_SECONDS = 15
SERVER_END_SECONDS = 10


class Ourselves:
    """Runs the one client of a scenario whose `ours` is "client"."""

    def __init__(self, the_lab, guest):
        self._lab, self._guest = the_lab, guest

    def run(self, scenario, card, place):
        """Returns what the client said, and what it left behind."""
        client, = scenario.clients
        served = shlex.join(client.server(card))
        self._guest.run(f"rm -f /tmp/served; ({served} >/tmp/server 2>&1; echo $? >/tmp/served) &", 10)
        try:
            _, status = self._guest.run(f"until {client.listens}; do [ ! -e /tmp/served ] || exit 1; done",
                                        LISTEN_SECONDS)
            if status != 0:
                raise TargetError(f"the guest's server does not listen: {self._served()[0]}")
            output, errors, status = self._run(client, card, place, scenario.seconds)
            outcome = Outcome(capture=f"{place.directory}/capture.pcapng")
            take_stats(outcome, output.splitlines(), client.binary)
            _, ended = self._guest.run("until [ -e /tmp/served ]; do :; done", SERVER_END_SECONDS)
            said, code = self._served()
            outcome.problems += client.check_server(said, int(code) if ended == 0 else 137)
        finally:
            self._guest.run(f"killall -9 {client.server(card)[0]}", 10)
        if self._lab.has_xdp(self._lab.near, place.interface):
            outcome.problems.append(f"{client.binary} left its XDP program on {place.interface}")
        return [(client, output + errors, status)], outcome

    def _run(self, client, card, place, seconds):
        binary = lab.tool(client.binary)
        if binary is None:
            raise TargetError(f"{client.binary} has not been built")
        command = lab.dying_with_us("ip", "netns", "exec", self._lab.near, binary) + client.arguments(card, place)
        with open(f"{place.directory}/client.out", "w+", encoding="utf-8", errors="replace") as output, \
                open(f"{place.directory}/client.log", "w+", encoding="utf-8", errors="replace") as errors:
            output.write(f"# {shlex.join(command)}\n")
            output.flush()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                       start_new_session=True)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = 137
            output.seek(0)
            errors.seek(0)
            return output.read(), errors.read(), status

    def _served(self):
        said, _ = self._guest.run("cat /tmp/server", 10)
        code, _ = self._guest.run("cat /tmp/served 2>/dev/null || echo 137", 10)
        return said, code.strip()
