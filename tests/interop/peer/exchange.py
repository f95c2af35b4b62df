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
    streams = {}
    order = []
    for _, frame, _ in frames:
        tcp = wire.tcp_payload(frame)
        if tcp is None:
            continue
        source, sport, destination, dport, sequence, payload = tcp
        connection = (source, sport, destination, dport) if dport in ports else (destination, dport, source, sport)
        if connection[3] not in ports or not payload:
            continue
        if connection not in streams:
            streams[connection] = ({}, {})
            order.append(connection)
        streams[connection][0 if dport in ports else 1].setdefault(sequence, payload)
    found = []
    for connection in order:
        client, server = (_ends(_joined(side)) for side in streams[connection])
        seen = set()
        for mine, theirs in zip(client, server):
            if mine.qpn not in seen:
                seen.add(mine.qpn)
                found.append(Pair(connection[3], mine, theirs))
    return found


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
