#!/usr/bin/env python3
"""What happened in a capture of RoCEv2 over Ethernet, worked out from the whole file at once.

An independent witness for roce_pcap::message: it shares no code with it, reads the file by itself,
and looks at all packets at a time, where the tracker streams. Prints one JSON object.
Usage: oracle.py FILE.pcap
"""

import collections
import ipaddress
import json
import struct
import sys

HALF = 1 << 23
ALL = 1 << 24
SENDS = {0x00: "first", 0x01: "middle", 0x02: "last", 0x03: "last", 0x04: "only", 0x05: "only",
         0x16: "last", 0x17: "only"}
WRITES = {0x06: "first", 0x07: "middle", 0x08: "last", 0x09: "last", 0x0A: "only", 0x0B: "only"}
SINGLE = {0x0C: "read", 0x13: "atomic", 0x14: "atomic", 0x1C: "flush", 0x1D: "atomic_write"}
READ_RESPONSES = {0x0D, 0x0E, 0x0F, 0x10}


def packets(path):
    """Number, time in ns, and fields of each RoCEv2 packet."""
    with open(path, "rb") as file:
        data = file.read()
    magic = data[:4]
    order = "<" if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    scale = 1 if magic in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1000
    at, number = 24, 0
    while at + 16 <= len(data):
        seconds, fraction, captured, original = struct.unpack_from(order + "IIII", data, at)
        frame = data[at + 16:at + 16 + captured]
        at += 16 + captured
        number += 1
        ethertype = int.from_bytes(frame[12:14], "big")
        if ethertype == 0x0800:
            length = int.from_bytes(frame[16:18], "big") - 20
            src, dst, protocol, udp = frame[26:30], frame[30:34], frame[23], 34
            ecn = frame[15] & 3
        elif ethertype == 0x86DD:
            length = int.from_bytes(frame[18:20], "big")
            src, dst, protocol, udp = frame[22:38], frame[38:54], frame[20], 54
            ecn = frame[15] >> 4 & 3
        else:
            continue
        if protocol != 17 or frame[udp + 2:udp + 4] != b"\x12\xb7":
            continue
        bth = frame[udp + 8:]
        opcode = bth[0]
        headers = HEADERS.get(opcode, 12)
        payload = length - 8 - headers - (bth[1] >> 4 & 3) - 4
        aeth = opcode in (0x0D, 0x0F, 0x10, 0x11, 0x12)
        reth = {0x06: 12, 0x0A: 12, 0x0B: 12, 0x0C: 12}.get(opcode)
        yield {
            "number": number,
            "time": seconds * 10**9 + fraction * scale,
            "flow": (str(ipaddress.ip_address(src)), str(ipaddress.ip_address(dst)),
                     int.from_bytes(bth[5:8], "big")),
            "opcode": opcode,
            "psn": int.from_bytes(bth[9:12], "big"),
            "payload": payload,
            "syndrome": bth[12] if aeth else None,
            "dma": int.from_bytes(bth[reth + 12:reth + 16], "big") if reth else None,
            "ecn": ecn,
            "wire": original,
        }


HEADERS = {0x03: 16, 0x05: 16, 0x06: 28, 0x09: 16, 0x0A: 28, 0x0B: 32, 0x0C: 28, 0x0D: 16,
           0x0F: 16, 0x10: 16, 0x11: 16, 0x12: 24, 0x13: 40, 0x14: 40, 0x16: 16, 0x17: 16,
           0x1C: 32, 0x1D: 28, 0x64: 20, 0x65: 24}


def far(psn, base):
    """How far psn lies behind base, as a signed number."""
    distance = (psn - base) % ALL
    return distance - ALL if distance >= HALF else distance


def is_request(packet):
    return packet["opcode"] in SENDS or packet["opcode"] in WRITES or packet["opcode"] in SINGLE


