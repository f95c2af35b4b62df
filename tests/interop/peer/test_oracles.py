"""The oracles themselves, held against real captures and against frames with one thing wrong."""

import os
import struct
import tempfile
import unittest

from . import by_cm, exchange, icrc, judge, messages, perftest, pingpong, replay, scenario, tables, wire

CAPTURES = os.path.join(os.path.dirname(__file__), "..", "..", "captures")


def frames(name):
    return wire.PcapTail(os.path.join(CAPTURES, name)).take()


def altered(frame, at, mask=1):
    changed = bytearray(frame)
    changed[at] ^= mask
    return bytes(changed)


def pair_of_first(captured):
    """The pair that the capture's first request belongs to; the client's own number from the first answer."""
    packets = [wire.roce(frame) for _, frame, _ in captured]
    first = packets[0]
    answer = next(packet for packet in packets if packet.source == first.destination)
    return exchange.Pair(perftest.FIRST_PORT, exchange.End(first.source, answer.qpn, first.psn, 0, 0),
                         exchange.End(first.destination, first.qpn, 0, first.key or 0, 0))


class Icrc(unittest.TestCase):
    def test_every_real_packet_is_right(self):
        for name in ("rxe-write.pcap", "rxe-read.pcap", "rxe-send.pcap", "rxe-atomic.pcap", "rxe-ipv6.pcap",
                     "rxe-mtu4096.pcap"):
            captured = frames(name)
            self.assertTrue(captured)
            self.assertEqual(judge.check_icrc(name, captured), [])

    def test_what_is_covered_and_what_is_not(self):
        for name in ("rxe-write.pcap", "rxe-ipv6.pcap"):
            _, frame, _ = frames(name)[0]
            packet = wire.roce(frame)
            right = icrc.computed(frame, packet)
            ttl = packet.ip_offset + (8 if packet.ip_version == 4 else 7)
            for at in (ttl, packet.bth_offset - 2, packet.bth_offset + 4):
                self.assertEqual(icrc.computed(altered(frame, at), packet), right)
            for at in (packet.bth_offset, packet.bth_offset + 11, packet.payload_offset, packet.payload_end - 1):
                self.assertNotEqual(icrc.computed(altered(frame, at), packet), right)

    def test_a_wrong_one_is_found(self):
        captured = frames("rxe-write.pcap")
        stamp, frame, length = captured[3]
        captured[3] = (stamp, altered(frame, len(frame) - 5), length)
        self.assertIn("frame 4", judge.check_icrc("here", captured)[0])

    def test_a_flush_of_rxe_is_known_for_what_it_is(self):
        captured = frames("rxe72-flush-atomicwrite.pcap")
        self.assertEqual(judge.check_icrc("here", captured, icrc.of_rxe), [])
        self.assertIn("frame 14", judge.check_icrc("here", captured)[0])
        # What an independent implementation computed for the three.
        flushes = [frame for _, frame, _ in captured if wire.roce(frame) and wire.roce(frame).opcode == icrc.FLUSH]
        self.assertEqual([icrc.computed(frame, wire.roce(frame)).hex() for frame in flushes],
                         ["e66feb14", "cd139664", "6a64fc2f"])
        repaired = [icrc.right(frame) for frame in flushes]
        self.assertEqual(judge.check_icrc("here", [(0, frame, len(frame)) for frame in repaired]), [])
        self.assertEqual([icrc.spoilt(frame) for frame in repaired], flushes)
        self.assertEqual(icrc.right(captured[0][1]), captured[0][1])

    def test_a_flush_that_was_not_dropped_is_found(self):
        captured = frames("rxe72-flush-atomicwrite.pcap")
        self.assertEqual(judge.check_dropped(captured, {"drops": {"bad_icrc": 3}}), [])
        for stats in ({"drops": {"bad_icrc": 2}}, {"drops": {"bad_icrc": 4}}, {"drops": {}}, None):
            self.assertEqual(len(judge.check_dropped(captured, stats)), 1)
        self.assertEqual(len(judge.check_dropped(frames("rxe-write.pcap"), {"drops": {"bad_icrc": 0}})), 1)


