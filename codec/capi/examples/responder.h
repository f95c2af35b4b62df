/* A responder for one connection that takes RDMA WRITEs, on top of roce.h. */
#ifndef RESPONDER_H
#define RESPONDER_H

#include "roce.h"

/* Memory that the peer may write. */
struct region {
    uint32_t rkey;
    uint64_t va; /* the address the peer knows it by */
    size_t len;
    uint8_t *bytes;
};

struct responder {
    struct region region;
    uint32_t qp;         /* ours */
    uint32_t peer_qp;    /* the requester's: answers go there */
    uint32_t expected_psn;
    uint32_t msn;        /* messages completed */
    uint16_t ip_id;      /* IPv4 identification of the next answer */
    size_t at;           /* where the message in progress goes on in the region */
    size_t left;         /* bytes of it still to come */
    uint8_t in_message;
    uint8_t broken;      /* a NAK that ends the connection was sent */
};

enum outcome {
    OUTCOME_DROPPED,  /* nothing it says was believed, or it was not for us */
    OUTCOME_PLACED,   /* done, no answer asked for */
    OUTCOME_ANSWERED  /* `answer_len` bytes of `answer` are to be sent */
};

/* Handles one packet that starts with Ethernet. `why` is set for every packet that was not simply placed. */
enum outcome responder_handle(struct responder *responder, const uint8_t *packet, size_t len,
                              uint8_t *answer, size_t answer_room, size_t *answer_len,
                              const char **why);

#endif
