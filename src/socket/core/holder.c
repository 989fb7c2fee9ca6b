/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The processes that have a sock open (holder.h). */

#include "base/proc.h"
#include "base/text.h"
#include "socket/core/core.h"

/* Of most socks only the first place is ever used. */
static uint32_t places(const struct sock *s)
{
	return __atomic_load_n(&s->mem.holders, __ATOMIC_ACQUIRE) + 1;
}

static struct holder *place(struct sock *s, uint32_t i)
{
	return i < HOLDERS_HERE ? &s->mem.holder[i] :
				  &s->mem.further[i - HOLDERS_HERE];
}

/* Its place, though its last number may be closed. */
static struct holder *place_of(struct sock *s, int32_t pid)
{
	uint32_t i, n = places(s);

	for (i = 0; i < n; i++)
		if (place(s, i)->pid == pid)
			return place(s, i);
	return NULL;
}

struct holder *holder_of(struct sock *s, int32_t pid)
{
	struct holder *h = place_of(s, pid);

	return h && pid > 0 && !h->fds ? NULL : h;
}

/*
 * The count of places is raised while the new one is empty. It is cleared
 * first: another sock may have had that memory.
 */
struct holder *holder_new(struct sock *s, int32_t pid, int32_t fd)
{
	struct holder *h = holder_of(s, 0);
	uint32_t n = places(s);

	if (!h && n == SOCK_HOLDERS) {
		sock_holders(s); /* the dead make room */
		h = holder_of(s, 0);
		if (!h)
			return NULL;
	}
	if (!h) {
		h = place(s, n);
		*h = (struct holder){ 0 };
		__atomic_store_n(&s->mem.holders, n, __ATOMIC_RELEASE);
	}
	*h = (struct holder){ .pid = pid, .fds = 1, .fd = fd };
	return h;
}

const struct holder *holder_at(const struct sock *s, uint32_t i)
{
	return i < places(s) ? place((struct sock *)s, i) : NULL;
}

/* --- inside of calls ----------------------------------------------------- */

void holder_in(struct sock *s, enum holder_part part)
{
	struct holder *h = place_of(s, sock_pid);

	if (likely(h != NULL))
		__atomic_add_fetch(&h->inside[part], 1, __ATOMIC_SEQ_CST);
}

