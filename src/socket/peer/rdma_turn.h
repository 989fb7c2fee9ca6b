/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_PEER_RDMA_TURN_H
#define LIBSDP_SOCKET_PEER_RDMA_TURN_H

/* A part of rdma.h: what is dialled when, patience, hosts of no use. */

#include "socket/peer/peer.h"

void rdma_await(struct rdma *r); /* a candidate from now on */
void rdma_patient(struct rdma *r, uint64_t since); /* not its own time */
/* Its time is over (WHY_NONE: not yet); its port is barred, if it dialled. */
enum reason rdma_out_of_patience(struct rdma *r);
/* That end asks: one that waits for it need not be short of patience. */
void rdma_is_asked(const struct diag_names *n);
bool rdma_looks_often(const struct rdma *r); /* it waits for little time */
/*
 * The peer is of no use for settings.rdma_retry_s, and why: its host, if no
 * usable device leads there, else that port of it.
 */
void rdma_bar(const struct rdma *r, enum reason why);
enum reason rdma_barred(const struct diag_names *n, bool serves);
/* There is an answer, or even its other end was met: all may dial. */
void rdma_answers(const struct rdma *r, bool met);
/*
 * So many more tries at that port were in vain; is it to be barred? Connections
 * may be too short to find that out, each for itself.
 */
bool rdma_fails(const struct rdma *r, unsigned int count);
/*
 * May this candidate dial now, or are others dialled, or does one try for it?
 */
bool rdma_turn_free(const struct rdma *r);
void rdma_turn(const struct rdma *r); /* it does, having asked */
/* It tried for others, perhaps, and goes: another may, when it would have. */
void rdma_turn_left(const struct rdma *r);
void rdma_turn_over(void); /* others may wait for it */
void rdma_turns_forked(void);

#endif
