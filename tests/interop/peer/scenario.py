"""What a scenario is: clients, a server for them, and what is done to the wire between."""

import dataclasses
import re

from . import lab

KERNELS = ("stock", "newer")  # the machine's own distribution's, and a newer Debian release's

# rxe waits out a timer for most losses, so the timer is short: 4.096 us * 2^12. Shorter than an emulated guest's
# answer, it would retry for nothing.
FAULT_TIMEOUT = ("-u", "12")
FAULTS = "drop=0.03,duplicate=0.03,reorder=0.03,seed={seed}"
LOSS = "drop=0.02,seed={seed}"

_BAD_WORDS = re.compile(r"error|fail|couldn't|unable|incompatib|cannot|killed", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Card:
    """A network card of the guest, for who writes its command lines. `gids`: address family to GID index."""

    device: str
    interface: str
    net: int
    server_host: int
    gids: dict = dataclasses.field(hash=False, compare=False)

    def server(self, family):
        """The address of whoever serves the guest on this card's network."""
        return {"ipv4": lab.ipv4, "ipv6": lab.ipv6}[family](self.net, self.server_host)

    def client(self, family):
        """The guest's own."""
        return {"ipv4": lab.ipv4, "ipv6": lab.ipv6}[family](self.net, lab.HOST_CLIENT)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a program of ours runs, for who writes its command lines: the interface and our addresses on it, what the
    port is to inject, and a directory for what it leaves."""

    interface: str
    addresses: tuple
    fault: str
    directory: str

    def words(self):
        """The options that roce-responder has for all that."""
        words = ["--port", f"af-xdp:{self.interface}"]
        for address in self.addresses:
            words += ["--ip", address]
        words += ["--capture", f"{self.directory}/capture.pcapng", "--stats"]
        return words + (["--fault", self.fault] if self.fault else [])


@dataclasses.dataclass(frozen=True)
class Scenario:
    """Clients in the guest against one responder; or, with `ours` "client", one client of ours against a server in the
    guest. `fault` is what our port injects; `seconds` bounds each client.

    `serve` are further words for roce-responder's command line.

    `rxe_flush` says what becomes of the guest's FLUSHes, whose ICRC rxe has its own way with (icrc.of_rxe): "dropped",
    they come as they are, and count as what they are; "repaired", a relay between puts the right one there, and rxe's
    own on ours. Such a scenario is attached to the veth.

    The clients run one after another, or all at once where `together` is set. With `hostile`, roce-hostile sends its
    frames meanwhile. A client has

    - `program`, its name
    - `services`, what roce-responder is to serve for it (words for --service)
    - `command(card)`, the words that run it in the guest; `killed`, whether it is ended in the middle of its run
    - `check(output, status)`, the problems that its own words tell
    - `pairs`, a function that reads from the frames on the wire which queue pairs were connected (the same one for all
      clients of a kind), `qps`, how many of them are its own, and `operations`, name to count, what the responder
      must have executed for it; see judge.check_memory. `pairs` is None for what cannot be replayed.

    and, where its traffic has more to be held to, `check_frames(frames)`, the problems that the frames on the wire tell.

    A client of ours has, in place of `services` and `command`,

    - `binary`, the name of our program, and `arguments(card, place)`, its words
    - `server(card)`, the words that run its server in the guest, and `listens`, a shell condition there that holds once
      that is ready
    - `check_server(output, status)`, the problems that the server tells
    """

    name: str
    attachment: str
    clients: tuple
    fault: str = ""
    seconds: int = 30
    together: bool = False
    hostile: bool = False
    kernel: str = "stock"
    ours: str = "server"
    serve: tuple = ()
    rxe_flush: str = ""

    @property
    def serves_itself(self):
        """Whether a second guest of the stock kernel can take our place."""
        return self.ours == "server" and self.kernel == "stock" and \
            all(getattr(client, "server_command", None) for client in self.clients)

    @property
    def services(self):
        """Each once, in order."""
        return tuple(dict.fromkeys(service for client in self.clients for service in client.services))


def complaint(program, output, status):
    """What a program that did not end well, or said a bad word, is to be quoted with; None when all is well. The counters
    of ours have names of their own."""
    output = "\n".join(line for line in output.splitlines() if not line.startswith('{"stats"'))
    if status != 0:
        words = _BAD_WORDS.search(output)
        lines = [line for line in output.splitlines() if line.strip()]
        line = next((line for line in lines if words and words[0] in line), lines[-1] if lines else "")
        return f"{program}: " + ("out of time" if status == 137 else f"status {status}") + f": {line.strip()}"
    bad = next((line for line in output.splitlines() if _BAD_WORDS.search(line)), None)
    return f"{program} said: {bad.strip()}" if bad else None
