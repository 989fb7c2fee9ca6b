/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* io.c - bytes of one end, by all ways that Linux has for them */
#include "mixed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PIPE = 65536 };

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void tools_pipes(struct tools *t)
{
	if (pipe2(t->out_pipe, O_CLOEXEC | O_NONBLOCK) ||
	    pipe2(t->in_pipe, O_CLOEXEC | O_NONBLOCK)) {
		perror("mixed: pipes");
		abort();
	}
}

void tools_make(struct tools *t)
{
	t->out = mmap(NULL, 2 * BUFFER, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t->out == MAP_FAILED) {
		perror("mixed: memory");
		abort();
	}
	tools_pipes(t);
	t->in = t->out + BUFFER;
	/* All of it from the beginning on, so that what is used stays flat. */
	memset(t->out, 1, 2 * BUFFER);
}

void tools_free(struct tools *t)
{
	munmap(t->out, 2 * BUFFER);
	close(t->out_pipe[0]);
	close(t->out_pipe[1]);
	close(t->in_pipe[0]);
	close(t->in_pipe[1]);
}

/* Emptied; the pipe is the thread's, not the connection's. */
void piped_forget(struct side *s)
{
	ssize_t n = s->piped;

	if (n && read(s->tools->out_pipe[0], s->tools->out, (size_t)n) != n)
		wrong(s, "the pipe lacks bytes", n);
	s->piped = 0;
}

void progress(struct side *s)
{
	struct slot *o = &board->slot[s->at];

	o->tx = s->tx;
	o->rx = s->rx;
	o->step = s->step;
	__atomic_store_n(&o->since, now_ns(), __ATOMIC_RELEASE);
}

void doing(struct side *s, enum doing what)
{
	board->slot[s->at].doing = what;
	progress(s);
}

bool refused(void)
{
	if (errno != EAGAIN || board->without & WITHOUT_STOPS)
		return false;
	COUNT(refused, 1);
	return true;
}

void wrong(struct side *s, const char *what, long value)
{
	struct plan p;
	uint32_t none = 0;

	plan_of(&s->h, &p);
	/* What goes wrong behind the first is its fault. */
	if (__atomic_compare_exchange_n(&board->failed, &none, s->at + 1, false,
					__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		fprintf(stderr,
			"mixed: WRONG: %s (%ld) at the %s's end in process %d\n"
			"mixed: seed %llu, worker %u, round %u, connection %u, key %#llx\n"
			"mixed: step %u of %u, sent %llu, received %llu, dies %u, "
			"ending %u, first %u, %s\n",
			what, value, s->server ? "server" : "client",
			(int)getpid(), (unsigned long long)board->seed,
			s->h.worker, s->h.round, s->h.conn,
			(unsigned long long)s->h.key, s->step, p.steps,
			(unsigned long long)s->tx, (unsigned long long)s->rx,
			p.dies, p.ending, p.first,
			s->moved ? "moved" : "at home");
	/* The watch looks at both ends, and ends all. */
	for (;;)
		pause();
}

/* What came from byte `bad` of a call on, and where that belongs. */
static void tell_bytes(const struct side *s, uint64_t off, size_t bad, size_t n)
{
	const uint8_t *p = s->tools->in + bad;
	uint64_t end = off + (64u << 20), at;
	char where[64] = "of neither direction";
	int dir;

	for (dir = 0; dir < 2 && n - bad >= 16; dir++)
		if (pattern_find(s->h.key, dir, end, p, &at))
			snprintf(where, sizeof(where), "of offset %llu%s",
				 (unsigned long long)at,
				 dir == !s->server ? "" : ", other direction");
	fprintf(stderr,
		"mixed: a call at offset %llu: %zu bytes, wrong from byte %zu on: "
		"%02x %02x %02x %02x, %s\n",
		(unsigned long long)off, n, bad, p[0], p[1], p[2], p[3], where);
}

static void check(struct side *s, uint64_t off, size_t n)
{
	size_t bad =
		pattern_differs(s->h.key, !s->server, off, s->tools->in, n);

	if (bad == n)
		return;
	tell_bytes(s, off, bad, n);
	wrong(s, "a wrong byte, at offset", (long)(off + bad));
}

static void piped_check(struct side *s, size_t n)
{
	ssize_t got = read(s->tools->in_pipe[0], s->tools->in, n);

	if (got != (ssize_t)n)
		wrong(s, "the pipe lacks bytes", got);
	check(s, s->rx, n);
}

static void nonblock(struct side *s, bool on)
{
	int fl = fcntl(s->fd, F_GETFL);

	if (fl < 0 ||
	    fcntl(s->fd, F_SETFL, on ? fl | O_NONBLOCK : fl & ~O_NONBLOCK))
		wrong(s, "F_SETFL", errno);
	s->nonblock = on;
}

/* --- one call ------------------------------------------------------------- */

static unsigned int cut(struct iovec *v, uint8_t *p, size_t n)
{
	size_t a = n / 3, b = n / 2;

	v[0] = (struct iovec){ p, a };
	v[1] = (struct iovec){ p + a, b - a };
	v[2] = (struct iovec){ p + b, n - b };
	return 3;
}

/* A file of its own for each call: the kernel sends from its pages later. */
static ssize_t put_file(struct side *s, size_t n)
{
	int fd = memfd_create("mixed", MFD_CLOEXEC), err;
	off_t off = 0;
	ssize_t r = -1;

	if (fd < 0 || write(fd, s->tools->out, n) != (ssize_t)n)
		wrong(s, "no file to send", errno);
	r = sendfile(s->fd, fd, &off, n);
	err = errno;
	if (off != (r > 0 ? r : 0))
		wrong(s, "sendfile counts otherwise", (long)off);
	close(fd);
	errno = err;
	return r;
}

/* What does not go at once stays in the pipe for the next call. */
static ssize_t put_spliced(struct side *s, size_t n)
{
	ssize_t r;

	if (!s->piped) {
		n = n < PIPE ? n : PIPE;
		r = write(s->tools->out_pipe[1], s->tools->out, n);
		if (r <= 0)
			wrong(s, "the pipe is full", errno);
		s->piped = (uint32_t)r;
	}
	r = splice(s->tools->out_pipe[0], NULL, s->fd, NULL, s->piped,
		   s->nonblock ? SPLICE_F_NONBLOCK : 0);
	if (r > 0)
		s->piped -= (uint32_t)r;
	return r;
}

/* The next n bytes of the stream, or fewer. */
static ssize_t put(struct side *s, enum way way, size_t n)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v };

	if (s->piped)
		return put_spliced(s, n);
	pattern(s->h.key, (int)s->server, s->tx, s->tools->out, n);
	switch (way) {
	case READ_WRITE:
		return write(s->fd, s->tools->out, n);
	case VECTOR:
		return writev(s->fd, v, (int)cut(v, s->tools->out, n));
	case MESSAGE:
		m.msg_iovlen = cut(v, s->tools->out, n);
		return sendmsg(s->fd, &m, MSG_NOSIGNAL);
	case FILES:
		return put_file(s, n);
	case SPLICE:
		return put_spliced(s, n);
	default:
		return send(s->fd, s->tools->out, n, MSG_NOSIGNAL);
	}
}

