/*
 * A responder for RDMA WRITEs over one reliable connection: what firmware does with roce.h.
 *
 * The order is the specification's: the ICRC before anything is believed, then the queue pair,
 * the PSN, the opcode's place in its message, the key and the range, and only then the memory.
 * Needs no C library.
 */
#include "responder.h"

/* Answers `request` with `syndrome`, naming `psn`. */
static enum outcome answer_with(struct responder *self, const struct roce_packet *request,
                                uint32_t psn, uint8_t syndrome, uint8_t *out, size_t room,
                                size_t *len, const char **why)
{
    struct roce_answer answer;
    roce_status status = roce_answer_init(request, self->peer_qp, &answer);

    if (status == ROCE_STATUS_OK) {
        answer.psn = psn;
        answer.msn = self->msn;
        answer.syndrome = syndrome;
        answer.identification = self->ip_id;
        status = roce_build_ack(request, &answer, out, room, len, NULL);
    }
    if (status != ROCE_STATUS_OK) {
        *why = roce_status_text(status);
        return OUTCOME_DROPPED;
    }
    return OUTCOME_ANSWERED;
}

/* Whether `len` bytes at `va` lie in the region: no sum that could wrap is formed. */
static int in_region(const struct region *region, uint64_t va, size_t len)
{
    if (va < region->va || va - region->va > region->len)
        return 0;
    return len <= region->len - (size_t)(va - region->va);
}

static const char *icrc_fault(uint32_t verdict)
{
    switch (verdict) {
    case ROCE_ICRC_VERDICT_INVALID:
        return "ICRC invalid";
    case ROCE_ICRC_VERDICT_NOT_FILLED:
        return "ICRC not filled in";
    default:
        return "ICRC not checkable";
    }
}

enum outcome responder_handle(struct responder *self, const uint8_t *packet, size_t len,
                              uint8_t *out, size_t room, size_t *out_len, const char **why)
{
    struct roce_frame frame;
    struct roce_icrc_result icrc;
    struct roce_opcode_info info;
    roce_status status = roce_parse(packet, len, ROCE_START_ETHERNET, &frame, NULL);

    if (status == ROCE_STATUS_OK)
        status = roce_icrc_verify(packet, len, ROCE_START_ETHERNET, &icrc, NULL);
    if (status == ROCE_STATUS_OK)
        status = roce_opcode_lookup(frame.packet.bth.opcode, &info);
    if (status != ROCE_STATUS_OK) {
        *why = roce_status_text(status);
        return OUTCOME_DROPPED;
    }
    if (icrc.verdict != ROCE_ICRC_VERDICT_VALID) {
        *why = icrc_fault(icrc.verdict);
        return OUTCOME_DROPPED;
    }

    const struct roce_bth *bth = &frame.packet.bth;
    if (bth->version != 0 || bth->dest_qp != self->qp || !roce_pkey_matches(bth->pkey, 0xffff)) {
        *why = "not for this queue pair";
        return OUTCOME_DROPPED;
    }
    if (self->broken || info.service != ROCE_SERVICE_RC || !info.is_request) {
        *why = self->broken ? "the connection is in error" : "no request";
        return OUTCOME_DROPPED;
    }

    const uint32_t before = roce_psn_sub(self->expected_psn, 1);
    const int32_t ahead = roce_psn_distance(bth->psn, self->expected_psn);
    if (ahead < 0) {
        *why = "duplicate";
        return answer_with(self, &frame.packet, before, roce_syndrome_ack(), out, room, out_len, why);
    }
    if (ahead > 0) {
        *why = "PSN sequence error";
        return answer_with(self, &frame.packet, self->expected_psn,
                           roce_syndrome_nak(ROCE_NAK_CODE_PSN_SEQUENCE_ERROR), out, room, out_len,
                           why);
    }

    const int starts = info.position == ROCE_POSITION_FIRST || info.position == ROCE_POSITION_ONLY;
    const int ends = info.position == ROCE_POSITION_LAST || info.position == ROCE_POSITION_ONLY;
    uint32_t nak = ROCE_NAK_CODE_NONE;
    if (info.operation != ROCE_OPERATION_WRITE || starts == self->in_message) {
        *why = "invalid request";
        nak = ROCE_NAK_CODE_INVALID_REQUEST;
    } else if (starts) {
        const struct roce_reth *reth = &frame.packet.ext.reth;
        /* A WRITE of no bytes touches no memory: its key and address do not matter. */
        if (reth->dma_len != 0 && (reth->rkey != self->region.rkey ||
                                   !in_region(&self->region, reth->va, reth->dma_len))) {
            *why = "remote access error";
            nak = ROCE_NAK_CODE_REMOTE_ACCESS_ERROR;
        } else {
            self->at = reth->dma_len == 0 ? 0 : (size_t)(reth->va - self->region.va);
            self->left = reth->dma_len;
        }
    }
    if (nak == ROCE_NAK_CODE_NONE &&
        (ends ? frame.payload_len != self->left : frame.payload_len >= self->left)) {
        *why = "length error";
        nak = ROCE_NAK_CODE_INVALID_REQUEST;
    }
    if (nak != ROCE_NAK_CODE_NONE) {
        self->broken = 1;
        return answer_with(self, &frame.packet, bth->psn, roce_syndrome_nak(nak), out, room,
                           out_len, why);
    }

    for (size_t i = 0; i < frame.payload_len; i++)
        self->region.bytes[self->at + i] = frame.payload[i];
    self->at += frame.payload_len;
    self->left -= frame.payload_len;
    self->in_message = !ends;
    self->expected_psn = roce_psn_add(self->expected_psn, 1);
    if (ends)
        self->msn = (self->msn + 1) & 0xffffff;
    if (!bth->ack_req)
        return OUTCOME_PLACED;
    return answer_with(self, &frame.packet, bth->psn, roce_syndrome_ack(), out, room, out_len, why);
}
