/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rendezvous of two ends on one host, where the other end is the right
 * process and says what it likes: each try ends agreed or refused, with no
 * descriptor and no mapping left behind.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket/peer/peer.h"

#define ASK_LEN	   120u
#define ANSWER_LEN 264u
#define TRIES	   2

const struct target target = { "pair", 100, 1000 };

/* A TCP connection of this process with itself, both ends of it begun. */
static struct side {
	int fd;
	struct pair begun, p;
	struct conn c;
	struct conn_params cp;
} offers, asks;
/* What the two said when nothing was changed. */
static uint8_t ask[ASK_LEN], answer[ANSWER_LEN];

static enum pair_state step(struct side *s)
{
	return pair_step(&s->p, s->fd, &s->c, &s->cp, TRIES);
}

static void renew(struct side *s)
{
	s->p = s->begun;
	memset(&s->c, 0, sizeof(s->c));
	s->cp = (struct conn_params){ .rcv_size = SHM_MSG_MAX,
				      .posted = SHM_DEPTH,
				      .max_adverts = 4 };
}

static void let_go(struct side *s)
{
	pair_cancel(&s->p);
	if (s->p.fd >= 0) {
		must(s->p.state == PAIR_DONE);
		fd_unhide(s->p.fd);
		close(s->p.fd);
	}
	must(!s->p.seg.mem || s->p.state == PAIR_DONE);
	shm_unmap(&s->p.seg);
}

/* What a stranger would do at the place where the two meet. */
static int at_meeting(int (*call)(int, const struct sockaddr *, socklen_t))
{
	struct sockaddr_un un;
	socklen_t len = pair_name(&offers.p, &un);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && !call(fd, (struct sockaddr *)&un, len));
	return fd;
}

/* One message with up to `n` descriptors. */
static void say(int fd, const uint8_t *buf, size_t len, const int *fds, int n)
{
	char ctl[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	size_t bytes = (size_t)n * sizeof(int);

	if (n) {
		m.msg_control = ctl;
		m.msg_controllen = CMSG_SPACE(bytes);
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, bytes);
	}
	if (len)
		must(sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)len);
}

/* A listener in place of the offering end; what comes there, or -1. */
static int hear(int listener, uint8_t *buf, size_t size, int *memfd)
{
	char ctl[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buf, size };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = ctl,
			    .msg_controllen = sizeof(ctl) };
	int fd = accept(listener, NULL, NULL);

	must(fd >= 0);
	must(recvmsg(fd, &m, 0) == (ssize_t)size && CMSG_FIRSTHDR(&m));
	memcpy(memfd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return fd;
}

static int listening(int fd, const struct sockaddr *sa, socklen_t len)
{
	return bind(fd, sa, len) || listen(fd, 1);
}

/* A segment as it should be, or one that is not. */
static int segment(struct input *in)
{
	uint8_t kind = in_byte(in);
	off_t size = 4096 + 2 * (off_t)SHM_RING_LOW + 2 * (off_t)SHM_KEEP;
	struct shm_seg s = { 0 };
	uint8_t head[24];
	int fd;

	if (!(kind & 1)) {
		fd = shm_make(&s, SHM_RING_LOW);
		shm_unmap(&s);
		return fd;
	}
	fd = memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(fd >= 0);
	if (kind & 2)
		size = (off_t)in_near(in, (uint64_t)size) & 0xfffffff;
	must(!ftruncate(fd, size));
	in_bytes(in, head, sizeof(head));
	must(pwrite(fd, head, sizeof(head), 0) >= 0);
	if (kind & 4)
		must(!fcntl(fd, F_ADD_SEALS, in_byte(in) & 15));
	return fd;
}

/* Some bytes of a message become others: an offset, a byte; 0xff ends it. */
static size_t lie(struct input *in, uint8_t *msg, size_t len)
{
	uint8_t at;

	while (in_more(in) && (at = in_byte(in)) != 0xff)
		if (at < 0xf0)
			msg[at % len] = in_byte(in);
		else
			return in_byte(in) % (len + 1);
	return len;
}

