"""A wire with faults: carries frames between two interfaces and loses, doubles or reorders RoCE.

    python3 -m peer.relay INTERFACE INTERFACE drop=0.02,duplicate=0.02,reorder=0.02,seed=1
    python3 -m peer.relay INTERFACE INTERFACE flush

With `flush` there is a Linux rxe at the first interface: a FLUSH that comes from there gets the ICRC that it should
carry, one that goes there the ICRC that rxe expects.

Ends on SIGTERM, and prints what it did as one line of JSON.
"""

import json
import random
import select
import signal
import socket
import sys
import time

from . import icrc, wire

_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_SO_RCVBUFFORCE = 33
_LATE_SECONDS = 0.01  # a held frame with nothing behind it is not held for ever


def parse_faults(text):
    rates = {"drop": 0.0, "duplicate": 0.0, "reorder": 0.0, "seed": 1.0}
    for word in text.split(","):
        if word and word != "flush":
            name, value = word.split("=")
            rates[name] = float(value)
    return rates


class Direction:
    def __init__(self, source, sink, rates, dice, repair=None):
        self.source, self._sink, self._rates, self._dice, self._repair = source, sink, rates, dice, repair
        self._held = None
        self.counts = {"frames": 0, "drop": 0, "duplicate": 0, "reorder": 0, "repair": 0}

    def pump(self):
        while True:
            try:
                frame, address = self.source.recvfrom(65536)
            except BlockingIOError:
                return
            if address[2] != _PACKET_OUTGOING:
                self._forward(frame)

    def release_late(self, now):
        if self._held is not None and now > self._held[0]:
            self._send(self._held[1])
            self._held = None

    def _forward(self, frame):
        if wire.roce(frame) is None:
            self._send(frame)
            return
        self.counts["frames"] += 1
        roll = self._dice.random
        if roll() < self._rates["drop"]:
            self.counts["drop"] += 1
            return
        if roll() < self._rates["reorder"] and self._held is None:
            self.counts["reorder"] += 1
            self._held = (time.monotonic() + _LATE_SECONDS, frame)
            return
        self._send(frame)
        if roll() < self._rates["duplicate"]:
            self.counts["duplicate"] += 1
            self._send(frame)
        if self._held is not None:
            self._send(self._held[1])
            self._held = None

    def _send(self, frame):
        if self._repair is not None:
            changed = self._repair(frame)
            self.counts["repair"] += changed != frame
            frame = changed
        try:
            self._sink.send(frame)
        except BlockingIOError:
            pass


def _open(interface):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
    end.bind((interface, 0))
    end.setblocking(False)
    return end


def main():
    rates = parse_faults(sys.argv[3] if len(sys.argv) > 3 else "")
    dice = random.Random(rates["seed"])
    one, other = _open(sys.argv[1]), _open(sys.argv[2])
    repairs = (icrc.right, icrc.spoilt) if sys.argv[3:] == ["flush"] else (None, None)
    directions = [Direction(one, other, rates, dice, repairs[0]), Direction(other, one, rates, dice, repairs[1])]
    running = True

    def stop(*_):
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    while running:
        readable, _, _ = select.select([one, other], [], [], _LATE_SECONDS / 2)
        for direction in directions:
            if direction.source in readable:
                direction.pump()
            direction.release_late(time.monotonic())
    print(json.dumps({"one way": directions[0].counts, "other way": directions[1].counts}), flush=True)


if __name__ == "__main__":
    main()
