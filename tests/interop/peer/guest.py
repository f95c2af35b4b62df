"""One guest: QEMU, its serial line for commands, and the frames each of its cards sent and received."""

import os
import socket
import subprocess
import time

from . import lab
from .wire import PcapTail

BOOT_SECONDS = 120


class GuestError(Exception):
    """The guest did not come up, or no longer answers."""


class Guest:
    """Started by the constructor; `wait_ready` before the first `run`.

    cards: (tap descriptor, net) pairs, in the order of the guest's eth0, eth1, …
    """

    def __init__(self, image, directory, name, host, cards):
        self.name = name
        self._path = os.path.join(directory, name)
        self._command_socket = f"{self._path}.sock"
        self._sequence = 0
        self._received = b""
        self._line = None
        self.wires = []
        arguments = lab.dying_with_us("qemu-system-x86_64") + [
            "-accel", os.environ.get("ROCKHOPPER_PEER_ACCEL", "tcg,thread=multi"),
            "-cpu", "max", "-smp", "1", "-m", "512", "-display", "none", "-no-reboot", "-nodefaults",
            "-kernel", f"{image}/vmlinuz", "-initrd", f"{image}/initrd",
            "-append", f"console=ttyS0 quiet panic=-1 mtu={lab.MTU} host={host} net={','.join(str(n) for _, n in cards)}",
            "-serial", f"file:{self._path}.console",
            "-chardev", f"socket,id=commands,path={self._command_socket},server=on,wait=on",
            "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=commands",
        ]
        for number, (tap, net) in enumerate(cards):
            dump = f"{self._path}-{number}.pcap"
            self.wires.append(PcapTail(dump))
            arguments += [
                "-netdev", f"tap,id=n{number},fd={tap}",
                "-device", f"virtio-net-pci,netdev=n{number},mac={lab.mac(net, host)},host_mtu={lab.MTU},romfile=",
                "-object", f"filter-dump,id=d{number},netdev=n{number},file={dump},maxlen=65536",
            ]
        with open(f"{self._path}.qemu", "wb") as log:
            self._process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             pass_fds=[tap for tap, _ in cards], start_new_session=True)
        for tap, _ in cards:
            os.close(tap)
        self._connect(time.monotonic() + BOOT_SECONDS)

    def _connect(self, deadline):
        """QEMU starts the guest once somebody is on its serial line."""
        while self._line is None:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(self._command_socket)
                self._line = line
            except OSError:
                line.close()
                self._check_alive(deadline)
                time.sleep(0.05)

    def wait_ready(self):
        deadline = time.monotonic() + BOOT_SECONDS
        while b"@@ready" not in self._received:
            self._receive(deadline)
        self._received = b""

    def run(self, command, seconds):
        """Runs a shell command in the guest. Returns its output and status; 137 when it ran out of time."""
        self._sequence += 1
        mark = f"@@{self._sequence} ".encode()
        self._received = b""
        self._line.sendall(f"{self._sequence} {seconds} {command}\n".encode())
        deadline = time.monotonic() + seconds + 15
        while mark not in self._received or b"\n" not in self._received.split(mark, 1)[1]:
            self._receive(deadline)
        output, rest = self._received.split(mark, 1)
        return output.decode(errors="replace").replace("\r", "").strip("\n"), int(rest.split(b"\n", 1)[0])

    def processor_seconds(self):
        """What its emulation has taken of the processors so far."""
        with open(f"/proc/{self._process.pid}/stat", encoding="ascii") as file:
            user, system = file.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def close(self):
        if self._line is not None:
            self._line.close()
        self._process.kill()
        self._process.wait()

    def _receive(self, deadline):
        self._check_alive(deadline)
        self._line.settimeout(0.5)
        try:
            data = self._line.recv(65536)
        except TimeoutError:
            return
        if not data:
            raise GuestError(f"guest {self.name} closed its serial line; see {self._path}.console")
        self._received += data

    def _check_alive(self, deadline):
        if self._process.poll() is not None:
            raise GuestError(f"guest {self.name}: QEMU ended; see {self._path}.qemu and .console")
        if time.monotonic() > deadline:
            raise GuestError(f"guest {self.name} does not answer; see {self._path}.console")
