"""The responder's memory, computed again from the frames on the wire.

Every request PSN is executed once, in PSN order, whichever of its copies the responder took: so the model needs
neither a view of the losses nor the responder's timing. READ responses and the values atomics return are held against
the model too.
"""

import collections

from . import wire

_SEND = {0x00: "first", 0x01: "middle", 0x02: "last", 0x03: "last", 0x04: "only", 0x05: "only"}
_WRITE = {0x06: "first", 0x07: "middle", 0x08: "last", 0x09: "last", 0x0A: "only", 0x0B: "only"}
_SEND.update({0x20 | opcode: place for opcode, place in _SEND.items()})  # the unreliable connected service
_SEND.update({0x64: "only", 0x65: "only"})  # and datagrams
_READ = 0x0C
_RESPONSES = {0x0D, 0x0E, 0x0F, 0x10}
_ATOMIC_ACKNOWLEDGE = 0x12
_COMPARE_SWAP, _FETCH_ADD = 0x13, 0x14
_FLUSH, _ATOMIC_WRITE = 0x1C, 0x1D
_ANSWERED = {_COMPARE_SWAP, _FETCH_ADD, _FLUSH, _ATOMIC_WRITE}
_PAGE = 4096


class Memory:
    """Bytes by address, each known or not yet."""

    def __init__(self):
        self._pages = {}

    def write(self, va, data):
        for page, offset, start, end in _pieces(va, len(data)):
            content, known = self._page(page)
            content[offset:offset + end - start] = data[start:end]
            known[offset:offset + end - start] = b"\1" * (end - start)

    def observe(self, va, data):
        """Somebody read these bytes here. Returns the address of the first that can't be; learns the others."""
        for page, offset, start, end in _pieces(va, len(data)):
            content, known = self._page(page)
            span = slice(offset, offset + end - start)
            if content[span] != data[start:end]:
                for index in range(end - start):
                    if known[offset + index] and content[offset + index] != data[start + index]:
                        return va + start + index
            content[span] = data[start:end]
            known[span] = b"\1" * (end - start)
        return None

    def first_difference(self, va, data, elsewhere=None):
        """Holds a dump that starts at va against what is known. Returns the first address where they differ, or that is
        known here and not in the dump; None when all is well. `elsewhere` is what every byte must be that is not known;
        None: anything."""
        if elsewhere is not None:
            image = bytearray([elsewhere]) * len(data)
            for page, (content, known) in self._pages.items():
                for offset in range(_PAGE):
                    if known[offset] and 0 <= page * _PAGE + offset - va < len(image):
                        image[page * _PAGE + offset - va] = content[offset]
            if image != data:
                return va + next(index for index, byte in enumerate(data) if byte != image[index])
        for page in sorted(self._pages):
            content, known = self._pages[page]
            base = page * _PAGE
            dumped = data[base - va:base - va + _PAGE] if base >= va else b""
            if known.count(1) == _PAGE and dumped == content:
                continue
            for offset in range(_PAGE):
                index = base + offset - va
                if known[offset] and (not 0 <= index < len(data) or data[index] != content[offset]):
                    return base + offset
        return None

    def _page(self, page):
        if page not in self._pages:
            self._pages[page] = (bytearray(_PAGE), bytearray(_PAGE))
        return self._pages[page]


def _area(frame, packet):
    """The 40 bytes in front of a received datagram: an IPv6 header, or zeroes and an IPv4 header behind them."""
    size = 40 if packet.ip_version == 6 else 20
    return bytes(40 - size) + frame[packet.ip_offset:packet.ip_offset + size]


def _pieces(va, length):
    done = 0
    while done < length:
        page, offset = divmod(va + done, _PAGE)
        size = min(_PAGE - offset, length - done)
        yield page, offset, done, done + size
        done += size


