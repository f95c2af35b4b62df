"""The invariant CRC, from zlib alone: an oracle that shares no code with the project.

It covers eight bytes of ones in the link header's place, then the IP header to the end of the payload, with what a
router may change taken as ones: type of service, hop limit, IP and UDP checksums, flow label, and the BTH's reserved
byte. It is stored least significant byte first.
"""

import zlib


def computed(frame, packet):
    """The ICRC that this frame should carry. `packet` is what wire.roce says of it."""
    covered = bytearray(frame[packet.ip_offset:packet.payload_end + packet.pad])
    udp = packet.bth_offset - 8 - packet.ip_offset
    if packet.ip_version == 4:
        masked = [1, 8, 10, 11]
    else:
        covered[0] |= 0x0F
        masked = [1, 2, 3, 7]
    for offset in masked + [udp + 6, udp + 7, udp + 8 + 4]:
        covered[offset] = 0xFF
    return zlib.crc32(covered, zlib.crc32(b"\xff" * 8)).to_bytes(4, "little")


def carried(frame, packet):
    end = packet.payload_end + packet.pad
    return frame[end:end + 4]