static void to_offer(struct input *in)
{
	uint8_t msg[ASK_LEN], kind = in_byte(in);
	int fds[4], n = 0, i, fd;
	enum pair_state st;
	size_t len;

	must(step(&offers) == PAIR_OFFERED);
	fd = at_meeting(connect);
	if (kind & 1)
		must(step(&offers) == PAIR_OFFERED);
	for (i = 0; i < (kind & 2 ? kind >> 2 & 3 : 1); i++)
		fds[n++] = segment(in);
	memcpy(msg, ask, sizeof(msg));
	len = lie(in, msg, sizeof(msg));
	say(fd, msg, len, fds, len ? n : 0);
	while (n)
		close(fds[--n]);
	if (!len)
		close(fd);
	st = step(&offers);
	must(st == PAIR_DONE || st == PAIR_FAILED);
	must((st == PAIR_DONE) == !offers.p.why);
	must(st != PAIR_DONE || offers.p.seg.mem);
	if (len)
		close(fd);
}

static void to_ask(struct input *in)
{
	int listener = at_meeting(listening), fd, memfd;
	uint8_t msg[ANSWER_LEN];
	enum pair_state st;
	size_t len;

	must(step(&asks) == PAIR_ASKED);
	fd = hear(listener, msg, ASK_LEN, &memfd);
	close(memfd);
	close(listener);
	memcpy(msg, answer, sizeof(msg));
	len = lie(in, msg, sizeof(msg));
	say(fd, msg, len, NULL, 0);
	if (!len)
		close(fd);
	st = step(&asks);
	must(st == PAIR_DONE || st == PAIR_FAILED);
	must((st == PAIR_DONE) == !asks.p.why);
	if (len)
		close(fd);
}

/* --- */

static void connect_both(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	int l = socket(AF_INET, SOCK_STREAM, 0), fd[2];
	struct side x;

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(!bind(l, (void *)&sa, len) && !listen(l, 1));
	must(!getsockname(l, (void *)&sa, &len));
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	must(!connect(fd[0], (void *)&sa, len));
	fd[1] = accept(l, NULL, NULL);
	must(fd[1] >= 0);
	close(l);
	offers.fd = fd[0];
	asks.fd = fd[1];
	offers.begun.ring = asks.begun.ring = SHM_RING_LOW;
	must(pair_begin(&offers.begun, offers.fd) == WHY_NONE);
	must(pair_begin(&asks.begun, asks.fd) == WHY_NONE);
	if (!offers.begun.offering) {
		x = offers;
		offers = asks;
		asks = x;
	}
}

/* Both do as they should, and what they say is written down. */
static void record(void)
{
	int listener, from, to, memfd;

	renew(&offers);
	renew(&asks);
	listener = at_meeting(listening);
	must(step(&asks) == PAIR_ASKED);
	from = hear(listener, ask, sizeof(ask), &memfd);
	close(listener);
	must(step(&offers) == PAIR_OFFERED);
	to = at_meeting(connect);
	say(to, ask, sizeof(ask), &memfd, 1);
	must(step(&offers) == PAIR_DONE);
	must(recv(to, answer, sizeof(answer), 0) == sizeof(answer));
	say(from, answer, sizeof(answer), NULL, 0);
	must(step(&asks) == PAIR_DONE);
	close(memfd);
	close(from);
	close(to);
	let_go(&offers);
	let_go(&asks);
}

/* The lowest free number: higher than before where one was left open. */
static int lowest(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

/* The library's own, of high numbers. */
static unsigned int hidden(void)
{
	unsigned int n = 0;
	int fd = -1;

	while ((fd = fd_hidden_next((unsigned int)(fd + 1))) >= 0)
		n++;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	static bool begun;
	unsigned int high;
	uint64_t maps;
	int fd;

	if (!begun) {
		connect_both();
		record();
		begun = true;
	}
	fd = lowest();
	high = hidden();
	maps = shm_account.maps;
	renew(&offers);
	renew(&asks);
	if (in_byte(&in) & 1)
		to_offer(&in);
	else
		to_ask(&in);
	let_go(&offers);
	let_go(&asks);
	must(lowest() == fd && shm_account.maps == maps);
	must(hidden() == high);
	return 0;
}
