/*
 * What the example does not call, and what no caller should: every function with NULL, values out
 * of range, buffers that overlap. Expected values are the specification's or a capture's.
 */
#define _DEFAULT_SOURCE /* mmap and its flags */

#include "roce.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* The layout that ROCE_ABI_VERSION 1 stands for, where pointers have 64 bits. */
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(ROCE_ABI_VERSION == 1, "another version, another layout");
_Static_assert(sizeof(roce_status) == 4 && sizeof(roce_layer) == 4, "enumerations");
_Static_assert(sizeof(struct roce_ethernet) == 28, "Ethernet");
_Static_assert(sizeof(struct roce_ip) == 48, "IP");
_Static_assert(sizeof(struct roce_bth) == 20, "BTH");
_Static_assert(sizeof(struct roce_ext) == 120, "extension headers");
_Static_assert(sizeof(struct roce_packet) == 232, "packet");
_Static_assert(sizeof(struct roce_frame) == 328, "frame");
_Static_assert(sizeof(struct roce_answer) == 24, "answer");
_Static_assert(sizeof(struct roce_error) == 32, "error");
_Static_assert(sizeof(struct roce_icrc) == 4, "running ICRC");
#endif

static unsigned passed, failed;

#define CHECK(holds) check((holds) != 0, #holds, __LINE__)

static void check(int holds, const char *what, int line)
{
    if (holds) {
        passed++;
    } else {
        failed++;
        printf("FAILED: line %d: %s\n", line, what);
    }
}

/* An RC WRITE ONLY of 64 bytes by Linux rxe over IPv4, and its ACK: tests/captures, rxe-cm, 12 and 13. */
static const uint8_t write_only[] = {
    0x52, 0x54, 0x00, 0x00, 0x00, 0x03, 0x52, 0x54, 0x00, 0x00, 0x00, 0x02, 0x08, 0x00, 0x45, 0x00,
    0x00, 0x7c, 0x80, 0xf1, 0x40, 0x00, 0x40, 0x11, 0xa2, 0xe1, 0x0a, 0x4d, 0x01, 0x02, 0x0a, 0x4d,
    0x01, 0x03, 0xda, 0x65, 0x12, 0xb7, 0x00, 0x68, 0x00, 0x00, 0x0a, 0x00, 0xff, 0xff, 0x00, 0x00,
    0x00, 0x11, 0x80, 0xc4, 0x6a, 0x70, 0x00, 0x00, 0x55, 0x72, 0xd8, 0xba, 0x65, 0x50, 0x00, 0x00,
    0x04, 0xd6, 0x00, 0x00, 0x00, 0x40, 0x72, 0x64, 0x6d, 0x61, 0x2d, 0x70, 0x69, 0x6e, 0x67, 0x2d,
    0x30, 0x3a, 0x20, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d,
    0x4e, 0x4f, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x5b, 0x5c, 0x5d,
    0x5e, 0x5f, 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d,
    0x6e, 0x6f, 0x70, 0x71, 0x72, 0x00, 0x64, 0x0e, 0x93, 0x87,
};

/* A CNP of a ConnectX-4 Lx, from the IP header on, without its Ethernet header. */
static const uint8_t cnp[] = {
    0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11, 0x01,
    0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00, 0xff, 0xff,
    0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a,
};