static ssize_t get_peeked(struct side *s, size_t n)
{
	ssize_t r = recv(s->fd, s->tools->in, n, MSG_PEEK), again;

	if (r <= 0)
		return r;
	check(s, s->rx, (size_t)r);
	memset(s->tools->in, 0, (size_t)r);
	again = recv(s->fd, s->tools->in, (size_t)r, 0);
	if (again <= 0 && !(again && s->nonblock && refused()))
		wrong(s, "what was seen is not there", again ? errno : 0);
	return again;
}

static ssize_t get(struct side *s, enum way way, size_t n)
{
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v };
	ssize_t r;

	switch (way) {
	case READ_WRITE:
	case FILES:
		return read(s->fd, s->tools->in, n);
	case VECTOR:
		return readv(s->fd, v, (int)cut(v, s->tools->in, n));
	case MESSAGE:
		m.msg_iovlen = cut(v, s->tools->in, n);
		return recvmsg(s->fd, &m, 0);
	case PEEKS:
		return get_peeked(s, n);
	case ALL:
		return recv(s->fd, s->tools->in, n, MSG_WAITALL);
	case SPLICE:
		r = splice(s->fd, NULL, s->tools->in_pipe[1], NULL,
			   n < PIPE ? n : PIPE,
			   s->nonblock ? SPLICE_F_NONBLOCK : 0);
		if (r > 0)
			piped_check(s, (size_t)r);
		return r;
	default:
		return recv(s->fd, s->tools->in, n, 0);
	}
}

/* 1: some went, 0: none now, negative errno. */
static int outcome(struct side *s, ssize_t r, uint64_t *sum)
{
	if (r > 0) {
		*sum += (uint64_t)r;
		progress(s);
		return 1;
	}
	if (!r)
		return -ENODATA;
	if (errno == EINTR)
		return 1;
	if (errno == EAGAIN && s->nonblock)
		return 0;
	return -errno;
}

static size_t least(uint64_t a, uint64_t b)
{
	return (size_t)(a < b ? a : b);
}

static int put_some(struct side *s, const struct step *st, uint64_t end)
{
	enum way way = st->way[s->server];

	return outcome(s, put(s, way, least(end - s->tx, st->piece[s->server])),
		       &s->tx);
}

