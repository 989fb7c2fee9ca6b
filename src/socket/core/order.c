/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What came first (D6): the log of what this process sends through the kernel,
 * and what it takes to find a peer's in it.
 */
#include "socket/core/core.h"

/* Ports are asked for once: those of a connection stay. */
static uint16_t port_of(uint16_t *known, int fd,
			int (*ask)(int, void *, socklen_t *))
{
	uint16_t port = __atomic_load_n(known, __ATOMIC_RELAXED);
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (likely(port) || fd < 0 || ask(fd, &ss, &len))
		return port;
	/* the port is at one place in both families */
	if (ss.ss_family == AF_INET || ss.ss_family == AF_INET6)
		port = ntohs(((struct sockaddr_in *)(void *)&ss)->sin_port);
	__atomic_store_n(known, port, __ATOMIC_RELAXED);
	return port;
}

void order_note(struct sock *s)
{
	uint16_t port = __atomic_load_n(&s->id.port, __ATOMIC_RELAXED);

	if (unlikely(!port))
		port = port_of(&s->id.port, sock_anchor(s), sys_getsockname);
	if (likely(port))
		stamp_log_add(port);
}

void order_ends(struct sock *s, int fd)
{
	if (s->paired &&
	    unlikely(__atomic_load_n(&stamp_used, __ATOMIC_RELAXED)))
		port_of(&s->id.port, fd, sys_getsockname);
}

void order_lifted(struct sock *s, int fd)
{
	port_of(&s->id.peer_port, fd, sys_getpeername);
}

void sock_ended(struct sock *s)
{
	order_ended(s);
}

uint16_t sock_peer_port(struct sock *s, int fd, uint64_t *read)
{
	*read = __atomic_load_n(&s->waits.read_at, __ATOMIC_RELAXED);
	return port_of(&s->id.peer_port, sock_at(s, fd), sys_getpeername);
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
