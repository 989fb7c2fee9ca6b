/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fabric/nowhere.h"

#include <errno.h>

uint32_t nowhere_room(struct end *e)
{
	(void)e;
	return 0;
}

void *nowhere_buf(struct end *e, uint32_t len)
{
	(void)e;
	(void)len;
	return NULL;
}

void *nowhere_ctrl(struct end *e)
{
	(void)e;
	return NULL;
}

int nowhere_send(struct end *e, uint32_t len, bool solicited)
{
	(void)e;
	(void)len;
	(void)solicited;
	return -ECONNRESET;
}

int nowhere_msg(struct end *e, struct fab_msg *m)
{
	(void)e;
	(void)m;
	return 0;
}

int nowhere_next(struct end *e, bool own, struct fab_walk *w, struct fab_msg *m)
{
	(void)e;
	(void)own;
	(void)w;
	(void)m;
	return 0;
}

bool nowhere_pending(struct end *e)
{
	(void)e;
	return false;
}

void nowhere_nothing(struct end *e)
{
	(void)e;
}

const struct fabric_ops nowhere_ops = {
	.name = "verbs",
	.room = nowhere_room,
	.buf = nowhere_buf,
	.ctrl = nowhere_ctrl,
	.send = nowhere_send,
	.poll = nowhere_msg,
	.front = nowhere_msg,
	.release = nowhere_nothing,
	.next = nowhere_next,
	.pending = nowhere_pending,
	.trim = nowhere_nothing,
	.destroy = nowhere_nothing,
};
