/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "socket/stream/notice.h"

#define NAPS 10 /* of a millisecond */

bool notice_ahead(struct sock *s, struct load *w)
{
	uint8_t n = __atomic_load_n(&s->told, __ATOMIC_RELAXED);

	while (!w->noted && n)
		w->noted = __atomic_compare_exchange_n(&s->told, &n, n - 1,
						       false, __ATOMIC_RELAXED,
						       __ATOMIC_RELAXED);
	return w->noted;
}

void notice_keep(struct sock *s, struct load *w)
{
	if (w->noted)
		__atomic_add_fetch(&s->told, 1, __ATOMIC_RELAXED);
	w->noted = false;
}

/*
 * No kick may pass what the reader has not taken off the anchor yet. A send
 * that may block gives it a moment. Else, and where the anchor takes no kick,
 * the kernel goes on. False: it does not work that way either.
 */
static bool await_reader(struct sock *s, int fd, struct load *w)
{
	struct timespec ms = { 0, 1000000 };

	if (w->nonblock || anc_state(s->tx) != ANC_SWITCHING ||
	    w->naps++ >= NAPS)
		return !lift_stall(s, fd, WHY_SOCKET_OPTION, false);
	sock_unlock(s);
	sys_ppoll(NULL, 0, &ms, NULL);
	lock_take(&s->lock);
	return true;
}

bool notice_send(struct sock *s, int fd, struct load *w)
{
	int ret;

	if (notice_ahead(s, w) || !pump_room(s))
		return true;
	ret = ring_told(s, fd);
	w->noted = !ret;
	w->leave = ret == -ENOSPC || (ret && !await_reader(s, fd, w));
	return !ret;
}
