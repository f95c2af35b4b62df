/*
 * Setting a connection up, and its rate: the connection manager's messages against a capture of
 * RDMA CM on Linux, DCQCN against numbers worked out by hand.
 *
 *   connection rxe-cm.pcap
 */
#include "roce.h"

#include <stdio.h>
#include <string.h>

static unsigned passed, failed;
static uint8_t file[1 << 20];

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

static size_t little32(const uint8_t *bytes)
{
    return (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
}

/* The MAD in packet `number` (from 1) of the capture of `len` bytes, or NULL. */
static const uint8_t *mad_of(unsigned number, size_t len)
{
    struct roce_frame frame;
    size_t at = 24;
    while (--number > 0 && at + 16 <= len)
        at += 16 + little32(file + at + 8);
    if (at + 16 > len || little32(file + at + 8) > len - at - 16)
        return NULL;
    if (roce_parse(file + at + 16, little32(file + at + 8), ROCE_START_ETHERNET, &frame, NULL) !=
            ROCE_STATUS_OK ||
        frame.packet.bth.dest_qp != 1 || frame.packet.ext.deth.qkey != 0x80010000)
        return NULL;
    return frame.payload_len == ROCE_MAD_LEN ? frame.payload : NULL;
}

/* Parsed, written again, and the same bytes. */
static struct roce_cm round_trip(const uint8_t *mad)
{
    struct roce_cm message;
    struct roce_error error;
    uint8_t out[ROCE_MAD_LEN];
    memset(&message, 0, sizeof message);
    memset(out, 0xa5, sizeof out);
    CHECK(mad != NULL);
    if (mad == NULL)
        return message;
    CHECK(roce_cm_parse(mad, ROCE_MAD_LEN, &message, &error) == ROCE_STATUS_OK);
    CHECK(message.private_data_at + message.private_data_len == ROCE_MAD_LEN);
    CHECK(roce_cm_emit(&message, mad + message.private_data_at, message.private_data_len, out,
                       sizeof out, &error) == ROCE_STATUS_OK);
    CHECK(memcmp(out, mad, sizeof out) == 0);
    for (size_t cut = 0; cut < ROCE_MAD_LEN; cut++)
        CHECK(roce_cm_parse(mad, cut, &message, &error) == ROCE_STATUS_TRUNCATED);
    return message;
}

/* Values as tshark shows them, but for flow label and packet rate, which it reads four bits off. */
static void connection_manager(size_t len)
{
    struct roce_cm message = round_trip(mad_of(1, len));
    CHECK(message.kind == ROCE_CM_KIND_REQ && message.transaction_id == 0x2af8c4a9d);
    CHECK(message.local_comm_id == 0x9d4a8caf && message.remote_comm_id == 0);
    CHECK(message.local_ca_guid == 0x505400fffe000003 && message.local_qpn == 0x11);
    CHECK(message.service_id >> 16 == 0x106 && message.transport == 0);
    CHECK(message.starting_psn == 0xc46a6e && message.pkey == 0xffff && message.path_mtu == 3);
    CHECK(message.responder_resources == 1 && message.initiator_depth == 1);
    CHECK(message.retry_count == 7 && message.rnr_retry_count == 7 && message.max_cm_retries == 15);
    CHECK(message.remote_cm_response_timeout == 20 && message.local_cm_response_timeout == 20);
    CHECK(memcmp(message.path.local_gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x4d\x01\x03", 16) == 0);
    CHECK(memcmp(message.path.remote_gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x4d\x01\x02", 16) == 0);
    CHECK(message.path.flow_label == 0x39a6b && message.path.hop_limit == 64);
    CHECK(message.path.local_lid == 0xffff && message.path.local_ack_timeout == 0x13);
    CHECK(message.path.packet_rate == 0 && message.private_data_len == 92);

    message = round_trip(mad_of(2, len));
    CHECK(message.kind == ROCE_CM_KIND_REP && message.transaction_id == 0x2af8c4a9d);
    CHECK(message.local_comm_id == 0xf6592e84 && message.remote_comm_id == 0x9d4a8caf);
    CHECK(message.starting_psn == 0x4ecc75 && message.target_ack_delay == 15);
    CHECK(message.local_ca_guid == 0x505400fffe000002 && message.private_data_len == 196);

    message = round_trip(mad_of(3, len));
    CHECK(message.kind == ROCE_CM_KIND_RTU && message.private_data_len == 224);
    CHECK(message.local_comm_id == 0x9d4a8caf && message.remote_comm_id == 0xf6592e84);

    message = round_trip(mad_of(64, len));
    CHECK(message.kind == ROCE_CM_KIND_DREQ && message.private_data_len == 220);
    message = round_trip(mad_of(65, len));
    CHECK(message.kind == ROCE_CM_KIND_DREP && message.private_data_len == 224);

    /* A rejection, and misuse. */
    struct roce_error error;
    uint8_t out[ROCE_MAD_LEN + 1], data[256] = {0};
    memset(&message, 0, sizeof message);
    message.kind = ROCE_CM_KIND_REJ;
    message.remote_comm_id = 0x9d4a8caf;
    message.reason = 8; /* invalid service ID */
    CHECK(roce_cm_emit(&message, NULL, 0, out, ROCE_MAD_LEN, &error) == ROCE_STATUS_OK);
    CHECK(memcmp(out, "\1\7\2\3", 4) == 0 && out[17] == 0x12 && out[35] == 8);
    CHECK(roce_cm_emit(&message, data, 149, out, ROCE_MAD_LEN, &error) == ROCE_STATUS_TOO_LONG);
    CHECK(error.needed == 149 && error.available == 148);
    CHECK(roce_cm_emit(&message, NULL, 0, out, 255, &error) == ROCE_STATUS_NO_ROOM);
    CHECK(roce_cm_emit(&message, out, 8, out, ROCE_MAD_LEN, &error) == ROCE_STATUS_OVERLAP);
    CHECK(roce_cm_emit(&message, NULL, 8, out, ROCE_MAD_LEN, &error) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_cm_emit(&message, NULL, 0, NULL, 0, &error) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_cm_emit(NULL, NULL, 0, out, ROCE_MAD_LEN, &error) == ROCE_STATUS_NULL_POINTER);
    message.rejected = 3;
    CHECK(roce_cm_emit(&message, NULL, 0, out, ROCE_MAD_LEN, &error) == ROCE_STATUS_BAD_ARGUMENT);
    message.kind = 0x10010;
    CHECK(roce_cm_emit(&message, NULL, 0, out, ROCE_MAD_LEN, &error) == ROCE_STATUS_BAD_ARGUMENT);
    out[17] = 0x19; /* LAP */
    CHECK(roce_cm_parse(out, ROCE_MAD_LEN, &message, &error) == ROCE_STATUS_NOT_CM);
    CHECK(error.found == 0x19);
    out[1] = 3; /* subnet administration */
    CHECK(roce_cm_parse(out, ROCE_MAD_LEN, &message, &error) == ROCE_STATUS_NOT_CM);
    CHECK(roce_cm_parse(out, ROCE_MAD_LEN, NULL, &error) == ROCE_STATUS_NOT_CM);
    CHECK(roce_cm_parse(NULL, 8, &message, &error) == ROCE_STATUS_NULL_POINTER);
}

static void congestion(void)
{
    struct roce_dcqcn_params params, other;
    struct roce_notification_point receiver;
    struct roce_reaction_point sender;
    struct roce_rate rate;
    struct roce_packet packet;
    uint64_t gap = 0;
    uint8_t send = 9;

    CHECK(roce_dcqcn_init(&params, ROCE_DCQCN_PROFILE_PAPER) == ROCE_STATUS_OK);
    CHECK(params.min_time_between_cnps_us == 50 && params.rpg_byte_reset == 10000000);
    CHECK(params.rpg_ai_rate_mbps == 40 && params.clamp_tgt_rate == 1 && params.first_cnp == 0);
    CHECK(roce_dcqcn_init(&other, ROCE_DCQCN_PROFILE_MLX5) == ROCE_STATUS_OK);
    CHECK(other.rpg_time_reset_us == 300 && other.cut_timing == 1 && other.byte_unit == 1);
    CHECK(roce_dcqcn_check(&params) == ROCE_STATUS_OK);
    CHECK(roce_dcqcn_check(&other) == ROCE_STATUS_OK);
    CHECK(roce_dcqcn_set(&other, "rp_ai_rate", 50) == ROCE_STATUS_OK);
    CHECK(roce_dcqcn_set(&other, "RPG_HAI_RATE", 70) == ROCE_STATUS_OK);
    CHECK(other.rpg_ai_rate_mbps == 50 && other.rpg_hai_rate_mbps == 70);
    CHECK(roce_dcqcn_set(&other, "RPG_HAI_RATE", 0) == ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_dcqcn_set(&other, "no such name", 1) == ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_dcqcn_set(&other, "a name that is longer than any parameter has ever been called", 1) ==
          ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_dcqcn_set(&other, NULL, 1) == ROCE_STATUS_NULL_POINTER);
    other.rpg_threshold = 32;
    CHECK(roce_dcqcn_check(&other) == ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_dcqcn_init(&other, 2) == ROCE_STATUS_BAD_ARGUMENT);
    CHECK(roce_dcqcn_init(NULL, 0) == ROCE_STATUS_NULL_POINTER);

    /* A mark is answered at once, and not again within 50 us. */
    CHECK(roce_np_init(&receiver) == ROCE_STATUS_OK);
    CHECK(roce_np_on_packet(&receiver, &params, 1000, 0, &send) == ROCE_STATUS_OK && send == 0);
    CHECK(roce_np_on_packet(&receiver, &params, 1000, 1, &send) == ROCE_STATUS_OK && send == 1);
    CHECK(roce_np_on_packet(&receiver, &params, 50999, 1, &send) == ROCE_STATUS_OK && send == 0);
    CHECK(roce_np_on_packet(&receiver, &params, 51000, 1, &send) == ROCE_STATUS_OK && send == 1);
    CHECK(roce_np_on_packet(&receiver, NULL, 0, 1, &send) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_np_on_packet(NULL, &params, 0, 1, &send) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_np_init(NULL) == ROCE_STATUS_NULL_POINTER);
    memset(&receiver, 0xff, sizeof receiver); /* no state that there is */
    CHECK(roce_np_on_packet(&receiver, &params, 1, 1, &send) == ROCE_STATUS_BAD_ARGUMENT);

    /* Alpha starts at 1: the first CNP halves the rate; 55 us later it is half way back. */
    CHECK(roce_rp_init(&sender, &params, 40000000000) == ROCE_STATUS_OK);
    CHECK(roce_rp_rate(&sender, &rate) == ROCE_STATUS_OK);
    CHECK(rate.rate_bps == 40000000000 && rate.next_timeout_ns == ROCE_NEVER && rate.limited == 0);
    CHECK(roce_rp_on_cnp(&sender, &params, 3000) == ROCE_STATUS_OK);
    CHECK(roce_rp_rate(&sender, &rate) == ROCE_STATUS_OK);
    CHECK(rate.rate_bps == 20000000000 && rate.target_rate_bps == 40000000000);
    CHECK(rate.next_timeout_ns == 58000 && rate.limited == 1 && rate.time_stage == 0);
    CHECK(roce_rp_on_timeout(&sender, &params, 58000) == ROCE_STATUS_OK);
    CHECK(roce_rp_rate(&sender, &rate) == ROCE_STATUS_OK);
    CHECK(rate.rate_bps == 30000000000 && rate.time_stage == 1 && rate.byte_stage == 0);
    CHECK(roce_rp_gap(&sender, 1500, &gap) == ROCE_STATUS_OK && gap == 400);
    CHECK(roce_rp_on_bytes_sent(&sender, &params, 60000, 10000000) == ROCE_STATUS_OK);
    CHECK(roce_rp_rate(&sender, &rate) == ROCE_STATUS_OK);
    CHECK(rate.rate_bps == 35000000000 && rate.byte_stage == 1);
    params.first_cnp = 2;
    CHECK(roce_rp_on_cnp(&sender, &params, 1) == ROCE_STATUS_BAD_ARGUMENT);
    params.first_cnp = 0;
    CHECK(roce_rp_on_cnp(NULL, &params, 1) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_rp_rate(&sender, NULL) == ROCE_STATUS_NULL_POINTER);
    CHECK(roce_rp_gap(&sender, 1500, NULL) == ROCE_STATUS_NULL_POINTER);
    memset(&sender, 0xff, sizeof sender);
    CHECK(roce_rp_on_cnp(&sender, &params, 1) == ROCE_STATUS_BAD_ARGUMENT);
    memset(&sender, 0, sizeof sender);
    CHECK(roce_rp_gap(&sender, 1500, &gap) == ROCE_STATUS_OK);
    CHECK(roce_rp_on_cnp(&sender, &params, 1) == ROCE_STATUS_OK);

    CHECK(roce_packet_init(&packet, 4) == ROCE_STATUS_OK);
    packet.bth.opcode = 0x0a;
    packet.ip.dst[0] = 10;
    CHECK(roce_may_cause_cnp(&packet) == 0);
    packet.ip.traffic_class = 3;
    CHECK(roce_may_cause_cnp(&packet) == 1);
    packet.bth.opcode = 0x11;
    CHECK(roce_may_cause_cnp(&packet) == 0 && roce_may_cause_cnp(NULL) == 0);
}

int main(int argc, char **argv)
{
    FILE *stream = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (stream == NULL) {
        fprintf(stderr, "usage: connection rxe-cm.pcap\n");
        return 2;
    }
    const size_t len = fread(file, 1, sizeof file, stream);
    fclose(stream);
    connection_manager(len);
    congestion();
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