static void parse(void)
{
    struct roce_frame frame;
    struct roce_error error;
    uint8_t bytes[sizeof write_only + 10];
    const uint32_t ethernet = ROCE_START_ETHERNET;

    CHECK(roce_parse(write_only, sizeof write_only, ethernet, &frame, &error) == ROCE_STATUS_OK);
    CHECK(error.status == ROCE_STATUS_OK && error.layer == ROCE_LAYER_NONE);
    CHECK(frame.packet.ethernet.present == 1 && frame.packet.ethernet.vlan_count == 0);
    CHECK(memcmp(frame.packet.ethernet.dst, write_only, 6) == 0);
    CHECK(memcmp(frame.packet.ethernet.src, write_only + 6, 6) == 0);
    CHECK(frame.packet.ethernet.ethertype == 0x0800);
    CHECK(frame.packet.ip.version == 4 && frame.packet.ip.length == 124);
    CHECK(frame.packet.ip.identification == 0x80f1 && frame.packet.ip.flags_fragment == 0x4000);
    CHECK(frame.packet.ip.hop_limit == 64 && frame.packet.ip.checksum == 0xa2e1);
    CHECK(memcmp(frame.packet.ip.src, "\x0a\x4d\x01\x02\0\0\0\0\0\0\0\0\0\0\0\0", 16) == 0);
    CHECK(memcmp(frame.packet.ip.dst, "\x0a\x4d\x01\x03\0\0\0\0\0\0\0\0\0\0\0\0", 16) == 0);
    CHECK(frame.packet.udp.src_port == 0xda65 && frame.packet.udp.dst_port == 4791);
    CHECK(frame.packet.udp.length == 104 && frame.packet.udp.checksum == 0);
    CHECK(frame.packet.bth.opcode == 0x0a && frame.packet.bth.pkey == 0xffff);
    CHECK(frame.packet.bth.dest_qp == 0x11 && frame.packet.bth.psn == 0xc46a70);
    CHECK(frame.packet.bth.ack_req == 1 && frame.packet.bth.solicited == 0);
    CHECK(frame.packet.ext.present == ROCE_HEADER_RETH);
    CHECK(frame.packet.ext.reth.va == 0x5572d8ba6550 && frame.packet.ext.reth.rkey == 0x4d6);
    CHECK(frame.packet.ext.reth.dma_len == 64);
    CHECK(frame.ip_at == 14 && frame.udp_at == 34 && frame.bth_at == 42 && frame.ext_at == 54);
    CHECK(frame.payload_at == 70 && frame.payload == write_only + 70 && frame.payload_len == 64);
    CHECK(frame.pad_at == 134 && frame.icrc_at == 134 && frame.trailer_at == 138);
    CHECK(memcmp(frame.icrc, "\x64\x0e\x93\x87", 4) == 0 && frame.missing == 0);

    /* From IP on, with a trailer. */
    memcpy(bytes, write_only, sizeof write_only);
    memset(bytes + sizeof write_only, 0xee, 10);
    CHECK(roce_parse(bytes + 14, sizeof bytes - 14, ROCE_START_IP, &frame, NULL) == ROCE_STATUS_OK);
    CHECK(frame.packet.ethernet.present == 0 && frame.ip_at == 0 && frame.trailer_at == 124);

    /* Cut, as a capture may be. */
    CHECK(roce_parse(write_only, 100, ethernet, &frame, &error) == ROCE_STATUS_TRUNCATED);
    CHECK(error.status == ROCE_STATUS_TRUNCATED && error.layer == ROCE_LAYER_PAYLOAD);
    CHECK(error.needed == 96 && error.available == 58);
    CHECK(roce_parse_captured(write_only, 100, ethernet, &frame, &error) == ROCE_STATUS_OK);
    CHECK(frame.missing == 38 && frame.payload_len == 64);
    CHECK(roce_parse(write_only, 60, ethernet, &frame, &error) == ROCE_STATUS_TRUNCATED);
    CHECK(error.layer == ROCE_LAYER_RETH && error.needed == 16 && error.available == 6);

    /* Somebody else's. */
    bytes[12] = 0x08, bytes[13] = 0x06;
    CHECK(roce_parse(bytes, sizeof bytes, ethernet, &frame, &error) == ROCE_STATUS_NOT_ROCE);
    CHECK(error.layer == ROCE_LAYER_ETHERNET && error.found == 0x0806);
    bytes[12] = 0x81, bytes[13] = 0;
    bytes[16] = 0x81, bytes[17] = 0;
    bytes[20] = 0x88, bytes[21] = 0xa8;
    bytes[24] = 0x81, bytes[25] = 0;
    CHECK(roce_parse(bytes, sizeof bytes, ethernet, &frame, NULL) == ROCE_STATUS_TOO_MANY_VLAN_TAGS);
    memcpy(bytes, write_only, sizeof write_only);
    memmove(bytes + 38, bytes + 34, sizeof write_only - 34);
    bytes[14] = 0x46; /* four bytes of options */
    CHECK(roce_parse(bytes, sizeof bytes, ethernet, &frame, &error) == ROCE_STATUS_IPV4_OPTIONS);
    CHECK(error.layer == ROCE_LAYER_IPV4);
    memcpy(bytes, write_only, sizeof write_only);
    bytes[14] = 0x44;
    CHECK(roce_parse(bytes, sizeof bytes, ethernet, &frame, &error) ==
          ROCE_STATUS_IPV4_HEADER_LENGTH);
    bytes[14] = 0x45, bytes[20] = 0x20;
    CHECK(roce_parse(bytes, sizeof bytes, ethernet, &frame, &error) == ROCE_STATUS_FRAGMENT);
    bytes[20] = 0x40, bytes[39] = 0x60;
    CHECK(roce_parse(bytes, sizeof bytes, ethernet, &frame, &error) == ROCE_STATUS_LENGTH);
    CHECK(error.layer == ROCE_LAYER_UDP && error.available == 0x60 && error.needed == 0x68);

    /* Misuse. */
    CHECK(roce_parse(NULL, 10, ethernet, &frame, &error) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_parse(NULL, 0, ethernet, &frame, &error) == ROCE_STATUS_TRUNCATED);
    CHECK(roce_parse(write_only, sizeof write_only, ethernet, NULL, &error) ==
          ROCE_STATUS_NULL_POINTER);
    CHECK(error.status == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_parse(write_only, sizeof write_only, 0, &frame, NULL) == ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_parse(write_only, sizeof write_only, 3, &frame, NULL) == ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_parse(write_only, SIZE_MAX, ethernet, &frame, NULL) == ROCE_STATUS_BAD_ARGUMENT);
    /* The result may lie where the packet lay. */
    union {
        uint8_t bytes[sizeof(struct roce_frame) + sizeof write_only];
        struct roce_frame frame;
    } both;
    memcpy(both.bytes, write_only, sizeof write_only);
    CHECK(roce_parse(both.bytes, sizeof write_only, ethernet, &both.frame, NULL) ==
          ROCE_STATUS_OK);
    CHECK(both.frame.packet.bth.psn == 0xc46a70);
    /* A structure where no compiler would put one. */
    CHECK(roce_parse(write_only, sizeof write_only, ethernet,
                     (struct roce_frame *)(void *)(both.bytes + 1), NULL) ==
          ROCE_STATUS_BAD_ARGUMENT);
}

