/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keep-alive on an anchor whose direction is lifted to another host: nothing
 * passes there, and what lies between would forget the connection. The kernel
 * probes, unless the program has it do so already; it gives up after two hours
 * of silence, as it does by default. Where the program has set a time for what
 * it sends to be acknowledged, the kernel would measure the probes by that, and
 * end what would have lasted in silence. The program sees its own settings.
 */

#include <netinet/tcp.h>

#include "socket/transport/transport.h"

#define EACH_S 60
#define PROBES 127 /* the kernel takes no more */

enum { IDLE, INTERVAL, COUNT_OF, USER, OPTS };

static const int opts[OPTS] = { TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT,
				TCP_USER_TIMEOUT };

static int index_of(int level, int opt)
{
	int i;

	for (i = 0; i < OPTS; i++)
		if (level == IPPROTO_TCP && opt == opts[i])
			break;
	return i;
}

static bool is_switch(int level, int opt)
{
	return level == SOL_SOCKET && opt == SO_KEEPALIVE;
}

static void set(int fd, const int value[OPTS], int on)
{
	int i;

	for (i = 0; i < OPTS; i++)
		sys_setsockopt(fd, IPPROTO_TCP, opts[i], &value[i],
			       sizeof(int));
	sys_setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

void alive_begin(struct sock *s, int fd)
{
	static const int ours[OPTS] = { EACH_S, EACH_S, PROBES, 0 };
	struct rdma *r = s->rd;
	int i;

	if (!r || r->watch.probes || option_int(fd, SO_KEEPALIVE))
		return;
	for (i = 0; i < OPTS; i++) {
		socklen_t len = sizeof(int);

		if (sys_getsockopt(fd, IPPROTO_TCP, opts[i], &r->watch.keep[i],
				   &len))
			return;
	}
	r->watch.probes = true;
	set(fd, ours, 1);
}

void alive_end(struct sock *s, int fd)
{
	struct rdma *r = s->rd;

	if (!r || !r->watch.probes)
		return;
	r->watch.probes = false;
	set(fd, r->watch.keep, 0);
}

int alive_set(struct sock *s, int fd, int level, int opt, const void *v,
	      socklen_t len)
{
	int ret;

	if (likely(!s->rd) ||
	    (!is_switch(level, opt) && index_of(level, opt) == OPTS))
		return 1;
	if (sock_lock(s))
		return -EDEADLK;
	ret = 1;
	if (s->rd && (s->rd->watch.probes ||
		      (is_switch(level, opt) && s->paired && tx_by_ring(s)))) {
		alive_end(s, fd);
		ret = sys_setsockopt(fd, level, opt, v, len);
		alive_begin(s, fd);
	}
	sock_unlock(s);
	return ret;
}

bool alive_get(struct sock *s, int level, int opt, int *value)
{
	bool ours;
	int i;

	if (likely(!s->rd))
		return false;
	i = index_of(level, opt);
	if ((i == OPTS && !is_switch(level, opt)) || sock_lock(s))
		return false;
	ours = s->rd && s->rd->watch.probes;
	if (ours)
		*value = i == OPTS ? 0 : s->rd->watch.keep[i];
	sock_unlock(s);
	return ours;
}