class Echo(unittest.TestCase):
    """ibv_rc_pingpong between two rxe, without -c: 3,000 bytes of 0x7b, ten times."""

    def setUp(self):
        self.captured = frames("rxe-pingpong.pcap")
        packets = [wire.roce(frame) for _, frame, _ in self.captured]
        there = packets[0]
        back = next(packet for packet in packets if packet.source == there.destination and packet.opcode == 0)
        self.pair = exchange.Pair(18515, exchange.End(there.source, back.qpn, there.psn, None, None),
                                  exchange.End(back.source, there.qpn, back.psn, None, None))
        self.run = pingpong.PingPong("rc", 3000, 10)

    def test_a_real_run(self):
        self.assertEqual(self.run.check_pair(self.captured, self.pair, pages=False), [])
        self.assertEqual(len(self.run.check_pair(self.captured, self.pair)), 10)
        self.assertIn("does not begin with 0", self.run.check_pair(self.captured, self.pair)[0])

    def test_what_is_wrong_is_found(self):
        for number, (stamp, frame, length) in enumerate(self.captured):
            packet = wire.roce(frame)
            if packet.opcode <= 2:
                changed = list(self.captured)
                changed[number] = (stamp, altered(frame, packet.payload_end - 1), length)
                problem, = self.run.check_pair(changed, self.pair, pages=False)
                self.assertIn("came back changed", problem)
        self.assertIn("10 messages there and 9 back",
                      self.run.check_pair(self.captured[:-4], self.pair, pages=False)[0])
        longer = pingpong.PingPong("rc", 3001, 10)
        self.assertIn("has 3000 bytes", longer.check_pair(self.captured, self.pair)[0])


class Messages(unittest.TestCase):
    """udaddy between two rxe, five datagrams each way, in a capture that has rping and ucmatose too. The program's server
    answers with the area in front of what it received; ours with what it received."""

    CHANGED = "what was sent there is not what was sent back"

    def setUp(self):
        self.captured = frames("rxe-cm.pcap")
        packets = [wire.roce(frame) for _, frame, _ in self.captured]
        self.datagrams = [number for number, packet in enumerate(packets) if packet and packet.opcode == 0x65]

    def test_a_real_run(self):
        self.assertEqual(len(self.datagrams), 10)
        self.assertEqual(messages.Udaddy(count=5).check_frames(self.captured), [self.CHANGED])
        self.assertEqual(messages.Udaddy(count=6).check_frames(self.captured),
                         ["5 and 5 messages by sender, 6 each way wanted", self.CHANGED])

    def test_the_programs_server(self):
        self.assertEqual(messages.UdaddyThere(count=5).check_frames(self.captured), [])
        for number in self.datagrams:
            stamp, frame, length = self.captured[number]
            changed = list(self.captured)
            changed[number] = (stamp, altered(frame, wire.roce(frame).payload_end - 50), length)
            self.assertEqual(messages.UdaddyThere(count=5).check_frames(changed), [self.CHANGED])

    def test_what_comes_back(self):
        """One side's payloads in both directions."""
        payload = None
        for number in self.datagrams:
            stamp, frame, length = self.captured[number]
            packet = wire.roce(frame)
            payload = payload or frame[packet.payload_offset:packet.payload_end]
            frame = frame[:packet.payload_offset] + payload + frame[packet.payload_end:]
            self.captured[number] = (stamp, frame, length)
        self.assertEqual(messages.Udaddy(count=5).check_frames(self.captured), [])
        for number in self.datagrams:
            lost = self.captured[:number] + self.captured[number + 1:]
            problem, = messages.Udaddy(count=5).check_frames(lost)
            self.assertIn("messages by sender, 5 each way wanted", problem)
            stamp, frame, length = self.captured[number]
            changed = list(self.captured)
            changed[number] = (stamp, altered(frame, wire.roce(frame).payload_end - 1), length)
            self.assertEqual(messages.Udaddy(count=5).check_frames(changed), [self.CHANGED])


