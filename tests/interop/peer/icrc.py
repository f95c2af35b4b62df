"""The invariant CRC, from zlib alone: an oracle that shares no code with the project.

It covers eight bytes of ones in the link header's place, then the IP header to the end of the payload, with what a
router may change taken as ones: type of service, hop limit, IP and UDP checksums, flow label, and the BTH's reserved
byte. It is stored least significant byte first.
"""

import zlib

from . import wire


FLUSH = 0x1C


def computed(frame, packet):
    """The ICRC that this frame should carry. `packet` is what wire.roce says of it."""
    return zlib.crc32(_covered(frame, packet), zlib.crc32(b"\xff" * 8)).to_bytes(4, "little")


def of_rxe(frame, packet):
    """The ICRC that Linux rxe puts there. Its table of opcodes has no payload offset for FLUSH, so it goes over the
    headers from the BTH on a second time, as they are, where the payload should come."""
    right = computed(frame, packet)
    if packet.opcode != FLUSH:
        return right
    again = frame[packet.bth_offset:packet.payload_end + packet.pad]
    return zlib.crc32(again, int.from_bytes(right, "little")).to_bytes(4, "little")


def _covered(frame, packet):
    covered = bytearray(frame[packet.ip_offset:packet.payload_end + packet.pad])
    udp = packet.bth_offset - 8 - packet.ip_offset
    if packet.ip_version == 4:
        masked = [1, 8, 10, 11]
    else:
        covered[0] |= 0x0F
        masked = [1, 2, 3, 7]
    for offset in masked + [udp + 6, udp + 7, udp + 8 + 4]:
        covered[offset] = 0xFF
    return covered


def right(frame):
    """The frame, with the ICRC that it should carry; what is no RoCE comes back as it is."""
    return _with(frame, computed)


def spoilt(frame):
    """The frame, with the ICRC that rxe would put there."""
    return _with(frame, of_rxe)


def _with(frame, oracle):
    packet = wire.roce(frame)
    if packet is None:
        return frame
    end = packet.payload_end + packet.pad
    return frame[:end] + oracle(frame, packet) + frame[end + 4:]


def carried(frame, packet):
    end = packet.payload_end + packet.pad
    return frame[end:end + 4]