static void opcodes(void)
{
    struct roce_opcode_info info;
    unsigned known = 0, named = 0;

    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (roce_opcode_lookup((uint8_t)opcode, &info) != ROCE_STATUS_OK)
            break;
        known += info.opcode_class == ROCE_OPCODE_CLASS_KNOWN;
        named += info.name != NULL && strlen(info.name) > 2;
        CHECK((info.name != NULL) == (info.opcode_class == ROCE_OPCODE_CLASS_KNOWN));
    }
    CHECK(known == named && known > 80);
    CHECK(roce_opcode_lookup(0xbd, &info) == ROCE_STATUS_OK);
    CHECK(strcmp(info.name, "XRC_ATOMIC_WRITE") == 0);
    CHECK(roce_opcode_lookup(0x0b, &info) == ROCE_STATUS_OK);
    CHECK(strcmp(info.name, "RC_RDMA_WRITE_ONLY_IMM") == 0);
    CHECK(info.service == ROCE_SERVICE_RC && info.operation == ROCE_OPERATION_WRITE);
    CHECK(info.position == ROCE_POSITION_ONLY && info.headers_len == 20 && info.payload == 1);
    CHECK(info.headers == (ROCE_HEADER_RETH | ROCE_HEADER_IMM_DT));
    CHECK(info.is_request == 1 && info.is_response == 0);
    CHECK(roce_opcode_lookup(0x53, &info) == ROCE_STATUS_OK);
    CHECK(info.headers == (ROCE_HEADER_RDETH | ROCE_HEADER_DETH | ROCE_HEADER_ATOMIC_ETH));
    CHECK(roce_opcode_lookup(0x12, &info) == ROCE_STATUS_OK && info.is_response == 1);
    CHECK(info.headers == (ROCE_HEADER_AETH | ROCE_HEADER_ATOMIC_ACK_ETH));
    CHECK(roce_opcode_lookup(0xff, &info) == ROCE_STATUS_OK);
    CHECK(info.opcode_class == ROCE_OPCODE_CLASS_MANUFACTURER && info.name == NULL);
    CHECK(roce_opcode_lookup(0x18, &info) == ROCE_STATUS_OK);
    CHECK(info.opcode_class == ROCE_OPCODE_CLASS_RESERVED);
    CHECK(roce_opcode_lookup(0, NULL) == ROCE_STATUS_NULL_POINTER);
}

