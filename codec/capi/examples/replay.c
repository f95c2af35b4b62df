/*
 * Plays a capture of RDMA WRITEs to the responder and holds its answers against those in the
 * capture, byte for byte; then bends packets and sees each refused for the right reason.
 *
 *   replay FILE.pcap
 */
#include "responder.h"

#include <stdio.h>
#include <string.h>

#define FILE_MAX (1 << 20)
#define PACKETS_MAX 256
#define REGION_MAX 65536

struct captured {
    const uint8_t *bytes;
    size_t len;
    struct roce_frame frame;
};

static uint8_t file[FILE_MAX];
static struct captured packets[PACKETS_MAX];
static size_t packet_count;
static uint8_t memory[REGION_MAX];
static unsigned passed, failed;

static void check(int holds, const char *what, size_t number)
{
    if (holds) {
        passed++;
    } else {
        failed++;
        printf("FAILED: %s (packet %zu)\n", what, number + 1);
    }
}

static uint32_t little32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* Finds the RoCEv2 packets of a little-endian pcap file with Ethernet frames. */
static int load(const char *name)
{
    FILE *stream = fopen(name, "rb");
    if (stream == NULL)
        return 0;
    const size_t len = fread(file, 1, sizeof file, stream);
    fclose(stream);
    if (len < 24 || little32(file) != 0xa1b2c3d4 || (little32(file + 20) & 0xffff) != 1)
        return 0;
    for (size_t at = 24; len - at >= 16 && packet_count < PACKETS_MAX;) {
        struct captured *packet = &packets[packet_count];
        packet->len = little32(file + at + 8);
        at += 16;
        if (packet->len > len - at)
            return 0;
        packet->bytes = file + at;
        at += packet->len;
        if (roce_parse(packet->bytes, packet->len, ROCE_START_ETHERNET, &packet->frame, NULL) ==
            ROCE_STATUS_OK)
            packet_count++;
    }
    return packet_count > 0;
}

static int is_write(const struct captured *packet)
{
    struct roce_opcode_info info;
    return roce_opcode_lookup(packet->frame.packet.bth.opcode, &info) == ROCE_STATUS_OK &&
           info.operation == ROCE_OPERATION_WRITE;
}

/* The capture's acknowledgement of `psn`. */
static const struct captured *find_ack(uint32_t psn)
{
    for (size_t i = 0; i < packet_count; i++)
        if (packets[i].frame.packet.bth.opcode == 0x11 && packets[i].frame.packet.bth.psn == psn)
            return &packets[i];
    return NULL;
}

/* A responder as the two sides had agreed when the capture began: read off its first packets. */
static int agreed(struct responder *responder)
{
    for (size_t i = 0; i < packet_count; i++) {
        const struct roce_packet *first = &packets[i].frame.packet;
        if (!is_write(&packets[i]) || !(first->ext.present & ROCE_HEADER_RETH))
            continue;
        memset(responder, 0, sizeof *responder);
        responder->region.rkey = first->ext.reth.rkey;
        responder->region.va = first->ext.reth.va;
        responder->region.len = first->ext.reth.dma_len;
        responder->region.bytes = memory;
        responder->qp = first->bth.dest_qp;
        responder->expected_psn = first->bth.psn;
        for (size_t k = 0; k < packet_count; k++)
            if (packets[k].frame.packet.bth.opcode == 0x11)
                responder->peer_qp = packets[k].frame.packet.bth.dest_qp;
        return responder->region.len <= sizeof memory;
    }
    return 0;
}

static void replay(struct responder *responder)
{
    unsigned placed = 0, answered = 0;
    for (size_t i = 0; i < packet_count; i++) {
        uint8_t answer[128];
        size_t len = 0;
        const char *why = "";
        if (!is_write(&packets[i]))
            continue;
        const struct captured *ack = find_ack(packets[i].frame.packet.bth.psn);
        const size_t at = packets[i].frame.packet.ext.present & ROCE_HEADER_RETH ? 0 : responder->at;
        /* The only field of an answer that nothing determines. */
        responder->ip_id = ack == NULL ? 0 : ack->frame.packet.ip.identification;
        const enum outcome outcome = responder_handle(
            responder, packets[i].bytes, packets[i].len, answer, sizeof answer, &len, &why);
        check(outcome != OUTCOME_DROPPED, why, i);
        check(memcmp(memory + at, packets[i].bytes + packets[i].frame.payload_at,
                     packets[i].frame.payload_len) == 0,
              "payload in memory", i);
        placed++;
        if (outcome != OUTCOME_ANSWERED)
            continue;
        answered++;
        check(ack != NULL && ack->len == len && memcmp(answer, ack->bytes, len) == 0,
              "the capture's own answer, byte for byte", i);
        struct roce_frame parsed;
        check(roce_parse(answer, len, ROCE_START_ETHERNET, &parsed, NULL) == ROCE_STATUS_OK &&
                  parsed.packet.ext.aeth.syndrome == 0x1f &&
                  parsed.packet.ext.aeth.msn == responder->msn,
              "an ACK with its MSN", i);
    }
    printf("%u WRITE packets placed, %u acknowledged as the capture has it\n", placed, answered);
    check(placed > 0 && answered > 0, "a capture with acknowledged WRITEs", 0);
}

