/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The states of a connection; s->fd is the end that is tried. */
#include "errors.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SPARE 800 /* numbers that dup2() and the like may take */

static long call(const struct side *s, const char *name, long a, long b, long c)
{
	return side_call(s, name, a, b, c, 0, 0, 0);
}

static void shut(struct side *s, int *fd)
{
	if (*fd >= 0)
		call(s, "close", *fd, 0, 0);
	*fd = -1;
}

static int make_socket(struct side *s)
{
	long fd = call(s, "socket", AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	NEED(fd >= 0);
	return (int)fd;
}

static int make_listener(struct side *s, int backlog)
{
	socklen_t len = sizeof(s->to);
	int fd = make_socket(s);

	memset(&s->to, 0, sizeof(s->to));
	s->to.sin_family = AF_INET;
	s->to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	NEED(!call(s, "bind", fd, (long)&s->to, sizeof(s->to)));
	NEED(!call(s, "listen", fd, backlog, 0));
	NEED(!call(s, "getsockname", fd, (long)&s->to, (long)&len));
	return fd;
}

static void nonblock(struct side *s, int fd)
{
	NEED(!call(s, "fcntl", fd, F_SETFL, O_NONBLOCK));
}

static void option(struct side *s, int fd, int level, int opt, int value)
{
	NEED(!side_call(s, "setsockopt", fd, level, opt, (long)&value,
			sizeof(value), 0));
}

static void fresh(struct side *s)
{
	s->listener = make_listener(s, 5);
	s->fd = make_socket(s);
	nonblock(s, s->fd);
}

/* Nothing answers: the queue of the listener is full. */
static void connecting(struct side *s)
{
	int fd;

	s->listener = make_listener(s, 0);
	s->queued = make_socket(s);
	nonblock(s, s->queued);
	call(s, "connect", s->queued, (long)&s->to, sizeof(s->to));
	for (fd = -1;;) {
		long ret;

		shut(s, &s->peer);
		s->peer = fd;
		fd = make_socket(s);
		nonblock(s, fd);
		ret = call(s, "connect", fd, (long)&s->to, sizeof(s->to));
		if (ret == -EINPROGRESS) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			if (!call(s, "poll", (long)&p, 1, 20))
				break;
		}
		NEED(!ret || ret == -EINPROGRESS);
	}
	s->fd = fd;
}

static void refused(struct side *s)
{
	fresh(s);
	shut(s, &s->listener);
	call(s, "connect", s->fd, (long)&s->to, sizeof(s->to));
}

static void listening(struct side *s)
{
	struct pollfd p = { .events = POLLIN };

	s->fd = p.fd = make_listener(s, 5);
	nonblock(s, s->fd);
	s->peer = make_socket(s);
	NEED(!call(s, "connect", s->peer, (long)&s->to, sizeof(s->to)));
	NEED(call(s, "poll", (long)&p, 1, 5000) == 1);
}

/* --- connected ----------------------------------------------------------- */

static void put(struct side *s, int fd, size_t n)
{
	uint8_t b[UNREAD];

	memset(b, 'u', sizeof(b));
	NEED(call(s, "write", fd, (long)b, (long)n) == (long)n);
}

static void get(struct side *s, int fd, size_t n)
{
	uint8_t b[UNREAD];

	NEED(side_call(s, "recv", fd, (long)b, (long)n, MSG_WAITALL, 0, 0) ==
	     (long)n);
}

static void connected(struct side *s)
{
	s->listener = make_listener(s, 5);
	s->fd = make_socket(s);
	NEED(!call(s, "connect", s->fd, (long)&s->to, sizeof(s->to)));
	s->peer = (int)call(s, "accept", s->listener, 0, 0);
	NEED(s->peer >= 0);
	option(s, s->fd, IPPROTO_TCP, TCP_NODELAY, 1);
	option(s, s->peer, IPPROTO_TCP, TCP_NODELAY, 1);
}

/* Bytes that the other end has sent are there. */
static void unread(struct side *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	put(s, s->peer, UNREAD);
	NEED(call(s, "poll", (long)&p, 1, 5000) == 1);
}

static void turns(struct side *s, int n)
{
	while (n--) {
		put(s, s->fd, 8);
		get(s, s->peer, 8);
		put(s, s->peer, 8);
		get(s, s->fd, 8);
	}
}

static void on_tcp(struct side *s)
{
	connected(s);
	nonblock(s, s->fd);
}

static void first_bytes(struct side *s)
{
	connected(s);
	unread(s);
	nonblock(s, s->fd);
}

static void switching(struct side *s)
{
	connected(s);
	turns(s, 1);
	unread(s);
	nonblock(s, s->fd);
}

static void empty(struct side *s)
{
	connected(s);
	turns(s, 20);
	nonblock(s, s->fd);
}

static void lifted(struct side *s)
{
	connected(s);
	turns(s, 20);
	unread(s);
	nonblock(s, s->fd);
}