class Replay(unittest.TestCase):
    def run_over(self, captured, pair, **more):
        model = replay.Replay(**more)
        model.run(captured, [pair])
        return model

    def test_real_runs_have_no_problem(self):
        for name, operation, count in (("rxe-write.pcap", "write", 16), ("rxe-read.pcap", "read", 16),
                                       ("rxe-atomic.pcap", "atomic", 8), ("rxe-send.pcap", "send", 16)):
            captured = frames(name)
            model = self.run_over(captured, pair_of_first(captured))
            self.assertEqual(model.problems, [], name)
            self.assertEqual(model.executed[operation], count, name)

    def test_flush_and_atomic_write(self):
        captured = frames("rxe72-flush-atomicwrite.pcap")
        requests = [(number, wire.roce(frame)) for number, (_, frame, _) in enumerate(captured)
                    if wire.roce(frame) and wire.roce(frame).qpn > 1]
        first = [packet for _, packet in requests if packet.opcode == 0x1D][0]
        answer = next(packet for _, packet in requests if packet.opcode == 0x10)
        pair = exchange.Pair(0, exchange.End(first.source, answer.qpn, first.psn, 0, 0),
                             exchange.End(first.destination, first.qpn, 0, first.key, first.va))
        model = self.run_over(captured, pair)
        self.assertEqual((model.problems, dict(model.executed)), ([], {"ATOMIC WRITE": 1}))
        self.assertIsNone(model.memories[first.key].first_difference(first.va, b"ATOMICWR"))
        gone = next(number for number, packet in requests if packet.opcode == 0x10)
        model = self.run_over(captured[:gone] + captured[gone + 1:], pair)
        self.assertIn("was not answered", model.problems[0])
        # The second connection: a WRITE of three packets and the FLUSH behind it.
        write = [packet for _, packet in requests if packet.opcode == 0x06][0]
        answer = [packet for _, packet in requests if packet.opcode == 0x10][1]
        pair = exchange.Pair(0, exchange.End(write.source, answer.qpn, write.psn, 0, 0),
                             exchange.End(write.destination, write.qpn, 0, write.key, write.va))
        model = self.run_over(captured, pair)
        self.assertEqual((model.problems, dict(model.executed)), ([], {"write": 1, "FLUSH": 1}))

    def test_a_run_under_loss_has_no_problem(self):
        captured = frames("rxe-lossy-server.pcap")
        model = self.run_over(captured, pair_of_first(captured))
        self.assertEqual(model.problems, [])
        self.assertEqual(model.executed["write"], 40)

    def test_a_missing_request(self):
        captured = frames("rxe-write.pcap")
        pair = pair_of_first(captured)
        gone = next(number for number, (_, frame, _) in enumerate(captured) if wire.roce(frame).opcode == 0x07)
        del captured[gone]
        self.assertIn("never came", self.run_over(captured, pair).problems[0])

    def test_a_read_answered_otherwise_than_before(self):
        captured = frames("rxe-read.pcap")
        pair = pair_of_first(captured)
        number = [number for number, (_, frame, _) in enumerate(captured) if wire.roce(frame).opcode == 0x0F][3]
        stamp, frame, length = captured[number]
        captured[number] = (stamp, altered(frame, wire.roce(frame).payload_offset + 5), length)
        self.assertIn("wrong byte", self.run_over(captured, pair).problems[0])

    def test_an_atomic_executed_twice(self):
        captured = frames("rxe-atomic.pcap")
        first = next(number for number, (_, frame, _) in enumerate(captured) if wire.roce(frame).opcode == 0x14)
        captured = captured[first:]
        pair = pair_of_first(captured)
        self.assertEqual(self.run_over(captured, pair).problems, [])
        _, frame, _ = captured[0]
        packet = wire.roce(frame)
        model = replay.Replay()
        # Somebody adds 1 behind the model's back: the value that comes back is not the one left there.
        model.memories[packet.key].write(packet.va, bytes(8))
        model.run(captured, [pair])
        self.assertIn("did not hold", model.problems[0])

    def test_a_dump_that_differs(self):
        captured = frames("rxe-write.pcap")
        pair = pair_of_first(captured)
        memory = self.run_over(captured, pair).memories[pair.server.key]
        va = wire.roce(captured[0][1]).va
        requests = [(wire.roce(frame), frame) for _, frame, _ in captured if wire.roce(frame).qpn == pair.server.qpn]
        # All 3000-byte WRITEs of this run go to the same place, three packets each: the last one is what stays.
        requests = [(packet, frame) for packet, frame in requests if packet.opcode in (0x06, 0x07, 0x08)]
        image = b"".join(frame[packet.payload_offset:packet.payload_end] for packet, frame in requests[-3:])
        self.assertEqual(len(image), 3000)
        self.assertIsNone(memory.first_difference(va, image))
        self.assertEqual(memory.first_difference(va, altered(image, 700)), va + 700)
        self.assertEqual(memory.first_difference(va, image[:600]), va + 600)
        self.assertEqual(memory.first_difference(va + 100, image[100:]), va)
        self.assertIsNone(memory.first_difference(va, image + bytes(50), 0))
        self.assertEqual(memory.first_difference(va, image + bytes(50) + b"x", 0), va + 3050)


