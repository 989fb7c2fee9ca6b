/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What came first (D6): the log of what this process sends through the kernel,
 * and what it takes to find a peer's in it.
 */
#include "socket/impl.h"

/* Ports are asked for once: names of a connection stay. */
static void learn_ports(struct sock *s, int fd)
{
	struct diag_names n;

	if (fd < 0 || diag_names(fd, &n))
		return;
	__atomic_store_n(&s->peer_port, n.peer_port, __ATOMIC_RELAXED);
	__atomic_store_n(&s->port, n.local_port, __ATOMIC_RELEASE);
}

void order_note(struct sock *s)
{
	uint16_t port = __atomic_load_n(&s->port, __ATOMIC_ACQUIRE);

	if (unlikely(!port)) {
		learn_ports(s, sock_anchor(s));
		port = __atomic_load_n(&s->port, __ATOMIC_ACQUIRE);
	}
	if (likely(port))
		stamp_log_add(port);
}

uint16_t sock_peer_port(struct sock *s, int fd)
{
	if (!__atomic_load_n(&s->port, __ATOMIC_ACQUIRE))
		learn_ports(s, sock_at(s, fd));
	return __atomic_load_n(&s->peer_port, __ATOMIC_RELAXED);
}

bool sock_sends(struct sock *s, struct stamp_log *log)
{
	const struct stamp_log *from = NULL;
	int i;

	if (!s->paired || sock_lock(s))
		return false;
	if (s->paired && sock_here(s) && FAB(s)->sends)
		from = FAB(s)->sends(END(s));
	for (i = 0; from && i < STAMP_LOG; i++)
		log->entry[i] =
			__atomic_load_n(&from->entry[i], __ATOMIC_RELAXED);
	sock_unlock(s);
	return from != NULL;
}