static int get_some(struct side *s, const struct step *st, uint64_t end)
{
	enum way way = st->way[s->server];
	size_t n = least(end - s->rx, st->piece[s->server]);
	ssize_t r;

	memset(s->tools->in, 0, n < 64 ? n : 64);
	r = get(s, way, n);
	if (r > (ssize_t)n)
		wrong(s, "more bytes than asked for", r);
	if (r > 0 && way != SPLICE)
		check(s, s->rx, (size_t)r);
	return outcome(s, r, &s->rx);
}

/* --- waiting -------------------------------------------------------------- */

static void wait_select(struct side *s, bool in, bool out)
{
	fd_set r, w;

	FD_ZERO(&r);
	FD_ZERO(&w);
	if (in)
		FD_SET(s->fd, &r);
	if (out)
		FD_SET(s->fd, &w);
	if (select(s->fd + 1, &r, &w, NULL, NULL) < 0 && errno != EINTR)
		wrong(s, "select", errno);
}

/* Room for one, and a mark behind it. */
static void wait_epoll(struct side *s, int ep, bool in, bool out, bool edge)
{
	struct epoll_event e[2], mark;
	int n;

	memset(&mark, 0xa5, sizeof(mark));
	e[1] = mark;
	e[0] = (struct epoll_event){ .events = (in ? EPOLLIN : 0u) |
					       (out ? EPOLLOUT : 0u) };
	if (!edge && epoll_ctl(ep, EPOLL_CTL_MOD, s->fd, e))
		wrong(s, "EPOLL_CTL_MOD", errno);
	n = epoll_wait(ep, e, 1, -1);
	if (n < 0 && errno != EINTR)
		wrong(s, "epoll_wait", errno);
	if (n > 1 || memcmp(&e[1], &mark, sizeof(mark)))
		wrong(s, "epoll_wait tells more than there is room for", n);
}

/* Without a limit, so that what is not told is seen: the watch has one. */
static void wait_ready(struct side *s, enum waits how, int ep, bool in,
		       bool out)
{
	struct pollfd p = { s->fd,
			    (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0)),
			    0 };

	switch (how) {
	case SELECTS:
		wait_select(s, in, out);
		break;
	case EPOLLS:
	case EPOLL_EDGE:
		wait_epoll(s, ep, in, out, how == EPOLL_EDGE);
		break;
	default:
		if (poll(&p, 1, how == POLLS_TIMED ? 20 : -1) < 0 &&
		    errno != EINTR)
			wrong(s, "poll", errno);
		break;
	}
}

static int set_make(struct side *s, enum waits how)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT };
	int ep;

	if (how != EPOLLS && how != EPOLL_EDGE)
		return -1;
	if (how == EPOLL_EDGE)
		e.events |= EPOLLET;
	ep = epoll_create1(EPOLL_CLOEXEC);
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &e))
		wrong(s, "an epoll set", errno);
	return ep;
}

/* An edge is only waited for when both ways have said that there is no more. */
static int move_ready(struct side *s, const struct step *st, uint64_t tx,
		      uint64_t rx, enum waits how, int ep)
{
	int r = 0;

	while (s->tx < tx || s->rx < rx) {
		bool some = false;

		if (s->tx < tx) {
			r = put_some(s, st, tx);
			if (r < 0)
				return r;
			some = r > 0;
		}
		if (s->rx < rx) {
			r = get_some(s, st, rx);
			if (r < 0)
				return r;
			some |= r > 0;
		}
		if (!some)
			wait_ready(s, how, ep, s->rx < rx, s->tx < tx);
	}
	return 0;
}

int move(struct side *s, const struct step *st, uint64_t tx, uint64_t rx)
{
	enum waits how = st->wait[s->server];
	bool both = s->tx < tx && s->rx < rx;
	int r = 0, ep;

	if (s->tx >= tx && s->rx >= rx)
		return 0;
	doing(s, both ? BOTH_WAYS : s->tx < tx ? SENDING : RECEIVING);
	if (how == BLOCKS && both)
		how = POLLS;
	nonblock(s, how != BLOCKS);
	if (how != BLOCKS) {
		ep = set_make(s, how);
		r = move_ready(s, st, tx, rx, how, ep);
		if (ep >= 0)
			close(ep);
		return r;
	}
	while (r >= 0 && s->tx < tx)
		r = put_some(s, st, tx);
	while (r >= 0 && s->rx < rx)
		r = get_some(s, st, rx);
	return r < 0 ? r : 0;
}

int at_end(struct side *s)
{
	uint8_t c;
	ssize_t r;

	doing(s, FOR_END);
	nonblock(s, false);
	do
		r = read(s->fd, &c, 1);
	while (r < 0 && errno == EINTR);
	if (r > 0)
		wrong(s, "a byte behind the last one", c);
	return r ? -errno : 0;
}