class Captures(unittest.TestCase):
    def test_pcapng(self):
        frame = bytes(range(70))
        section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
        interface = struct.pack("<IIHHIHHB3xHHI", 1, 32, 1, 0, 0, 9, 1, 9, 0, 0, 32)
        ticks = 1_700_000_000_000_000_123
        packet = struct.pack("<IIIIIII", 6, 32 + 72, 0, ticks >> 32, ticks & 0xFFFFFFFF, 70, 90) + frame + b"\0\0" \
            + struct.pack("<I", 32 + 72)
        with tempfile.NamedTemporaryFile() as file:
            file.write(section + interface + packet)
            file.flush()
            self.assertEqual(list(wire.read_pcapng(file.name)), [(ticks, frame, 90)])
            file.write(packet[:-1])
            file.flush()
            with self.assertRaises(wire.CaptureError):
                list(wire.read_pcapng(file.name))

    def test_a_tail_takes_what_is_whole(self):
        _, frame, length = frames("rxe-write.pcap")[0]
        with tempfile.NamedTemporaryFile() as file:
            tail = wire.PcapTail(file.name)
            record = struct.pack("=4I", 1, 2, len(frame), length) + frame
            file.write(bytes(24) + record + record[:50])
            file.flush()
            self.assertEqual(tail.take(), [(1_000_002_000, frame, length)])
            self.assertEqual(tail.take(), [])
            file.write(record[50:])
            file.flush()
            self.assertEqual(len(tail.take()), 1)


class Exchange(unittest.TestCase):
    CLIENT = b"0000:0080:00001e:3bd686:00000b1e:000055e4ea0fb000:" + b"00:" * 10 + b"ff:ff:0a:4d:01:03:00000000:\0"
    SERVER = b"0000:0080:00001f:54b931:00000b00:00005579e2257000:" + b"00:" * 10 + b"ff:ff:0a:4d:01:02:00000000:\0"

    @staticmethod
    def segment(to_server, sequence, payload, port=perftest.FIRST_PORT):
        ports = (40000, port) if to_server else (port, 40000)
        hosts = b"\x0a\x4d\x01\x03\x0a\x4d\x01\x02" if to_server else b"\x0a\x4d\x01\x02\x0a\x4d\x01\x03"
        header = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0) + hosts
        tcp = struct.pack(">HHIIBBHHH", *ports, sequence, 0, 0x50, 0x18, 0, 0, 0)
        return 0, bytes(12) + b"\x08\0" + header + tcp + payload, 54 + len(payload)

    def test_pairs(self):
        talk = [self.segment(True, 100, b"6.06" + bytes(12) + self.CLIENT[:50]), self.segment(False, 7, self.SERVER),
                self.segment(True, 166, self.CLIENT[50:]), self.segment(True, 166, self.CLIENT[50:]),
                self.segment(True, 224, self.CLIENT), self.segment(False, 115, self.SERVER)]
        pair, = exchange.pairs(talk, {perftest.FIRST_PORT})
        self.assertEqual((pair.client.qpn, pair.client.psn, str(pair.client.address)), (0x1E, 0x3BD686, "10.77.1.3"))
        self.assertEqual((pair.server.qpn, pair.server.key, pair.server.va), (0x1F, 0xB00, 0x5579E2257000))

    def test_pairs_of_pingpong(self):
        port = pingpong.PORTS["rc"]
        talk = [self.segment(True, 7, b"0000:000011:7d6a2b:00000000000000000000ffff0a4e0202\0", port),
                self.segment(False, 9, b"0000:9a0004:000001:fd780001000000000000000000000001\0", port),
                self.segment(True, 59, b"done\0", port)]
        pair, = pingpong.PingPong.pairs(talk)
        self.assertEqual((pair.client.qpn, pair.client.psn, str(pair.client.address)), (0x11, 0x7D6A2B, "10.78.2.2"))
        self.assertEqual((pair.server.qpn, pair.server.psn, str(pair.server.address)), (0x9A0004, 1, "fd78:1::1"))
        self.assertEqual(pingpong.PingPong.pairs(talk[1:]), [])


class ByCm(unittest.TestCase):
    """Between two rxe: an rping, two connections of ucmatose, and udaddy, which has none."""

    def test_pairs(self):
        captured = frames("rxe-cm.pcap")
        pairs = by_cm.pairs(captured)
        self.assertEqual(len(pairs), 3)
        packets = [packet for packet in (wire.roce(frame) for _, frame, _ in captured) if packet and packet.qpn != 1]
        for pair in pairs:
            # The first packet of either side to the other has the PSN that the MADs said.
            for ours, theirs in ((pair.client, pair.server), (pair.server, pair.client)):
                first = next(packet for packet in packets if (packet.destination, packet.qpn) ==
                             (theirs.address, theirs.qpn) and packet.syndrome is None)
                self.assertEqual((first.source, first.psn), (ours.address, ours.psn))

    def test_what_carries_the_exchange_is_left_out(self):
        captured = frames("rxe-cm.pcap")
        first = by_cm.pairs(captured)[0].server
        at, frame = next((at, frame) for at, (_, frame, _) in enumerate(captured)
                         if wire.roce(frame) and (wire.roce(frame).destination, wire.roce(frame).qpn) ==
                         (first.address, first.qpn) and wire.roce(frame).opcode == 0x04)
        packet = wire.roce(frame)
        self.assertEqual(packet.payload_end - packet.payload_offset, 16)
        said = frame[:packet.payload_offset] + b"6.06".ljust(16, b"\0") + frame[packet.payload_end:]
        captured[at] = (0, said, len(said))
        self.assertEqual(len(by_cm.pairs(captured)), 2)


