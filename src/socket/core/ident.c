/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which number and inode a sock has here, and what it is. */

#include "socket/core/core.h"

int sock_fd(struct sock *s)
{
	struct holder *h = holder_of(s, sock_pid);

	return h ? h->fd : -1;
}

bool sock_here(struct sock *s)
{
	return holder_of(s, sock_pid) ||
	       (s->waits.orphan_fd >= 0 && s->mem.closer == sock_pid);
}

bool sock_hold(struct sock *s)
{
	struct holder *h;

	if (sock_lock(s))
		return false;
	h = holder_of(s, sock_pid);
	if (h)
		h->fds++;
	sock_unlock(s);
	return h != NULL;
}

int sock_at_slow(struct sock *s, int fd)
{
	int orphan = sock_orphan_fd(s);

	if (orphan >= 0)
		return orphan;
	if (fd >= 0 && (!hooks.has || hooks.has(fd, s)))
		return fd;
	fd = sock_fd(s); /* as last known */
	if (fd < 0 || !hooks.has || hooks.has(fd, s))
		return fd;
	return hooks.another ? hooks.another(s, fd) : -1;
}

bool sock_shared(struct sock *s)
{
	bool yes;

	if (sock_lock(s))
		return true;
	yes = s->fallback.pinned || s->fallback.pins || sock_holders(s) > 1;
	sock_unlock(s);
	return yes;
}

bool sock_listening(const struct sock *s)
{
	return s->id.phase == PH_LISTEN;
}

bool sock_native(const struct sock *s)
{
	return s->id.native;
}

bool sock_lifted(const struct sock *s)
{
	return s->paired &&
	       (tx_state_seen(s) != ANC_TCP || rx_state_seen(s) != ANC_TCP);
}

bool sock_by_ring(const struct sock *s)
{
	if (!s->paired)
		return false;
	switch (tx_state_seen(s)) {
	case ANC_TCP:
	case ANC_DRAINING: /* its reader has bytes to take, it has none to send */
	case ANC_GONE:
		break;
	default:
		return true;
	}
	switch (rx_state_seen(s)) {
	case ANC_TCP:
	case ANC_GONE:
		return false;
	case ANC_RESTORING: /* the rest comes when what is there was read */
		return !__atomic_load_n(&s->rx->brim, __ATOMIC_ACQUIRE);
	default:
		return true;
	}
}

bool sock_cold(const struct sock *s)
{
	return !__atomic_load_n(&s->paired, __ATOMIC_ACQUIRE);
}

bool sock_substituted(const struct sock *s)
{
	return __atomic_load_n(&s->fallback.substituted, __ATOMIC_RELAXED);
}

/*
 * A connection's is known; another's is asked for seldom, and looked up then.
 */
uint64_t sock_inode(struct sock *s)
{
	struct stat st;
	int fd = sock_fd(s);

	if (!s->id.inode && fd >= 0 && !sys_fstat(fd, &st))
		s->id.inode = st.st_ino;
	return s->id.inode;
}

void sock_nonblock(struct sock *s, bool on)
{
	s->opt.nonblock = on;
}

uint64_t sock_inode_at(struct sock *s, int fd)
{
	struct stat st;

	if (!s->id.inode && !sys_fstat(fd, &st))
		s->id.inode = st.st_ino;
	return s->id.inode;
}
