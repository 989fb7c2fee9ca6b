/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_ANCHOR_HOME_H
#define LIBSDP_TESTS_ANCHOR_HOME_H

/* What anchor_move.c needs of the homecoming. Lock held unless said. */

#include "anchor_world.h"

/* R's part, one step: 0 home, -EAGAIN not yet, other: cannot be. */
int home_rx(struct sim_end *e);
/* Takes the bells in front of the stream, `was` of them by the last look. */
int home_bells(struct sim_end *e, uint64_t was);
void home_unpaired(struct sim_end *e);
void home_nap(struct sim_end *e); /* a while without the lock */
void home_rang(struct sim_end *e); /* out of a sleep; lock not held */

#endif
