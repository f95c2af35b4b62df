"""Which queue pairs belong together: read from perftest's own exchange over TCP, as it passed on the wire."""

import dataclasses
import ipaddress
import re

from . import wire

_KEY = re.compile(rb"([0-9a-f]{4}):([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{8}):([0-9a-f]{16}):"
                  rb"((?:[0-9a-f]{2}:){16})([0-9a-f]{8}):\0")


@dataclasses.dataclass(frozen=True)
class End:
    """What one side said of its queue pair. `psn` is the first it sends with."""

    address: object
    qpn: int
    psn: int
    key: int
    va: int


@dataclasses.dataclass(frozen=True)
class Pair:
    port: int
    client: End
    server: End


def pairs(frames, ports):
    """The connected queue pairs of every perftest run to one of these TCP ports, in order."""
    found = []
    for port, *sides in streams(frames, ports):
        client, server = (_ends(side) for side in sides)
        seen = set()
        for mine, theirs in zip(client, server):
            if mine.qpn not in seen:
                seen.add(mine.qpn)
                found.append(Pair(port, mine, theirs))
    return found


def streams(frames, ports):
    """What was said on every TCP connection to one of these ports: (port, the client's bytes, the server's)."""
    sides = {}
    order = []
    for _, frame, _ in frames:
        tcp = wire.tcp_payload(frame)
        if tcp is None:
            continue
        source, sport, destination, dport, sequence, payload = tcp
        connection = (source, sport, destination, dport) if dport in ports else (destination, dport, source, sport)
        if connection[3] not in ports or not payload:
            continue
        if connection not in sides:
            sides[connection] = ({}, {})
            order.append(connection)
        sides[connection][0 if dport in ports else 1].setdefault(sequence, payload)
    return [(connection[3], *(_joined(side) for side in sides[connection])) for connection in order]


def _joined(segments):
    """The stream's bytes; sequence numbers that wrap in these few kilobytes are told by their distance."""
    if not segments:
        return b""
    first = next(iter(segments))
    placed = sorted(((sequence - first + 2**31) % 2**32, payload) for sequence, payload in segments.items())
    stream, end = b"", None
    for at, payload in placed:
        skip = 0 if end is None else max(0, end - at)
        stream += payload[skip:]
        end = at + len(payload) if end is None else max(end, at + len(payload))
    return stream


def _ends(stream):
    ends = []
    for match in _KEY.finditer(stream):
        gid = ipaddress.IPv6Address(bytes.fromhex(match[7].decode().replace(":", "")))
        ends.append(End(gid.ipv4_mapped or gid, int(match[3], 16), int(match[4], 16), int(match[5], 16),
                        int(match[6], 16)))
    return ends