void holder_out(struct sock *s, enum holder_part part)
{
	struct holder *h = place_of(s, sock_pid);
	uint16_t n;

	if (unlikely(!h))
		return;
	n = __atomic_load_n(&h->inside[part], __ATOMIC_SEQ_CST);
	/* or forked inside: then its parent is counted, and it is not */
	while (n && !__atomic_compare_exchange_n(
			    &h->inside[part], &n, (uint16_t)(n - 1), 0,
			    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

bool holder_inside(const struct holder *h)
{
	int i;

	for (i = 0; i < HOLDS_PARTS; i++)
		if (__atomic_load_n(&h->inside[i], __ATOMIC_SEQ_CST))
			return true;
	return false;
}

bool holders_own_inside(const struct sock *s)
{
	const struct holder *h;
	uint32_t i;

	for (i = 0; (h = holder_at(s, i)); i++)
		if (h->pid == sock_pid)
			return holder_inside(h);
	return false;
}

/* --- processes that are no more ------------------------------------------ */

/*
 * A process that executes another program keeps its pid. Has it let go of the
 * number? (Where /proc shows nothing of it: not known.)
 */
static bool has_left(const struct sock *s, const struct holder *h)
{
	char room[48];
	struct text path = TEXT_IN(room);
	struct stat st;
	int ret;

	if (!h->leaves || !s->id.inode || h->fd < 0)
		return false;
	text_add(&path, "/proc/%d/fd", h->pid);
	if (sys_stat(room, &st))
		return false;
	text_add(&path, "/%d", h->fd);
	ret = sys_stat(room, &st);
	return ret ? ret == -ENOENT : st.st_ino != s->id.inode;
}

static bool is_gone(const struct sock *s, const struct holder *h)
{
	return h->pid > 0 && h->pid != sock_pid &&
	       (proc_ended(h->pid) || has_left(s, h));
}

/* Killed inside of calls, perhaps. Each count is taken out once. */
static void count_out(struct sock *s, struct holder *h)
{
	enum holder_part i;
	uint32_t n;

	for (i = 0; i < HOLDS_PARTS; i++) {
		n = __atomic_exchange_n(&h->inside[i], 0, __ATOMIC_SEQ_CST);
		while (n-- > 0)
			reports.abandoned(s, i);
	}
}

int sock_holders(struct sock *s)
{
	struct holder *h;
	uint32_t i;
	int n = 0;

	for (i = 0; i < places(s); i++) {
		h = place(s, i);
		if (!is_gone(s, h)) {
			if (h->pid > 0 && !h->fds && !holder_inside(h))
				h->pid = 0; /* its threads are out */
			n += h->pid && h->fds;
			continue;
		}
		/* without the sock it has no words either */
		if (holder_inside(h) && !holder_of(s, sock_pid))
			continue;
		count_out(s, h);
		h->pid = 0;
	}
	return n;
}

bool holders_several(const struct sock *s)
{
	const struct holder *h;
	uint32_t i;
	int n = 0;

	for (i = 0; (h = holder_at(s, i)); i++)
		n += h->pid && h->fds;
	return n > 1;
}

bool sock_held(const struct sock *s)
{
	const struct holder *h;
	uint32_t i;

	for (i = 0; (h = holder_at(s, i)); i++)
		if (h->pid && h->fds && !is_gone(s, h))
			return true;
	return false;
}

void holders_sweep(struct sock *s)
{
	if (__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&s->in.tcp_tx, __ATOMIC_SEQ_CST))
		sock_holders(s);
}

void holders_visit(struct sock *s)
{
	if (!__atomic_load_n(&s->in.users, __ATOMIC_SEQ_CST) ||
	    lock_try(&s->lock))
		return;
	if (sock_here(s))
		holders_sweep(s);
	sock_unlock(s);
}

/* The count first, then the part: no other's goes up by that. */
static bool above(const uint32_t *count, uint32_t less, struct holder *h,
		  enum holder_part part)
{
	uint32_t n = __atomic_load_n(count, __ATOMIC_SEQ_CST) - less;

	return n > __atomic_load_n(&h->inside[part], __ATOMIC_SEQ_CST);
}

bool holders_lost(struct sock *s)
{
	struct holder *h = holder_of(s, sock_pid);
	const struct anc_dir *old = &s->local[1];

	if (!h)
		return true;
	return above(&old->tcp_rx, 0, h, HOLDS_OLD_RX) ||
	       (s->rx != old &&
		above(&s->rx->tcp_rx,
		      __atomic_load_n(&s->in.carry, __ATOMIC_SEQ_CST), h,
		      HOLDS_RX)) ||
	       above(&s->in.tcp_tx, 0, h, HOLDS_TX) ||
	       above(&s->waits.asleep_anchor, 0, h, HOLDS_SLEEP);
}

/* How much of a count is no living holder's. */
static uint32_t missed(const struct sock *s, uint32_t n, enum holder_part part)
{
	const struct holder *h;
	uint32_t own, i;

	for (i = 0; n && (h = holder_at(s, i)); i++) {
		own = __atomic_load_n(&h->inside[part], __ATOMIC_SEQ_CST);
		n -= own < n ? own : n;
	}
	return n;
}

uint32_t holders_miss(struct sock *s, enum holder_part part)
{
	const struct anc_dir *old = &s->local[1];
	uint32_t carry = __atomic_load_n(&s->in.carry, __ATOMIC_SEQ_CST), n;

	if (part == HOLDS_OLD_RX)
		return missed(s,
			      __atomic_load_n(&old->tcp_rx, __ATOMIC_SEQ_CST),
			      part);
	n = __atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST);
	return s->rx != old && n > carry ? missed(s, n - carry, part) : 0;
}