class Judgement(unittest.TestCase):
    def test_counters(self):
        right = {"rx_frames": 90, "acted_on": 88, "drops": {"icrc": 2}, "tx_frames": 50,
                 "faults": {"rx": {"drop": 12, "duplicate": 2}, "tx": {"drop": 1, "duplicate": 4}}}
        self.assertEqual(judge.check_counters(right, 100, 53), [])
        self.assertEqual(len(judge.check_counters(right, 101, 54)), 2)
        self.assertEqual(judge.check_sum(right), [])
        self.assertEqual(len(judge.check_sum(dict(right, acted_on=89))), 1)

    def test_client(self):
        client = perftest.Client("write_bw", size=1024, iterations=60, options=("-q", "2"))
        row = " 1024       120              0.00               0.00               0.002182\n"
        self.assertEqual(judge.check_client(client, row, 0), [])
        self.assertIn("status 1", judge.check_client(client, row, 1)[0])
        self.assertIn("out of time", judge.check_client(client, "", 137)[0])
        self.assertIn("no result", judge.check_client(client, row.replace("120", "119"), 0)[0])
        self.assertIn("said", judge.check_client(client, "Completion with error\n" + row, 0)[0])

    def test_faults(self):
        enough = {"drop": 10, "duplicate": 11, "reorder": 12}
        every = scenario.FAULTS.format(seed=1)
        self.assertEqual(judge.check_faults(every, {"rx": enough, "tx": enough}), [])
        self.assertEqual(len(judge.check_faults(every, {"rx": enough, "tx": dict(enough, reorder=9)})), 1)
        self.assertEqual(len(judge.check_faults(every, None)), 3)
        loss = scenario.LOSS.format(seed=1)
        self.assertEqual(judge.check_faults(loss, {"rx": {"drop": 10}, "tx": {"drop": 10}}), [])
        self.assertEqual(len(judge.check_faults(loss, {"rx": {"drop": 9}, "tx": {"drop": 9}})), 2)
        self.assertEqual(judge.check_faults("tx-drop=0.1,seed=1", {"rx": {}, "tx": {"drop": 10}}), [])
        self.assertEqual(len(judge.check_faults("tx-drop=0.1,seed=1", {"rx": {"drop": 10}, "tx": {}})), 1)


class Table(unittest.TestCase):
    def test_every_pair_of_values_occurs(self):
        clients = [(each.clients[0], each.attachment) for each in perftest.covering()]
        self.assertGreaterEqual(len(clients), 60)
        columns = {
            "program": (perftest.PROGRAMS, lambda client, _: client.program),
            "mtu": (perftest.MTUS, lambda client, _: client.mtu),
            "size": (perftest.SIZES, lambda client, _: client.size),
            "family": (perftest.FAMILIES, lambda client, _: client.family[:4]),
            "attachment": (perftest.ATTACHMENTS, lambda _, attachment: attachment),
        }
        for one in columns:
            for other in columns:
                for left in columns[one][0]:
                    for right in columns[other][0]:
                        atomic = "atomic" in f"{left}{right}"
                        if one == other or (atomic and "size" in (one, other)):
                            continue
                        self.assertTrue(any(columns[one][1](*row) == left and columns[other][1](*row) == right
                                            for row in clients), (left, right))

    def test_names_are_unique(self):
        names = [each.name for each in tables.table()]
        self.assertEqual(len(names), len(set(names)))


class Complaints(unittest.TestCase):
    def test_counters_are_no_complaint(self):
        counters = '{"stats":{"sessions_failed":0}}'
        self.assertIsNone(scenario.complaint("rping", f"done\n{counters}\n", 0))
        self.assertEqual(scenario.complaint("rping", f"it failed\n{counters}\n", 0), "rping said: it failed")
        self.assertEqual(scenario.complaint("rping", f"it failed\n{counters}\n", 1), "rping: status 1: it failed")


if __name__ == "__main__":
    unittest.main()
