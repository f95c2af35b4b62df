"""The network: two namespaces of our own, the guest's taps, and a second way to the responder over a bridge.

    responder namespace                        wire namespace
      tap-direct  --- guest's first card
      veth-near   ----------------------------- veth-far --- bridge --- tap-bridged --- guest's second card

A third port of the bridge, veth-hostile in the wire namespace, is for whoever sends it nonsense.
"""

import ctypes
import fcntl
import itertools
import os
import re
import struct
import subprocess

MTU = 4200  # lets a path MTU of 4096 through
NET_DIRECT = 1  # third byte of 10.78.N.0/24 and second group of fd78:N::/64
NET_BRIDGED = 2
HOST_RESPONDER = 1
HOST_CLIENT = 2
HOST_SERVER = 3  # the second guest of the self-test
HOST_HOSTILE = 9
HOST_BYSTANDER = 10

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000
_TUNSETIFF = 0x400454CA
_CLONE_NEWNET = 0x40000000


def tool(name):
    """A binary of the project: named by the environment (roce-pcap by ROCE_PCAP, …), else built already, else None."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(_ROOT, "target"))
    path = os.environ.get(name.upper().replace("-", "_"), os.path.join(target, "release", name))
    return path if os.path.exists(path) else None


def ipv4(net, host):
    return f"10.78.{net}.{host}"


def ipv6(net, host):
    return f"fd78:{net}::{host}"


def mac(net, host):
    return f"52:54:00:78:{net:02x}:{host:02x}"


def link_local(net, host):
    """The address the kernel makes of mac(net, host)."""
    return f"fe80::5054:ff:fe78:{net * 256 + host:x}"


class Lab:
    """Two namespaces, from `make` to `remove`. Their names carry our process id and a number, so that labs stand side by
    side."""

    _numbers = itertools.count()

    def __init__(self):
        name = f"rhi{os.getpid()}-{next(self._numbers)}"
        self.near, self.wire = f"{name}-near", f"{name}-wire"

    def make(self):
        _sweep()
        try:
            self._make()
        except BaseException:
            self.remove()
            raise

    def remove(self):
        for namespace in (self.near, self.wire):
            subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL, check=False)

    def _make(self):
        for namespace in (self.near, self.wire):
            _run("ip", "netns", "add", namespace)
            self.run(namespace, "sh", "-c",
                     "for each in all default; do echo 0 >/proc/sys/net/ipv6/conf/$each/accept_dad; done")
            _run("ip", "-n", namespace, "link", "set", "lo", "up")
        near, wire = self.near, self.wire
        _run("ip", "-n", near, "tuntap", "add", "dev", "tap-direct", "mode", "tap")
        _run("ip", "-n", near, "link", "add", "veth-near", "type", "veth",
             "peer", "name", "veth-far", "netns", wire)
        for device, net in (("tap-direct", NET_DIRECT), ("veth-near", NET_BRIDGED)):
            _run("ip", "-n", near, "link", "set", device, "address", mac(net, HOST_RESPONDER),
                 "mtu", str(MTU), "txqueuelen", "10000", "up")
            _run("ip", "-n", near, "addr", "add", f"{ipv4(net, HOST_RESPONDER)}/24", "dev", device)
            _run("ip", "-n", near, "addr", "add", f"{ipv6(net, HOST_RESPONDER)}/64", "dev", device, "nodad")
        # Frames that leave the namespace must carry their checksums: a tap without offloads will not finish them.
        self.run(near, "ethtool", "-K", "veth-near", "tx", "off", "gso", "off", "tso", "off")
        _run("ip", "-n", wire, "link", "add", "bridge", "mtu", str(MTU), "type", "bridge", "forward_delay", "0")
        # Otherwise the bridge answers for the addresses of veth-hostile, and takes its frames.
        self.run(wire, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore")
        _run("ip", "-n", wire, "tuntap", "add", "dev", "tap-bridged", "mode", "tap")
        _run("ip", "-n", wire, "tuntap", "add", "dev", "tap-server", "mode", "tap")
        _run("ip", "-n", wire, "link", "add", "veth-hostile", "address", mac(NET_BRIDGED, HOST_HOSTILE),
             "type", "veth", "peer", "name", "port-hostile")
        for host in (HOST_HOSTILE, HOST_BYSTANDER):
            _run("ip", "-n", wire, "addr", "add", f"{ipv4(NET_BRIDGED, host)}/24", "dev", "veth-hostile")
        for device in ("veth-far", "tap-bridged", "tap-server", "veth-hostile", "port-hostile"):
            _run("ip", "-n", wire, "link", "set", device, "mtu", str(MTU), "txqueuelen", "10000", "up")
        for device in ("veth-far", "tap-bridged", "port-hostile"):
            _run("ip", "-n", wire, "link", "set", device, "master", "bridge")
        _run("ip", "-n", wire, "link", "set", "bridge", "up")

    def run(self, namespace, *command):
        _run("ip", "netns", "exec", namespace, *command)

    def has_xdp(self, namespace, device):
        return "xdp" in _run("ip", "-n", namespace, "link", "show", "dev", device)

    def open_tap(self, namespace, name):
        """A descriptor on a tap of that namespace, to hand to QEMU."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
        try:
            _setns(there)
            tap = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
        finally:
            _setns(home)
            os.close(home)
            os.close(there)
        return tap


def dying_with_us(*command):
    """The command, killed by the kernel when this process goes, however it goes."""
    return ["setpriv", "--pdeathsig", "KILL", *command]


def _sweep():
    """Removes what a killed run left: namespaces of ours whose process is gone."""
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else []:
        owner = re.fullmatch(r"rhi(\d+)-(\d+-)?(near|wire)", name)
        if owner and not os.path.exists(f"/proc/{owner[1]}"):
            subprocess.run(["ip", "netns", "del", name], check=False)


def _setns(descriptor):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