def messages(requests, mtu):
    """The messages of a flow's requests, with PSNs unwrapped, and what was sent again."""
    base = requests[0]["psn"]
    seen, again = {}, 0
    taken = set()
    for packet in requests:
        psn = far(packet["psn"], base)
        if psn in taken:
            again += 1
            continue
        seen[psn] = packet
        count = 1
        if packet["opcode"] == 0x0C:
            count = max(1, -(-packet["dma"] // mtu))
        taken.update(range(psn, psn + count))
    found = []
    for psn in sorted(seen):
        packet = seen[psn]
        opcode = packet["opcode"]
        if opcode in SINGLE:
            kind, place = SINGLE[opcode], "only"
        elif opcode in SENDS:
            kind, place = "send", SENDS[opcode]
        else:
            kind, place = "write", WRITES[opcode]
        if place in ("first", "only"):
            found.append({"kind": kind, "first": psn, "last": psn, "whole": False, "bytes": 0,
                          "start": packet["time"], "end": psn - 1, "packet": packet["number"]})
        message = found[-1]
        message["start"] = min(message["start"], packet["time"])
        message["packet"] = min(message["packet"], packet["number"])
        message["bytes"] += {"read": packet["dma"], "atomic": 8}.get(kind, packet["payload"])
        message["whole"] = place in ("last", "only") and message["end"] == psn - 1
        message["end"] = message["last"] = psn
        if kind == "read":
            message["last"] = psn + max(1, -(-packet["dma"] // mtu)) - 1
    return base, found, again


def complete(found, answers, base):
    """When each message was answered: by looking for the first answer that says so."""
    for message in found:
        message["answer"] = None
        message["refused"] = None
    # SEND and WRITE: the first answer behind the start that acknowledges the last PSN.
    for message in found:
        if message["kind"] not in ("send", "write"):
            continue
        for answer in answers:
            psn, syndrome = far(answer["psn"], base), answer["syndrome"]
            if answer["number"] < message["packet"]:
                continue
            if answer["opcode"] in READ_RESPONSES or answer["opcode"] == 0x12:
                # The whole READ it belongs to comes behind.
                owner = [m for m in found if m["first"] <= psn <= m["last"]]
                acked = owner[0]["first"] - 1 if owner else psn - 1
            elif syndrome >> 5 & 3 == 0:
                acked = psn
            else:
                acked = psn - 1
                if syndrome >> 5 & 3 == 3 and syndrome & 31 and message["first"] <= psn <= message["last"]:
                    message["refused"] = syndrome & 31
                    break
            if acked >= message["last"]:
                message["answer"] = answer
                break
    # READs and their like, in order: each PSN in its turn.
    expected, queue = None, [m for m in found if m["kind"] in ("read", "flush", "atomic_write")]
    for answer in answers:
        psn = far(answer["psn"], base)
        if answer["opcode"] == 0x11:
            if answer["syndrome"] >> 5 & 3 == 3 and answer["syndrome"] & 31:
                for message in queue:
                    if message["first"] <= psn <= message["last"] and not message["answer"]:
                        message["refused"] = answer["syndrome"] & 31
                queue = [m for m in queue if m["refused"] is None]
            continue
        if answer["opcode"] not in READ_RESPONSES or not queue:
            continue
        if answer["number"] < queue[0]["packet"]:
            continue
        if expected is None or expected < queue[0]["first"]:
            expected = queue[0]["first"]
        if psn != expected:
            continue
        expected += 1
        if psn == queue[0]["last"]:
            queue.pop(0)["answer"] = answer
    for message in found:
        if message["kind"] == "atomic":
            for answer in answers:
                if answer["opcode"] == 0x12 and far(answer["psn"], base) == message["first"]:
                    message["answer"] = answer
                    break


def whole_packets(packets):
    """Payloads that are one path MTU: those of First and Middle."""
    return [p["payload"] for p in packets if p["opcode"] in (0x00, 0x01, 0x06, 0x07, 0x0D, 0x0E)]


def main():
    flows = collections.OrderedDict()
    for packet in packets(sys.argv[1]):
        flows.setdefault(packet["flow"], []).append(packet)
    out = []
    for flow, all_packets in flows.items():
        row = {
            "src": flow[0], "dst": flow[1], "qp": flow[2],
            "packets": len(all_packets),
            "wire_bytes": sum(p["wire"] for p in all_packets),
            "ce": sum(p["ecn"] == 3 for p in all_packets),
            "naks": sum(p["opcode"] == 0x11 and p["syndrome"] == 0x60 for p in all_packets),
            "rnr": sum(p["opcode"] == 0x11 and p["syndrome"] >> 5 == 1 for p in all_packets),
        }
        out.append(row)
        requests = [p for p in all_packets if is_request(p)]
        if flow[2] == 1 or not requests:
            continue
        psns = {p["psn"] for p in requests}
        # Its answers: the flow the other way whose answers carry the most of its PSNs.
        best = max(
            (other for other in flows if other[0] == flow[1] and other[1] == flow[0]),
            key=lambda other: sum(p["psn"] in psns for p in flows[other] if p["syndrome"] is not None),
            default=None)
        answers = [p for p in flows.get(best, []) if not is_request(p) and p["syndrome"] is not None
                   or p["opcode"] == 0x0E]
        # Where no packet of the connection shows the path MTU, it is that of the file's others.
        sizes = whole_packets(all_packets + answers) or whole_packets(sum(flows.values(), []))
        mtu = sizes[0] if sizes else 4096
        base, found, again = messages(requests, mtu)
        complete(found, answers, base)
        row["retransmitted"] = again
        row["messages"] = [{
            "kind": m["kind"], "first": (m["first"] + base) % ALL, "last": (m["last"] + base) % ALL,
            "bytes": m["bytes"], "whole": m["whole"], "packet": m["packet"], "refused": m["refused"],
            "answer": m["answer"]["number"] if m["answer"] else None,
            "latency": m["answer"]["time"] - m["start"] if m["answer"] and m["whole"] else None,
        } for m in found]
    json.dump(out, sys.stdout)


main()