static void icrc(void)
{
    struct roce_icrc_result result;
    struct roce_icrc running, other;
    struct roce_error error;
    uint8_t wire[4], copy[64], bytes[sizeof write_only];
    const uint8_t *const ip = write_only + 14;

    CHECK(roce_icrc_verify(write_only, sizeof write_only, ROCE_START_ETHERNET, &result, &error) ==
          ROCE_STATUS_OK);
    CHECK(result.verdict == ROCE_ICRC_VERDICT_VALID && error.status == ROCE_STATUS_OK);
    CHECK(memcmp(result.expected, "\x64\x0e\x93\x87", 4) == 0);
    memcpy(bytes, write_only, sizeof bytes);
    bytes[22] = 63; /* time to live: a router may */
    CHECK(roce_icrc_verify(bytes, sizeof bytes, ROCE_START_ETHERNET, &result, NULL) ==
          ROCE_STATUS_OK);
    CHECK(result.verdict == ROCE_ICRC_VERDICT_VALID);
    bytes[sizeof bytes - 1] ^= 1;
    CHECK(roce_icrc_verify(bytes, sizeof bytes, ROCE_START_ETHERNET, &result, NULL) ==
          ROCE_STATUS_OK);
    CHECK(result.verdict == ROCE_ICRC_VERDICT_INVALID);
    CHECK(memcmp(result.expected, "\x64\x0e\x93\x87", 4) == 0);
    CHECK(memcmp(result.found, "\x64\x0e\x93\x86", 4) == 0);
    CHECK(roce_icrc_verify(bytes, 90, ROCE_START_ETHERNET, &result, NULL) == ROCE_STATUS_OK);
    CHECK(result.verdict == ROCE_ICRC_VERDICT_TRUNCATED);
    CHECK(memcmp(result.expected, "\0\0\0\0", 4) == 0);
    CHECK(roce_icrc_verify(bytes, 20, ROCE_START_ETHERNET, &result, &error) ==
          ROCE_STATUS_TRUNCATED);
    CHECK(error.layer == ROCE_LAYER_IPV4);
    CHECK(roce_icrc_verify(cnp, sizeof cnp, ROCE_START_IP, &result, NULL) == ROCE_STATUS_OK);
    CHECK(result.verdict == ROCE_ICRC_VERDICT_VALID);
    CHECK(roce_icrc_verify(cnp, sizeof cnp, ROCE_START_IP, NULL, NULL) == ROCE_STATUS_NULL_POINTER);

    /* In pieces, and copied on the way. */
    CHECK(roce_icrc_start(&running, ip, 40) == ROCE_STATUS_OK);
    CHECK(roce_icrc_update(&running, ip + 40, 16) == ROCE_STATUS_OK);
    other = running;
    CHECK(roce_icrc_copy_update(&running, copy, ip + 56, 64) == ROCE_STATUS_OK);
    CHECK(memcmp(copy, ip + 56, 64) == 0);
    CHECK(roce_icrc_finish(&running, wire) == ROCE_STATUS_OK);
    CHECK(memcmp(wire, "\x64\x0e\x93\x87", 4) == 0);
    CHECK(roce_icrc_update(&other, ip + 56, 1) == ROCE_STATUS_OK);
    CHECK(roce_icrc_update(&other, ip + 57, 63) == ROCE_STATUS_OK);
    CHECK(roce_icrc_update(&other, NULL, 0) == ROCE_STATUS_OK);
    CHECK(roce_icrc_finish(&other, wire) == ROCE_STATUS_OK);
    CHECK(memcmp(wire, "\x64\x0e\x93\x87", 4) == 0);

    CHECK(roce_icrc_start(&running, ip, 39) == ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_icrc_start(&running, ip, 60) == ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_icrc_start(&running, NULL, 0) == ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_icrc_start(&running, NULL, 40) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_icrc_start(NULL, ip, 40) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_icrc_update(&running, NULL, 1) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_icrc_update(NULL, ip, 1) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_icrc_copy_update(&running, copy, copy, 8) == ROCE_STATUS_OVERLAP);
    CHECK(roce_icrc_copy_update(&running, copy + 7, copy, 8) == ROCE_STATUS_OVERLAP);
    CHECK(roce_icrc_copy_update(&running, copy, copy + 7, 8) == ROCE_STATUS_OVERLAP);
    CHECK(roce_icrc_copy_update(&running, copy + 8, copy, 8) == ROCE_STATUS_OK);
    CHECK(roce_icrc_copy_update(&running, copy, copy, 0) == ROCE_STATUS_OK);
    CHECK(roce_icrc_copy_update(&running, NULL, copy, 8) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_icrc_finish(NULL, wire) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_icrc_finish(&running, NULL) == ROCE_STATUS_NULL_POINTER);
}

