/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_ANCHOR_HOME_H
#define LIBSDP_TESTS_ANCHOR_HOME_H

/* What anchor_move.c needs of the fallback. Lock held unless said. */

#include "anchor_world.h"

/* R's part, one step: 0 home, -EAGAIN not yet, other: cannot be. */
int fallback_rx(struct sim_end *e);
/* Takes the kicks in front of the stream, `was` of them by the last look. */
int home_kicks(struct sim_end *e, uint64_t was);
void home_unpaired(struct sim_end *e);
void home_nap(struct sim_end *e); /* a while without the lock */
void home_rang(struct sim_end *e); /* out of a sleep; lock not held */
/* Bytes in front of the ring were taken to the last: ask for a kick. */
void home_passed(struct sim_end *e, struct anc_dir *d);

/* --- anchor_keep.c ----------------------------------------------------- */

/* Takes off the anchor what has to be kept; true: nothing more will come. */
bool keep_pull(struct sim_end *e);
void keep_drop(struct sim_end *e); /* it was written back, or read */
/* In its turn, what is kept; as lib_pop(). */
int keep_take(struct sim_end *e, struct sim_item *to, uint32_t n, bool peek);
/* ANC_AT_QUEUE: what is kept, then the anchor; as k_recv(). */
int keep_queue(struct sim_end *e, struct sim_item *to, uint32_t n, uint64_t lim,
	       bool peek);
/* W died in RESTORING: what did not come by the anchor. */
int keep_salvage(struct sim_end *e, struct sim_item *to, uint32_t n, bool peek);
void keep_put_back(struct sim_end *e); /* W, in RESTORING */

#endif