class Replay:
    """`problems` after `run` says what was wrong; `memories` holds the model by R_Key."""

    def __init__(self, receives=None, keys=None):
        """receives: queue pair number to the list of (va, length) its receive requests name, used in turn; a SEND to
        a queue pair that is not in it is not placed. keys: queue pair number to R_Key, of pairs whose exchange names
        none."""
        self._receives, self._keys = receives or {}, keys or {}
        self.memories = collections.defaultdict(Memory)
        self.problems = []
        self.executed = collections.Counter()

    def run(self, frames, pairs, whole=True):
        """Frames of one capture, and the pairs that talked in it. With `whole`, a PSN that never came is a problem."""
        sent = collections.defaultdict(dict)
        answered = collections.defaultdict(dict)
        for _, frame, _ in frames:
            packet = wire.roce(frame)
            if packet is None:
                continue
            here = (packet.destination, packet.qpn)
            if packet.opcode == _READ or packet.opcode in _SEND or packet.opcode in _WRITE \
                    or packet.opcode in _ANSWERED:
                sent[here].setdefault(packet.psn, (packet, frame))
            elif packet.opcode in _RESPONSES or packet.opcode == _ATOMIC_ACKNOWLEDGE:
                answered[here].setdefault(packet.psn, (packet, frame))
        for pair in pairs:
            requests = sent[(pair.server.address, pair.server.qpn)]
            self._execute(pair, requests, answered[(pair.client.address, pair.client.qpn)], whole)

    def _execute(self, pair, requests, answers, whole):
        name = f"QP {pair.server.qpn:#x}"
        in_order = sorted(((psn - pair.client.psn) % 2**24, *requests[psn]) for psn in requests)
        expected, at, key, message = 0, 0, None, b""
        sends = 0
        for distance, packet, frame in in_order:
            if distance >= 2**23:
                self.problems.append(f"{name}: request PSN {packet.psn:#x} before the first, {pair.client.psn:#x}")
                continue
            if distance < expected:
                continue  # a READ taken up again in its middle
            if distance > expected and whole:
                self.problems.append(f"{name}: request PSN {(pair.client.psn + expected) % 2**24:#x} never came")
                return
            expected = distance + 1
            payload = frame[packet.payload_offset:packet.payload_end]
            if packet.opcode >> 5 == 3:
                payload = _area(frame, packet) + payload
            if packet.opcode in _WRITE:
                if _WRITE[packet.opcode] in ("first", "only"):
                    at, key = packet.va, packet.key
                self.memories[key].write(at, payload)
                at += len(payload)
                self.executed["write"] += _WRITE[packet.opcode] in ("last", "only")
            elif packet.opcode in _SEND:
                message = payload if _SEND[packet.opcode] in ("first", "only") else message + payload
                if _SEND[packet.opcode] in ("last", "only"):
                    self._deliver(name, pair, sends, message)
                    sends += 1
                    self.executed["send"] += 1
            elif packet.opcode == _READ:
                expected = distance + self._read(name, packet, answers, whole)
                self.executed["read"] += 1
            elif packet.opcode in (_FLUSH, _ATOMIC_WRITE):
                self._done(name, packet, payload, answers, whole)
            else:
                self._atomic(name, packet, answers, whole)
                self.executed["atomic"] += 1

    def _deliver(self, name, pair, number, message):
        receives = self._receives.get(pair.server.qpn)
        if not receives:
            return
        va, length = receives[number % len(receives)]
        if len(message) > length:
            self.problems.append(f"{name}: a SEND of {len(message)} bytes into a receive of {length}")
            return
        key = self._keys.get(pair.server.qpn) if pair.server.key is None else pair.server.key
        self.memories[key].write(va, message)

    def _read(self, name, packet, answers, whole):
        """Holds the answers against the model; returns how many PSNs the READ took."""
        done, count = 0, 0
        while done < packet.length or count == 0:
            answer = answers.get((packet.psn + count) % 2**24)
            if answer is None:
                if whole:
                    self.problems.append(f"{name}: READ {packet.psn:#x} was not answered beyond {done} bytes")
                return max(count, 1)
            response, frame = answer
            payload = frame[response.payload_offset:response.payload_end]
            wrong = self.memories[packet.key].observe(packet.va + done, payload)
            if wrong is not None:
                self.problems.append(f"{name}: READ {packet.psn:#x} was answered with a wrong byte for {wrong:#x}")
            done += len(payload)
            count += 1
            if done < packet.length and not payload:
                break
        if done != packet.length:
            self.problems.append(f"{name}: READ {packet.psn:#x} of {packet.length} bytes was answered with {done}")
        return count

    def _done(self, name, packet, payload, answers, whole):
        """FLUSH and ATOMIC WRITE: a READ response without payload says that it is done."""
        what = "FLUSH" if packet.opcode == _FLUSH else "ATOMIC WRITE"
        answer = answers.get(packet.psn)
        if answer is None or answer[0].opcode != 0x10 or answer[0].payload_offset != answer[0].payload_end:
            if whole:
                self.problems.append(f"{name}: {what} {packet.psn:#x} was not answered as one is")
            return
        if packet.opcode == _ATOMIC_WRITE:
            self.memories[packet.key].write(packet.va, payload)
        self.executed[what] += 1

    def _atomic(self, name, packet, answers, whole):
        answer = answers.get(packet.psn)
        if answer is None:
            if whole:
                self.problems.append(f"{name}: atomic {packet.psn:#x} was not answered")
            return
        original = answer[0].original
        # Fields on the wire are big-endian; in memory the value has the responder's byte order, little-endian here.
        wrong = self.memories[packet.key].observe(packet.va, original.to_bytes(8, "little"))
        if wrong is not None:
            self.problems.append(f"{name}: atomic {packet.psn:#x} returned {original:#x}, which {packet.va:#x} did not hold")
        if packet.opcode == _FETCH_ADD:
            value = (original + packet.swap) % 2**64
        else:
            value = packet.swap if original == packet.compare else original
        self.memories[packet.key].write(packet.va, value.to_bytes(8, "little"))
