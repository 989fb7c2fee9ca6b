/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stand-in (anchor.md 6.4). The peer is gone and code we do not see is
 * about to read the descriptor, while the peer's last bytes lie in the ring:
 * no process is left to put them on the anchor. One end of a fresh loopback TCP
 * connection takes the anchor's numbers; its far end holds those bytes and is
 * closed, or reset where TCP would have shown a reset. Only getpeername()
 * tells the difference.
 */

#include <netinet/tcp.h>

#include "socket/handover/handover.h"

/* A connected loopback pair: pair[0] near, pair[1] far. */
static int tcp_pair(int pair[2])
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int l, ret;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pair[0] = pair[1] = -1;
	l = sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l < 0)
		return l;
	ret = sys_bind(l, &sin, sizeof(sin));
	if (!ret)
		ret = sys_listen(l, 1);
	if (!ret)
		ret = sys_getsockname(l, &sin, &len);
	if (!ret)
		pair[0] = ret = sys_socket(AF_INET, SOCK_STREAM, 0);
	if (ret >= 0)
		ret = sys_connect(pair[0], &sin, len);
	if (!ret)
		pair[1] = ret = sys_accept4(l, NULL, NULL, SOCK_CLOEXEC);
	sys_close(l);
	if (ret >= 0)
		return 0;
	if (pair[0] >= 0)
		sys_close(pair[0]);
	return ret;
}

/* That goes into the far end's send queue, all or nothing. */
static int fill(struct sock *s, int far)
{
	size_t room = s->got.avail + s->ar.kept;
	void *mem = sys_mmap(NULL, room, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov = { mem, room };
	struct cursor c = { .iov = &iov, .left = 1 };
	ssize_t len, done = 0, n = 0;

	if (sys_is_err(mem))
		return -ENOMEM;
	len = keep_unread(s, &c);
	for (; n >= 0 && done < len; done += n)
		n = sys_send(far, (char *)mem + done, (size_t)(len - done),
			     MSG_DONTWAIT | MSG_NOSIGNAL);
	sys_munmap(mem, room);
	return len < 0 ? (int)len : n < 0 ? (int)n : 0;
}

static int put_on(int near, int fd)
{
	int flags = sys_fcntl(fd, F_GETFD, 0);

	return (int)sys_call3(SYS_dup3, near, fd,
			      flags > 0 && flags & FD_CLOEXEC ? O_CLOEXEC : 0);
}

struct numbers {
	int near;
	int done; /* that one has it */
};

static void put_on_other(int fd, void *arg)
{
	const struct numbers *n = arg;

	if (fd != n->done)
		put_on(n->near, fd);
}

/*
 * `fd` is one end from now on, and so are the other numbers of s: 0 or a
 * negative errno.
 */
static int replace(struct sock *s, int fd)
{
	struct linger reset = { 1, 0 };
	struct numbers others = { .done = fd };
	int pair[2], ret;
	bool lost = carrier_lost(s);

	/* a part that is missing must not look like the end */
	lost = lost || keep_short(s) || s->conn.error;
	ret = tcp_pair(pair);
	if (ret)
		return ret;
	ret = fill(s, pair[1]);
	if (!ret) {
		if (s->opt.nonblock)
			sys_fcntl(pair[0], F_SETFL, O_NONBLOCK);
		ret = put_on(pair[0], fd);
	}
	others.near = pair[0];
	if (ret >= 0 && hooks.numbers)
		hooks.numbers(s, put_on_other, &others);
	sys_close(pair[0]);
	if (ret >= 0 && lost)
		sys_setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &reset,
			       sizeof(reset));
	sys_close(pair[1]);
	return ret < 0 ? ret : 0;
}

int standin_take(struct sock *s, int fd)
{
	int ret = replace(s, fd);

	if (ret)
		return ret;
	pump_recv(s, NULL, s->got.avail, false, true);
	keep_take(s, NULL, 0, s->ar.kept, false);
	lift_replaced(s, WHY_SUBSTITUTED);
	__atomic_store_n(&s->fallback.substituted, true, __ATOMIC_RELAXED);
	return 0;
}

int standin_copy(struct sock *s, int fd)
{
	int ret = replace(s, fd);

	return ret ? ret : -ENOTCONN;
}
