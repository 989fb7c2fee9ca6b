/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The program has run out of descriptors, and gets some of the library's: first
 * those of connections that look for their peer, which costs nothing, then
 * those of lifted ones, which fall back for it.
 */
#include "base/clock.h"
#include "socket/life/life.h"

#define PATIENCE_NS 2000000000ull /* for peers that do not answer, in all */

void sock_fd_limit(void)
{
	fd_share_learn();
}

int sock_yield_offer(struct sock *s)
{
	bool freed = false;

	if (sock_listening(s) || !sock_cold(s) || lock_try(&s->lock))
		return -EMFILE;
	if (!s->paired && s->seek.pair.state == PAIR_OFFERED &&
	    s->seek.pair.fd >= 0) {
		pair_cancel(&s->seek.pair);
		s->seek.look = FD_SHARE_LOOKS;
		sock_why(s, WHY_FD_LIMIT);
		freed = true;
	}
	sock_unlock(s);
	if (freed)
		fd_share_short();
	return freed ? 0 : -EMFILE;
}

int sock_move_offer(struct sock *s, int at)
{
	bool moved;

	if (sock_listening(s) || !sock_cold(s) || sock_lock(s))
		return -EBUSY;
	moved = !s->paired && s->seek.pair.state != PAIR_DONE &&
		fd_move(&s->seek.pair.fd, at);
	sock_unlock(s);
	return moved ? 0 : -EBUSY;
}

struct coldest {
	struct sock *s;
	uint64_t moved;
	uint64_t above; /* that much, since others were asked in vain */
	int at; /* its wake-up socket's number */
	bool freed;
};

static void colder(struct sock *s, void *arg)
{
	struct coldest *c = arg;
	uint64_t moved = s->at.sent + s->ar.taken;

	if (s->waits.wake < 0 || s->peer_gone || s->got.avail ||
	    moved < c->above)
		return;
	if (!c->s || moved < c->moved) {
		c->s = s;
		c->moved = moved;
	}
}

/* What was found may be closed by now, or even be another connection. */
static void yield_one(struct sock *s, void *arg)
{
	struct coldest *c = arg;
	int wake = -1;

	if (s != c->s || c->freed || sock_fallback(s, -1, WHY_FD_LIMIT) ||
	    sock_lock(s))
		return;
	if (s->paired && sock_fd(s) >= 0)
		wake = s->waits.wake;
	if (wake >= 0) {
		service_del(s);
		lift_peer_gone(s);
		lift_unpaired(s, WHY_FD_LIMIT);
		s->waits.wake = -1;
	}
	sock_unlock(s);
	if (wake < 0)
		return;
	sock_changed(s);
	fd_unhide(wake);
	sys_close(wake);
	c->freed = true;
}

/*
 * The connection that moved least gives its wake-up socket. One whose peer does
 * not answer, or that has unread bytes of a peer that is gone, cannot; then the
 * next is asked.
 */
int sock_yield_fd(void)
{
	struct coldest c = { 0 };
	uint64_t end = clock_ns() + PATIENCE_NS;

	do {
		c.s = NULL;
		service_each(colder, &c);
		if (c.s)
			service_each(yield_one, &c);
		c.above = c.moved + 1;
	} while (c.s && !c.freed && clock_ns() < end);
	if (c.freed)
		fd_share_short();
	return c.freed ? 0 : -EMFILE;
}

static void at_number(struct sock *s, void *arg)
{
	struct coldest *c = arg;

	if (s->waits.wake == c->at)
		c->s = s;
}

int sock_vacate(int fd)
{
	struct coldest c = { .at = fd };

	if (fd_vacate(fd) || service_vacate(fd) || diag_vacate(fd) ||
	    sigblock_vacate(fd) || capture_vacate(fd))
		return 0;
	service_each(at_number, &c);
	if (c.s)
		service_each(yield_one, &c);
	return c.freed ? 0 : -EBUSY;
}