/* What a fresh responder makes of a packet: why it does nothing with it, or the NAK's syndrome. */
static const char *refusal(const uint8_t *bytes, size_t len, uint8_t *syndrome)
{
    struct responder responder;
    uint8_t answer[128];
    size_t answer_len = 0;
    const char *why = "placed";
    *syndrome = 0;
    if (!agreed(&responder))
        return "no WRITE in the capture";
    const enum outcome outcome =
        responder_handle(&responder, bytes, len, answer, sizeof answer, &answer_len, &why);
    struct roce_frame parsed;
    if (outcome == OUTCOME_ANSWERED &&
        roce_parse(answer, answer_len, ROCE_START_ETHERNET, &parsed, NULL) == ROCE_STATUS_OK)
        *syndrome = parsed.packet.ext.aeth.syndrome;
    return why;
}

static void bend(const struct captured *packet)
{
    static uint8_t bent[9216];
    uint8_t syndrome;
    const unsigned before = passed;
    const size_t number = (size_t)(packet - packets);

    /* One bit turned in every byte that the ICRC covers, masked fields apart. */
    for (size_t at = packet->frame.ext_at; at < packet->frame.trailer_at; at++) {
        memcpy(bent, packet->bytes, packet->len);
        bent[at] ^= 0x10;
        check(strcmp(refusal(bent, packet->len, &syndrome), "ICRC invalid") == 0,
              "a turned bit is an invalid ICRC", number);
    }
    /* Every way to cut it short. */
    for (size_t len = 0; len < packet->len; len++) {
        memcpy(bent, packet->bytes, packet->len);
        check(strcmp(refusal(bent, len, &syndrome), "truncated") == 0, "a cut packet is truncated",
              number);
    }
    /* An ICRC that a capture took before the hardware filled it in. */
    memcpy(bent, packet->bytes, packet->len);
    memset(bent + packet->frame.icrc_at, 0, 4);
    check(strcmp(refusal(bent, packet->len, &syndrome), "ICRC not filled in") == 0,
          "an ICRC not filled in", number);
    /* Well-made packets that ask for what they may not have. */
    for (int fault = 0; fault < 5; fault++) {
        struct roce_packet values = packet->frame.packet;
        static const uint8_t expected[5] = {0x62, 0x62, 0x62, 0x61, 0x60};
        switch (fault) {
        case 0: values.ext.reth.rkey ^= 1; break;
        case 1: values.ext.reth.va -= 1; break;
        case 2: values.ext.reth.va = UINT64_MAX; break;
        case 3: values.bth.opcode = 0x07; break; /* a middle without a first */
        case 4: values.bth.psn = roce_psn_add(values.bth.psn, 1); break;
        }
        size_t len = 0;
        const roce_status status = roce_build(&values, packet->frame.payload,
                                              packet->frame.payload_len, bent, sizeof bent, &len,
                                              NULL);
        check(status == ROCE_STATUS_OK, "a packet built anew", number);
        refusal(bent, len, &syndrome);
        check(syndrome == expected[fault], "the right NAK", number);
    }
    printf("%u bent packets refused, each for its reason\n", passed - before);
}

int main(int argc, char **argv)
{
    struct responder responder;
    if (argc != 2 || !load(argv[1]) || !agreed(&responder)) {
        fprintf(stderr, "usage: replay FILE.pcap (RDMA WRITEs over Ethernet, at most 1 MiB)\n");
        return 2;
    }
    replay(&responder);
    for (size_t i = 0; i < packet_count; i++) {
        if (packets[i].frame.packet.ext.present & ROCE_HEADER_RETH && is_write(&packets[i])) {
            bend(&packets[i]);
            break;
        }
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