static void build(void)
{
    struct roce_frame frame;
    struct roce_packet packet;
    struct roce_error error;
    uint8_t out[256];
    size_t len = 0, at = 0;

    /* What was parsed comes back, byte for byte, into a buffer of exactly that size. */
    CHECK(roce_parse(write_only, sizeof write_only, ROCE_START_ETHERNET, &frame, NULL) ==
          ROCE_STATUS_OK);
    memset(out, 0xa5, sizeof out);
    CHECK(roce_emit(&frame.packet, frame.payload, 64, out, sizeof write_only, &len, &error) ==
          ROCE_STATUS_OK);
    CHECK(len == sizeof write_only && memcmp(out, write_only, len) == 0 && out[len] == 0xa5);
    CHECK(roce_emit(&frame.packet, frame.payload, 64, out, sizeof write_only - 1, &len, &error) ==
          ROCE_STATUS_NO_ROOM);
    CHECK(error.needed == sizeof write_only && error.available == sizeof write_only - 1);

    /* The same with lengths, checksum and pad to be found, and the payload in place. */
    packet = frame.packet;
    packet.ip.length = packet.ip.checksum = packet.udp.length = 0;
    packet.bth.pad_count = 3;
    memset(out, 0xa5, sizeof out);
    CHECK(roce_payload_at(&packet, &at) == ROCE_STATUS_OK && at == 70);
    memcpy(out + at, write_only + at, 64);
    CHECK(roce_build(&packet, NULL, 64, out, sizeof out, &len, NULL) == ROCE_STATUS_OK);
    CHECK(len == sizeof write_only && memcmp(out, write_only, len) == 0);
    CHECK(roce_build(&packet, (const uint8_t *)"hello", 5, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_OK);
    CHECK(len == 70 + 5 + 3 + 4 && memcmp(out + 70, "hello\0\0\0", 8) == 0);

    CHECK(roce_build(&packet, out + 70, 64, out, sizeof out, &len, NULL) == ROCE_STATUS_OVERLAP);
    CHECK(roce_build(&packet, write_only, 64, NULL, 0, &len, NULL) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_build(NULL, write_only, 64, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_NULL_POINTER);
    CHECK(roce_build(&packet, write_only, 70000, out, sizeof out, &len, &error) ==
          ROCE_STATUS_TOO_LONG);
    CHECK(roce_build(&packet, write_only, 8, out, sizeof out, NULL, NULL) == ROCE_STATUS_OK);
    packet.ext.present = 0;
    CHECK(roce_build(&packet, write_only, 8, out, sizeof out, &len, &error) ==
          ROCE_STATUS_MISSING_HEADER);
    CHECK(error.layer == ROCE_LAYER_RETH);
    packet = frame.packet;
    packet.ip.version = 5;
    CHECK(roce_build(&packet, write_only, 8, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_payload_at(&packet, &at) == ROCE_STATUS_BAD_ARGUMENT);
    packet.ip.version = 4;
    packet.ethernet.vlan_count = 4;
    CHECK(roce_emit(&packet, write_only, 8, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_BAD_ARGUMENT);
    packet.ethernet.vlan_count = 0;
    packet.ethernet.present = 2;
    CHECK(roce_emit(&packet, write_only, 8, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_BAD_ARGUMENT);

    /* IPv6 with a VLAN tag, from nothing. */
    CHECK(roce_packet_init(&packet, 6) == ROCE_STATUS_OK);
    packet.ethernet.present = 1;
    packet.ethernet.vlan_count = 1;
    packet.ethernet.vlans[0].tpid = 0x8100;
    packet.ethernet.vlans[0].tci = 0x6007;
    packet.ip.src[15] = 1;
    packet.ip.dst[15] = 2;
    packet.bth.opcode = 0x04;
    packet.bth.dest_qp = 0x123;
    CHECK(roce_build(&packet, (const uint8_t *)"abcd", 4, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_OK);
    CHECK(len == 18 + 40 + 8 + 12 + 4 + 4);
    CHECK(memcmp(out + 12, "\x81\x00\x60\x07\x86\xdd\x60\x20\x00\x00\x00\x1c\x11\x40", 14) == 0);
    CHECK(roce_parse(out, len, ROCE_START_ETHERNET, &frame, NULL) == ROCE_STATUS_OK);
    CHECK(frame.packet.ethernet.vlan_count == 1 && frame.packet.ethernet.vlans[0].tci == 0x6007);
    CHECK(frame.ip_at == 18 && frame.packet.ip.version == 6 && frame.packet.ip.dst[15] == 2);
    struct roce_icrc running;
    uint8_t wire[4];
    CHECK(roce_icrc_start(&running, out + 18, 60) == ROCE_STATUS_OK);
    CHECK(roce_icrc_update(&running, out + 78, 4) == ROCE_STATUS_OK);
    CHECK(roce_icrc_finish(&running, wire) == ROCE_STATUS_OK);
    CHECK(memcmp(wire, out + 82, 4) == 0);

    CHECK(roce_packet_init(&packet, 5) == ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_packet_init(NULL, 4) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_payload_at(NULL, &at) == ROCE_STATUS_NULL_POINTER);
}

/* Bytes that end where memory ends: whoever goes one further dies. */
static void at_the_edge(void)
{
    enum { PAGE = 65536 };
    uint8_t *const map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                              -1, 0);
    CHECK(map != MAP_FAILED);
    CHECK(mprotect(map + PAGE, PAGE, PROT_NONE) == 0);
    CHECK(mprotect(map + 3 * PAGE, PAGE, PROT_NONE) == 0);
    uint8_t *const end = map + PAGE, *const out_end = map + 3 * PAGE;

    struct roce_frame frame, cut;
    struct roce_icrc_result result;
    struct roce_icrc running;
    size_t written = 0;
    CHECK(roce_parse(write_only, sizeof write_only, ROCE_START_ETHERNET, &frame, NULL) ==
          ROCE_STATUS_OK);
    for (size_t len = 0; len <= sizeof write_only; len++) {
        memcpy(end - len, write_only, len);
        const int whole = len == sizeof write_only;
        CHECK((roce_parse(end - len, len, ROCE_START_ETHERNET, &cut, NULL) == ROCE_STATUS_OK) ==
              whole);
        const int headers = len >= frame.payload_at;
        CHECK((roce_parse_captured(end - len, len, ROCE_START_ETHERNET, &cut, NULL) ==
               ROCE_STATUS_OK) == headers);
        CHECK((roce_icrc_verify(end - len, len, ROCE_START_ETHERNET, &result, NULL) ==
               ROCE_STATUS_OK) == headers);
        CHECK(roce_icrc_start(&running, write_only + 14, 40) == ROCE_STATUS_OK);
        CHECK(roce_icrc_update(&running, end - len, len) == ROCE_STATUS_OK);
        CHECK(roce_icrc_copy_update(&running, out_end - len, end - len, len) == ROCE_STATUS_OK);
        CHECK(memcmp(out_end - len, write_only, len) == 0);
        memset(map + 2 * PAGE, 0xa5, PAGE);
        CHECK((roce_emit(&frame.packet, frame.payload, frame.payload_len, out_end - len, len,
                         &written, NULL) == ROCE_STATUS_OK) == whole);
        CHECK(*(out_end - len - 1) == 0xa5);
    }
    CHECK(memcmp(out_end - sizeof write_only, write_only, sizeof write_only) == 0);
    munmap(map, 4 * PAGE);
}

static void answers(void)
{
    struct roce_frame asked, parsed;
    struct roce_answer answer;
    struct roce_packet packet;
    uint8_t out[256];
    size_t len = 0;

    CHECK(roce_parse(write_only, sizeof write_only, ROCE_START_ETHERNET, &asked, NULL) ==
          ROCE_STATUS_OK);
    CHECK(roce_answer_init(&asked.packet, 0x22, &answer) == ROCE_STATUS_OK);
    CHECK(answer.psn == 0xc46a70 && answer.syndrome == 0x1f && answer.src_port == 0xda65);
    CHECK(answer.dest_qp == 0x22 && answer.pkey == 0xffff && answer.traffic_class == 0);
    packet = asked.packet;
    packet.ip.traffic_class = 0x6b; /* DSCP 26, congestion experienced */
    CHECK(roce_answer_init(&packet, 0x22, &answer) == ROCE_STATUS_OK);
    CHECK(answer.traffic_class == 0x6a);

    /* READ response, first of several. */
    packet.bth.opcode = 0x0c;
    answer.position = ROCE_POSITION_FIRST;
    answer.msn = 0x1234567;
    CHECK(roce_build_read_response(&packet, &answer, (const uint8_t *)"data", 4, out, sizeof out,
                                   &len, NULL) == ROCE_STATUS_OK);
    CHECK(roce_parse(out, len, ROCE_START_ETHERNET, &parsed, NULL) == ROCE_STATUS_OK);
    CHECK(parsed.packet.bth.opcode == 0x0d && parsed.packet.ext.aeth.msn == 0x234567);
    CHECK(memcmp(parsed.packet.ethernet.dst, write_only + 6, 6) == 0);
    CHECK(memcmp(parsed.packet.ip.src, "\x0a\x4d\x01\x03", 4) == 0);
    CHECK(memcmp(parsed.payload, "data", 4) == 0);
    answer.position = ROCE_POSITION_MIDDLE;
    CHECK(roce_build_read_response(&packet, &answer, (const uint8_t *)"data", 4, out, sizeof out,
                                   &len, NULL) == ROCE_STATUS_OK);
    CHECK(len == 14 + 20 + 8 + 12 + 4 + 4 && out[42] == 0x0e);
    answer.position = 4;
    CHECK(roce_build_read_response(&packet, &answer, (const uint8_t *)"data", 4, out, sizeof out,
                                   &len, NULL) == ROCE_STATUS_BAD_ARGUMENT);
    answer.position = ROCE_POSITION_ONLY;
    packet.bth.opcode = 0x0a;
    CHECK(roce_build_read_response(&packet, &answer, NULL, 0, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_NOT_ANSWERABLE);
    packet.bth.opcode = 0x1d; /* ATOMIC WRITE is answered by an empty READ response */
    CHECK(roce_build_read_response(&packet, &answer, NULL, 0, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_OK);
    CHECK(out[42] == 0x10 && len == 14 + 20 + 8 + 12 + 4 + 4);
    CHECK(roce_build_read_response(&packet, &answer, out, 4, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_NOT_ANSWERABLE);

    /* Atomics. */
    packet.bth.opcode = 0xb3;
    CHECK(roce_build_atomic_ack(&packet, &answer, 0x0102030405060708, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_OK);
    CHECK(out[42] == 0xb2 && memcmp(out + 58, "\1\2\3\4\5\6\7\10", 8) == 0);
    packet.bth.opcode = 0x11;
    CHECK(roce_build_atomic_ack(&packet, &answer, 0, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_NOT_ANSWERABLE);
    CHECK(roce_build_ack(&packet, &answer, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_NOT_ANSWERABLE);
    packet.bth.opcode = 0x64; /* a datagram is not acknowledged */
    CHECK(roce_build_ack(&packet, &answer, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_NOT_ANSWERABLE);
    packet.bth.opcode = 0x04;
    packet.ethernet.dst[0] |= 1;
    CHECK(roce_build_ack(&packet, &answer, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_NOT_ANSWERABLE);
    CHECK(roce_build_ack(NULL, &answer, out, sizeof out, &len, NULL) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_build_ack(&asked.packet, NULL, out, sizeof out, &len, NULL) ==
          ROCE_STATUS_NULL_POINTER);
    CHECK(roce_build_ack(&asked.packet, &answer, NULL, 9, &len, NULL) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_build_ack(&asked.packet, &answer, out, 61, &len, NULL) == ROCE_STATUS_NO_ROOM);
    CHECK(roce_answer_init(NULL, 1, &answer) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_answer_init(&asked.packet, 1, NULL) == ROCE_STATUS_NULL_POINTER);

    /* The CNP that a ConnectX sent, given what it was answering to. */
    CHECK(roce_packet_init(&packet, 4) == ROCE_STATUS_OK);
    memcpy(packet.ip.src, "\x0a\x00\x12\x01", 4);
    memcpy(packet.ip.dst, "\x0a\x00\x11\x01", 4);
    packet.ip.traffic_class = 3;
    packet.bth.opcode = 0x0a;
    CHECK(roce_answer_init(&packet, 0x118, &answer) == ROCE_STATUS_OK);
    answer.traffic_class = 0xc2;
    answer.identification = 0x718c;
    answer.src_port = 0;
    CHECK(roce_build_cnp(&packet, &answer, out, sizeof out, &len, NULL) == ROCE_STATUS_OK);
    CHECK(len == sizeof cnp && memcmp(out, cnp, len) == 0);
    CHECK(roce_build_cnp(&packet, NULL, out, sizeof out, &len, NULL) == ROCE_STATUS_NULL_POINTER);
}

static void numbers(void)
{
    struct roce_syndrome syndrome;

    CHECK(roce_abi_version() == ROCE_ABI_VERSION);
    CHECK(roce_psn_add(0xfffffe, 3) == 1 && roce_psn_sub(1, 3) == 0xfffffe);
    CHECK(roce_psn_distance(1, 0xfffffe) == 3 && roce_psn_distance(0xfffffe, 1) == -3);
    CHECK(roce_psn_distance(0x800000, 0) == -8388608 && roce_psn_distance(0x7fffff, 0) == 8388607);
    CHECK(roce_psn_within(0, 0xfffffe, 1) == 1 && roce_psn_within(2, 0xfffffe, 1) == 0);

    CHECK(roce_syndrome_ack() == 0x1f && roce_syndrome_ack_credits(8) == 6);
    CHECK(roce_syndrome_rnr_nak(14) == 0x2e && roce_syndrome_rnr_nak(0xff) == 0x3f);
    CHECK(roce_syndrome_nak(ROCE_NAK_CODE_REMOTE_ACCESS_ERROR) == 0x62);
    CHECK(roce_syndrome_nak(5) == 0xff && roce_syndrome_nak(0x100) == 0xff);
    CHECK(roce_syndrome_read(0x1f, &syndrome) == ROCE_STATUS_OK);
    CHECK(syndrome.kind == ROCE_AETH_KIND_ACK && syndrome.credits == ROCE_CREDITS_UNLIMITED);
    CHECK(roce_syndrome_read(0x06, &syndrome) == ROCE_STATUS_OK && syndrome.credits == 8);
    CHECK(roce_syndrome_read(0x39, &syndrome) == ROCE_STATUS_OK);
    CHECK(syndrome.kind == ROCE_AETH_KIND_RNR_NAK && syndrome.rnr_timer == 25);
    CHECK(syndrome.rnr_wait_ns == 61440000);
    CHECK(roce_syndrome_read(0x60, &syndrome) == ROCE_STATUS_OK);
    CHECK(syndrome.kind == ROCE_AETH_KIND_NAK);
    CHECK(syndrome.nak_code == ROCE_NAK_CODE_PSN_SEQUENCE_ERROR);
    CHECK(roce_syndrome_read(0x65, &syndrome) == ROCE_STATUS_OK);
    CHECK(syndrome.kind == ROCE_AETH_KIND_RESERVED && syndrome.nak_code == ROCE_NAK_CODE_NONE);
    CHECK(roce_syndrome_read(0x1f, NULL) == ROCE_STATUS_NULL_POINTER);

    CHECK(roce_mtu_bytes(1) == 256 && roce_mtu_bytes(5) == 4096 && roce_mtu_bytes(6) == 0);
    CHECK(roce_mtu_packets(3, 3000) == 3 && roce_mtu_packets(3, 0) == 1);
    CHECK(roce_mtu_packets(0, 1) == 0 && roce_mtu_largest_within(1500) == 3);
    CHECK(roce_mtu_largest_within(300) == 0);
    CHECK(roce_source_port(0x4000) == 0xc001 && roce_source_port(0xfffff) == 0xffc0);
    CHECK(roce_source_port(roce_flow_label(0x123456, 0xabcdef)) == 0xc3c8);
    CHECK(roce_pkey_matches(0x2a00, 0xaa00) == 1 && roce_pkey_matches(0x2a00, 0x2a00) == 0);

    CHECK(strcmp(roce_status_text(ROCE_STATUS_OK), "ok") == 0);
    CHECK(strcmp(roce_status_text(ROCE_STATUS_NOT_ANSWERABLE), "not a request this answers") == 0);
    CHECK(strcmp(roce_status_text(0xffffffff), "unknown status") == 0);
}

int main(void)
{
    parse();
    opcodes();
    icrc();
    build();
    at_the_edge();
    answers();
    numbers();
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
