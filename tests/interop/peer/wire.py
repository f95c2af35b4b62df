"""Frames out of capture files, and what a RoCEv2 frame says. Shares no code with the project."""

import collections
import ipaddress
import os
import struct

ROCE_PORT = 4791

Roce = collections.namedtuple(
    "Roce", "source destination ip_offset ip_version bth_offset opcode qpn psn pad acknowledge payload_offset "
            "payload_end va key length swap compare syndrome original flush")

# Extension headers by operation (low five bits), for the reliable connected service.
_FETH = {0x1C}
_RETH = {0x06, 0x0A, 0x0B, 0x0C, 0x1C, 0x1D}
_AETH = {0x0D, 0x0F, 0x10, 0x11, 0x12}
_IMMEDIATE = {0x03, 0x05, 0x09, 0x0B}
_ATOMIC = {0x13, 0x14}
_INVALIDATE = {0x16, 0x17}


class CaptureError(Exception):
    """The file is not the capture it should be."""


def read_pcapng(path):
    """Yields (nanoseconds, frame, length on the wire)."""
    with open(path, "rb") as file:
        data = file.read()
    order, resolution, at = "<", [], 0
    while at < len(data):
        if len(data) - at < 12:
            raise CaptureError(f"{path}: {len(data) - at} stray bytes at {at}")
        kind, = struct.unpack_from(order + "I", data, at)
        if kind == 0x0A0D0D0A:
            order = "<" if data[at + 8:at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            resolution = []
        size, = struct.unpack_from(order + "I", data, at + 4)
        if size < 12 or size % 4 or at + size > len(data) or \
                struct.unpack_from(order + "I", data, at + size - 4)[0] != size:
            raise CaptureError(f"{path}: a block of {size} bytes at {at}")
        if kind == 1:
            resolution.append(_interface_resolution(order, data[at + 16:at + size - 4]))
        elif kind == 6:
            interface, high, low, kept, length = struct.unpack_from(order + "5I", data, at + 8)
            ticks = (high << 32 | low) * 1_000_000_000 // resolution[interface]
            yield ticks, data[at + 28:at + 28 + kept], length
        at += size


def _interface_resolution(order, options):
    at = 0
    while at + 4 <= len(options):
        code, size = struct.unpack_from(order + "HH", options, at)
        if code == 0:
            break
        if code == 9:
            value = options[at + 4]
            return 2 ** (value & 0x7F) if value & 0x80 else 10 ** value
        at += 4 + (size + 3) // 4 * 4
    return 1_000_000


class PcapTail:
    """A classic pcap that another process is still writing: each `take` gives the frames that came since."""

    def __init__(self, path):
        self._path = path
        self._offset = 24

    def take(self):
        frames = []
        if not os.path.exists(self._path):
            return frames
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            data = file.read()
        at = 0
        while at + 16 <= len(data):
            seconds, micros, kept, length = struct.unpack_from("=4I", data, at)
            if at + 16 + kept > len(data):
                break
            frames.append((seconds * 1_000_000_000 + micros * 1000, data[at + 16:at + 16 + kept], length))
            at += 16 + kept
        self._offset += at
        return frames


def write_pcap(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for nanoseconds, frame, length in frames:
            file.write(struct.pack("=4I", *divmod(nanoseconds, 1_000_000_000), len(frame), length) + frame)


def _ip(frame):
    """Offset of the IP header, its version, its protocol, offset of what follows; None for anything else."""
    at, = 12,
    kind = int.from_bytes(frame[at:at + 2], "big")
    while kind in (0x8100, 0x88A8):
        at += 4
        kind = int.from_bytes(frame[at:at + 2], "big")
    at += 2
    if kind == 0x0800 and len(frame) >= at + 20:
        return at, 4, frame[at + 9], at + (frame[at] & 15) * 4
    if kind == 0x86DD and len(frame) >= at + 40:
        return at, 6, frame[at + 6], at + 40
    return None


def _addresses(frame, at, version):
    if version == 4:
        return ipaddress.ip_address(frame[at + 12:at + 16]), ipaddress.ip_address(frame[at + 16:at + 20])
    return ipaddress.ip_address(frame[at + 8:at + 24]), ipaddress.ip_address(frame[at + 24:at + 40])


def tcp_payload(frame):
    """(source address, source port, destination address, destination port, sequence number, payload) or None."""
    ip = _ip(frame)
    if ip is None or ip[2] != 6:
        return None
    at, version, _, tcp = ip
    source, destination = _addresses(frame, at, version)
    end = at + (int.from_bytes(frame[at + 2:at + 4], "big") if version == 4
                else 40 + int.from_bytes(frame[at + 4:at + 6], "big"))
    sport, dport, sequence = struct.unpack_from(">HHI", frame, tcp)
    return source, sport, destination, dport, sequence, frame[tcp + (frame[tcp + 12] >> 4) * 4:end]


def roce(frame):
    """What a RoCEv2 frame says, or None when it is none."""
    ip = _ip(frame)
    if ip is None or ip[2] != 17:
        return None
    at, version, _, udp = ip
    if len(frame) < udp + 8 + 12 + 4 or int.from_bytes(frame[udp + 2:udp + 4], "big") != ROCE_PORT:
        return None
    bth = udp + 8
    end = udp + int.from_bytes(frame[udp + 4:udp + 6], "big") - 4
    opcode = frame[bth]
    operation = opcode & 0x1F
    position = bth + 12
    va = key = length = swap = compare = syndrome = original = flush = None
    if opcode >> 5 == 0:
        if operation in _FETH:
            flush = frame[position + 3]
            position += 4
        if operation in _RETH:
            va, key, length = struct.unpack_from(">QII", frame, position)
            position += 16
        if operation in _ATOMIC:
            va, key, swap, compare = struct.unpack_from(">QIQQ", frame, position)
            position += 28
        if operation in _AETH:
            syndrome = frame[position]
            position += 4
        if operation == 0x12:
            original, = struct.unpack_from(">Q", frame, position)
            position += 8
        if operation in _IMMEDIATE or operation in _INVALIDATE:
            position += 4
    if opcode >> 5 == 3:  # the unreliable datagram service: DETH
        position += 12 if operation in _IMMEDIATE else 8
    source, destination = _addresses(frame, at, version)
    pad = frame[bth + 1] >> 4 & 3
    return Roce(source, destination, at, version, bth, opcode, int.from_bytes(frame[bth + 5:bth + 8], "big"),
                int.from_bytes(frame[bth + 9:bth + 12], "big"), pad, bool(frame[bth + 8] & 0x80), position, end - pad,
                va, key, length, swap, compare, syndrome, original, flush)
