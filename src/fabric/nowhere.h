/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_FABRIC_NOWHERE_H
#define LIBSDP_FABRIC_NOWHERE_H

/*
 * The fabric that leads nowhere: it has no room, nothing comes, sending says
 * -ECONNRESET. For an end whose connection broke while its stream goes on; one
 * that differs in a few points takes the rest of its table from here.
 */

#include "fabric/fabric.h"

uint32_t nowhere_room(struct end *e);
void *nowhere_buf(struct end *e, uint32_t len);
void *nowhere_ctrl(struct end *e);
int nowhere_send(struct end *e, uint32_t len, bool solicited);
int nowhere_msg(struct end *e, struct fab_msg *m); /* poll and front */
int nowhere_next(struct end *e, bool own, struct fab_walk *w,
		 struct fab_msg *m);
bool nowhere_pending(struct end *e);
void nowhere_nothing(struct end *e); /* release, trim and destroy */

extern const struct fabric_ops nowhere_ops;

#endif