static void accepted(struct side *s)
{
	int fd;

	connected(s);
	fd = s->fd;
	s->fd = s->peer;
	s->peer = fd;
	turns(s, 20);
	unread(s);
	nonblock(s, s->fd);
}

static void shut_write(struct side *s)
{
	lifted(s);
	NEED(!call(s, "shutdown", s->fd, SHUT_WR, 0));
}

static void shut_read(struct side *s)
{
	empty(s);
	NEED(!call(s, "shutdown", s->fd, SHUT_RD, 0));
}

static void shut_both(struct side *s)
{
	empty(s);
	NEED(!call(s, "shutdown", s->fd, SHUT_RDWR, 0));
}

static void peer_shut(struct side *s)
{
	lifted(s);
	NEED(!call(s, "shutdown", s->peer, SHUT_WR, 0));
}

static void peer_ended(struct side *s)
{
	empty(s);
	NEED(!call(s, "shutdown", s->peer, SHUT_WR, 0));
}

static void peer_closed(struct side *s)
{
	lifted(s);
	shut(s, &s->peer);
}

static void reset(struct side *s)
{
	struct linger l = { 1, 0 };

	empty(s);
	NEED(!side_call(s, "setsockopt", s->peer, SOL_SOCKET, SO_LINGER,
			(long)&l, sizeof(l), 0));
	shut(s, &s->peer);
}

/* An option that needs the kernel's own TCP. */
static void home(struct side *s)
{
	lifted(s);
	option(s, s->fd, SOL_SOCKET, SO_RCVLOWAT, 2);
}

static void never(struct side *s)
{
	connected(s);
	option(s, s->fd, SOL_SOCKET, SO_RCVLOWAT, 2);
	turns(s, 2);
	unread(s);
	nonblock(s, s->fd);
}

const struct state states[] = {
	{ "fresh", fresh, false },
	{ "connecting", connecting, false },
	{ "refused", refused, false },
	{ "listening", listening, false },
	{ "on TCP", on_tcp, true },
	{ "first bytes", first_bytes, true },
	{ "switching", switching, true },
	{ "lifted, empty", empty, true },
	{ "lifted", lifted, true },
	{ "accepted", accepted, true },
	{ "shut for writing", shut_write, true },
	{ "shut for reading", shut_read, true },
	{ "shut", shut_both, true },
	{ "ended behind bytes", peer_shut, true },
	{ "ended", peer_ended, true },
	{ "closed by its peer", peer_closed, true },
	{ "reset", reset, true },
	{ "back on TCP", home, true },
	{ "kept on TCP", never, true },
};
const size_t nstates = sizeof(states) / sizeof(states[0]);

/* --- around them -------------------------------------------------------- */

void state_rest(struct side *s)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT, .data.u64 = 5 };
	char b[64];
	int pp[2];

	memset(b, 'f', sizeof(b));
	s->spare = SPARE + s->bare;
	s->file = memfd_create("file", MFD_CLOEXEC);
	NEED(s->file >= 0 && write(s->file, b, 64) == 64);
	NEED(!lseek(s->file, 0, SEEK_SET));
	NEED(!pipe2(pp, O_CLOEXEC | O_NONBLOCK));
	NEED(write(pp[1], b, 16) == 16);
	s->pipe_in = pp[0];
	s->pipe_out = pp[1];
	s->ep = (int)call(s, "epoll_create1", EPOLL_CLOEXEC, 0, 0);
	NEED(s->ep >= 0);
	NEED(!side_call(s, "epoll_ctl", s->ep, EPOLL_CTL_ADD, s->fd, (long)&ev,
			0, 0));
}

void state_end(struct side *s)
{
	shut(s, &s->fd);
	shut(s, &s->peer);
	shut(s, &s->queued);
	shut(s, &s->listener);
	shut(s, &s->ep);
	shut(s, &s->spare);
	shut(s, &s->file);
	shut(s, &s->pipe_in);
	shut(s, &s->pipe_out);
}

size_t state_drain(struct side *s, uint8_t *buf, size_t n)
{
	size_t done = 0;
	long got;

	while (done < n) {
		got = side_call(s, "recv", s->fd, (long)(buf + done),
				(long)(n - done), MSG_DONTWAIT, 0, 0);
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

static int ready(const struct side *s)
{
	struct pollfd p = { .fd = s->fd,
			    .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };

	NEED(call(s, "poll", (long)&p, 1, 0) >= 0);
	return p.revents;
}

bool state_settled(struct side *a, struct side *b, int *left, int *right)
{
	struct timespec ms = { 0, 1000000 };
	int i;

	for (i = 0; i < 2000; i++) {
		*left = ready(a);
		*right = ready(b);
		if (*left == *right)
			return true;
		nanosleep(&ms, NULL);
	}
	return false;
}

long state_unread(const struct side *s)
{
	int n = 0;
	long ret = call(s, "ioctl", s->fd, FIONREAD, (long)&n);

	return ret ? ret : n;
}
