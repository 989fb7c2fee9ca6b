/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rendezvous over real TCP sockets: both ends in one thread, in two
 * processes, and with a liar in the middle of the unix socket.
 */

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "socket/pair.h"

#define TRIES	   5
#define RING	   65536u
#define ASK_LEN	   120
#define ANSWER_LEN 264
/* Offsets inside PAIR and PAIRED. */
enum {
	AT_MAGIC = 0,
	AT_VERSION = 8,
	AT_COOKIE = 16,
	AT_SEEN = 24,
	AT_SIZE = 56,
	AT_HELLO = 64
};

struct side {
	int fd;
	struct pair p;
	struct conn c;
	struct conn_params cp;
};

struct both {
	int listener;
	struct side o, q; /* offering, answering */
};

static int fds_open(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void side_init(struct side *s, int fd)
{
	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->p.fd = -1;
	s->p.ring = RING;
	s->p.service = 0x1234u + (uint64_t)fd;
	s->cp = (struct conn_params){
		.rcv_size = SHM_MSG_MAX,
		.posted = SHM_DEPTH,
		.max_adverts = 4,
	};
}

static enum pair_state step(struct side *s)
{
	return pair_step(&s->p, s->fd, &s->c, &s->cp, TRIES);
}

/* A TCP connection; `to` as text, the listener bound to `on`. */
static int tcp(struct both *b, const char *on, const char *to)
{
	struct sockaddr_in6 l6 = { .sin6_family = AF_INET6 }, c6 = l6;
	struct sockaddr_in l4 = { .sin_family = AF_INET }, c4 = l4;
	bool lv6 = strchr(on, ':'), cv6 = strchr(to, ':');
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int zero = 0, fd, other;

	b->listener = socket(lv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
	if (b->listener < 0)
		return -1;
	if (lv6) {
		setsockopt(b->listener, IPPROTO_IPV6, IPV6_V6ONLY, &zero,
			   sizeof(zero));
		inet_pton(AF_INET6, on, &l6.sin6_addr);
	} else {
		inet_pton(AF_INET, on, &l4.sin_addr);
	}
	if (bind(b->listener, lv6 ? (void *)&l6 : (void *)&l4,
		 lv6 ? sizeof(l6) : sizeof(l4)) ||
	    listen(b->listener, 4) ||
	    getsockname(b->listener, (void *)&ss, &len)) {
		close(b->listener);
		return -1;
	}
	c6.sin6_port = c4.sin_port = ((struct sockaddr_in *)&ss)->sin_port;
	fd = socket(cv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
	if (cv6)
		inet_pton(AF_INET6, to, &c6.sin6_addr);
	else
		inet_pton(AF_INET, to, &c4.sin_addr);
	assert_int_equal(connect(fd, cv6 ? (void *)&c6 : (void *)&c4,
				 cv6 ? sizeof(c6) : sizeof(c4)),
			 0);
	other = accept(b->listener, NULL, NULL);
	assert_true(other >= 0);
	side_init(&b->o, fd);
	side_init(&b->q, other);
	return 0;
}

static void begin(struct both *b)
{
	struct side x;

	assert_int_equal(pair_begin(&b->o.p, b->o.fd), WHY_NONE);
	assert_int_equal(pair_begin(&b->q.p, b->q.fd), WHY_NONE);
	assert_true(b->o.p.offering != b->q.p.offering);
	if (!b->o.p.offering) {
		x = b->o;
		b->o = b->q;
		b->q = x;
	}
	assert_int_equal(b->o.p.name_len, b->q.p.name_len);
	assert_memory_equal(&b->o.p.name, &b->q.p.name, b->o.p.name_len);
}

static void local(struct both *b)
{
	assert_int_equal(tcp(b, "127.0.0.1", "127.0.0.1"), 0);
	begin(b);
}

static void side_drop(struct side *s)
{
	pair_cancel(&s->p);
	if (s->p.fd >= 0) {
		fd_unhide(s->p.fd);
		close(s->p.fd);
	}
	shm_unmap(&s->p.seg);
	close(s->fd);
}

static void drop(struct both *b)
{
	side_drop(&b->o);
	side_drop(&b->q);
	close(b->listener);
}

/* Both are DONE: the pieces fit together. */
static void check_done(struct side *o, struct side *q)
{
	struct shm_end a, b;
	struct fab_msg m;
	char *p, c;

	assert_true(o->p.key == q->p.key && o->p.key);
	assert_int_equal(o->p.seg.len, q->p.seg.len);
	assert_int_equal(o->c.state, CONN_EST);
	assert_int_equal(q->c.state, CONN_EST);
	assert_true(o->c.credits == SHM_DEPTH && q->c.credits == SHM_DEPTH);
	assert_true(o->p.peer_service == q->p.service);
	assert_true(q->p.peer_service == o->p.service);
	assert_int_equal(o->p.peer_pid, getpid());
	assert_true(fd_hidden(o->p.fd) && fd_hidden(q->p.fd));
	assert_true(fcntl(o->p.fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(q->p.fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(write(o->p.fd, "x", 1), 1);
	assert_int_equal(read(q->p.fd, &c, 1), 1);
	shm_end_init(&a, &q->p.seg, true, q->p.key);
	shm_end_init(&b, &o->p.seg, false, o->p.key);
	p = shm_ops.buf(&a.end, 30);
	memcpy(p + 16, "fourteen bytes", 14);
	assert_int_equal(shm_ops.send(&a.end, 30, false), 0);
	assert_int_equal(shm_ops.poll(&b.end, &m), 1);
	assert_memory_equal(m.mem + 16, "fourteen bytes", 14);
}

static void meet(const char *on, const char *to)
{
	int before = fds_open();
	struct both b;

	if (tcp(&b, on, to))
		return; /* no IPv6 here */
	begin(&b);
	/* The answering end is early: refused, and tries again. */
	assert_int_equal(step(&b.q), PAIR_PROBING);
	assert_int_equal(step(&b.o), PAIR_OFFERED);
	assert_int_equal(step(&b.o), PAIR_OFFERED);
	assert_int_equal(step(&b.q), PAIR_ASKED);
	assert_int_equal(step(&b.q), PAIR_ASKED);
	assert_int_equal(step(&b.o), PAIR_DONE);
	assert_int_equal(step(&b.q), PAIR_DONE);
	assert_int_equal(step(&b.q), PAIR_DONE);
	assert_int_equal(b.q.p.tries, 1);
	check_done(&b.o, &b.q);
	assert_int_equal(b.o.p.names.ipv,
			 strchr(to, ':') && to[2] != 'f' ? 6 : 4);
	drop(&b);
	/* The netlink socket of the first diagnosis stays. */
	assert_true(fds_open() <= before + 1);
}

static void test_meet(void **state)
{
	(void)state;
	meet("127.0.0.1", "127.0.0.1");
	meet("127.0.0.1", "127.0.0.1");
	meet("0.0.0.0", "127.0.0.9");
	meet("0.0.0.0", "0.0.0.0");
	meet("::1", "::1");
	meet("::", "::1");
	meet("::", "127.0.0.1"); /* v4 client of a dual-stack listener */
	meet("::", "::ffff:127.0.0.1");
}

static void test_own_addresses(void **state)
{
	struct ifaddrs *all = NULL, *i;
	char text[64];

	(void)state;
	assert_int_equal(getifaddrs(&all), 0);
	for (i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
			continue;
		inet_ntop(
			AF_INET,
			&((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr,
			text, sizeof(text));
		meet("0.0.0.0", text);
	}
	freeifaddrs(all);
}

static void test_begin_refuses(void **state)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(sin);
	struct side s;
	int fd = socket(AF_INET, SOCK_STREAM, 0), sv[2];

	(void)state;
	side_init(&s, fd);
	assert_int_equal(pair_begin(&s.p, fd), WHY_CLOSED);
	assert_int_equal(bind(fd, (void *)&sin, len), 0);
	assert_int_equal(getsockname(fd, (void *)&sin, &len), 0);
	assert_int_equal(connect(fd, (void *)&sin, len), 0);
	assert_int_equal(pair_begin(&s.p, fd), WHY_SELF);
	close(fd);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	assert_int_not_equal(pair_begin(&s.p, sv[0]), WHY_NONE);
	close(sv[0]);
	close(sv[1]);
}

/* A socket of another network namespace never meets one of this. */
static void test_netns(void **state)
{
	struct both b;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(tcp(&b, "127.0.0.1", "127.0.0.1"), 0);
	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWNET))
			_exit(77);
		diag_forked();
		_exit(pair_begin(&b.o.p, b.o.fd) == WHY_NONE);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(status == 0 || WEXITSTATUS(status) == 77);
	begin(&b);
	drop(&b);
}

static void test_plain_peer(void **state)
{
	struct both b;
	int i;

	(void)state;
	local(&b);
	for (i = 1; i < TRIES; i++)
		assert_int_equal(step(&b.q), PAIR_PROBING);
	assert_int_equal(step(&b.q), PAIR_FAILED);
	assert_int_equal(b.q.p.why, WHY_PEER_PLAIN);
	assert_int_equal(b.q.p.fd, -1);
	assert_int_equal(step(&b.q), PAIR_FAILED);
	drop(&b);
}

static void test_cancel(void **state)
{
	int before, i;
	struct both b;

	(void)state;
	local(&b);
	before = fds_open();
	for (i = 0; i < 3; i++) {
		assert_int_equal(step(&b.o), PAIR_OFFERED);
		if (i)
			assert_int_equal(step(&b.q), PAIR_ASKED);
		pair_cancel(&b.o.p);
		if (i == 1) {
			assert_int_equal(step(&b.q), PAIR_FAILED);
			assert_int_equal(b.q.p.why, WHY_PEER_PLAIN);
			side_init(&b.q, b.q.fd);
			assert_int_equal(pair_begin(&b.q.p, b.q.fd), 0);
		}
		pair_cancel(&b.q.p);
		assert_int_equal(fds_open(), before);
		assert_null(b.q.p.seg.mem);
	}
	assert_int_equal(step(&b.o), PAIR_OFFERED);
	assert_int_equal(step(&b.q), PAIR_ASKED);
	assert_int_equal(step(&b.o), PAIR_DONE);
	pair_cancel(&b.o.p); /* not its business any more */
	assert_int_equal(b.o.p.state, PAIR_DONE);
	drop(&b);
}

static void test_processes(void **state)
{
	struct pollfd pfd;
	struct both b;
	int status, i;
	pid_t pid;
	char c;

	(void)state;
	local(&b);
	assert_int_equal(step(&b.o), PAIR_OFFERED);
	pid = fork();
	if (!pid) {
		diag_forked();
		pair_cancel(&b.o.p);
		close(b.o.fd);
		for (i = 0; step(&b.q) == PAIR_ASKED && i < 1000; i++) {
			pfd = (struct pollfd){ b.q.p.fd, POLLIN, 0 };
			poll(&pfd, 1, 5000);
		}
		if (b.q.p.state != PAIR_DONE)
			_exit(1);
		((uint32_t *)shm_words(&b.q.p.seg))[5] = 4711;
		_exit(write(b.q.p.fd, "!", 1) != 1);
	}
	close(b.q.fd);
	b.q.fd = -1;
	for (i = 0; b.o.p.state == PAIR_OFFERED && i < 1000; i++) {
		pfd = (struct pollfd){ b.o.p.fd, POLLIN, 0 };
		assert_int_equal(poll(&pfd, 1, 5000), 1);
		step(&b.o);
	}
	assert_int_equal(b.o.p.state, PAIR_DONE);
	assert_int_equal(b.o.p.peer_pid, pid);
	pfd = (struct pollfd){ b.o.p.fd, POLLIN, 0 };
	assert_int_equal(poll(&pfd, 1, 5000), 1);
	assert_int_equal(read(b.o.p.fd, &c, 1), 1);
	assert_int_equal(((uint32_t *)shm_words(&b.o.p.seg))[5], 4711);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	drop(&b);
}

/* --- strangers and liars ----------------------------------------------- */

static void test_name_taken(void **state)
{
	struct both b;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	local(&b);
	assert_int_equal(bind(fd, (void *)&b.o.p.name, b.o.p.name_len), 0);
	assert_int_equal(step(&b.o), PAIR_FAILED);
	assert_int_equal(b.o.p.why, WHY_NAME_TAKEN);
	close(fd);
	drop(&b);
}

/* Another user listens on the name, or answers an offer. */
static void stranger(bool listens)
{
	int go[2], status, fd;
	struct both b;
	pid_t pid;
	char c;

	local(&b);
	assert_int_equal(pipe(go), 0);
	if (!listens)
		assert_int_equal(step(&b.o), PAIR_OFFERED);
	pid = fork();
	if (!pid) {
		if (setuid(4242))
			_exit(77);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		status = listens ? bind(fd, (void *)&b.o.p.name,
					b.o.p.name_len) ||
					   listen(fd, 1) :
				   connect(fd, (void *)&b.o.p.name,
					   b.o.p.name_len);
		if (write(go[1], status ? "n" : "y", 1) != 1 || status)
			_exit(1);
		close(go[1]);
		fd = listens ? accept(fd, NULL, NULL) : fd;
		_exit(read(fd, &c, 1) != 0); /* not one byte for it */
	}
	close(go[1]);
	assert_int_equal(read(go[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	assert_int_equal(step(listens ? &b.q : &b.o), PAIR_FAILED);
	assert_int_equal((listens ? &b.q : &b.o)->p.why, WHY_OWNER);
	close(go[0]);
	drop(&b);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_strangers(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	stranger(true);
	stranger(false);
}

/* Take the message of the real other end off the unix socket. */
static int grab(int fd, uint8_t *buf, size_t size, int *memfd)
{
	char ctl[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buf, size };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = ctl,
			    .msg_controllen = sizeof(ctl) };
	int n = (int)recvmsg(fd, &m, 0);

	if (CMSG_FIRSTHDR(&m))
		memcpy(memfd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return n;
}

static void pass(int fd, const uint8_t *buf, size_t len, const int *fds, int n)
{
	char ctl[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		size_t bytes = (size_t)n * sizeof(int);

		m.msg_control = ctl;
		m.msg_controllen = CMSG_SPACE(bytes);
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, bytes);
	}
	assert_int_equal(sendmsg(fd, &m, 0), (int)len);
}

/* What the liar does to PAIR: `at` gets changed, or the descriptors. */
enum trick { FLIP = 0, CUT, NO_FD, MANY_FDS, UNSEALED, SHORT, HANG_UP };

static enum reason lie_to_offer(enum trick what, size_t at)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), fd, fds[4], n = 1;
	uint8_t msg[512];
	struct both b;
	enum reason why;
	int before;

	local(&b);
	before = fds_open();
	assert_int_equal(bind(listener, (void *)&b.o.p.name, b.o.p.name_len),
			 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(step(&b.q), PAIR_ASKED);
	fd = accept(listener, NULL, NULL);
	assert_int_equal(grab(fd, msg, sizeof(msg), &fds[0]), ASK_LEN);
	close(fd);
	close(listener);
	assert_int_equal(step(&b.o), PAIR_OFFERED);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (void *)&b.o.p.name, b.o.p.name_len), 0);
	if (what == FLIP)
		msg[at] ^= 0x10;
	if (what == NO_FD)
		n = 0;
	if (what == MANY_FDS)
		for (; n < 4; n++)
			fds[n] = dup(fds[0]);
	if (what == UNSEALED || what == SHORT) {
		close(fds[0]);
		fds[0] = memfd_create("x", MFD_ALLOW_SEALING);
		assert_int_equal(ftruncate(fds[0], (off_t)b.q.p.seg.len -
							   (what == SHORT)),
				 0);
		if (what == SHORT)
			assert_int_equal(fcntl(fds[0], F_ADD_SEALS,
					       F_SEAL_SHRINK | F_SEAL_GROW |
						       F_SEAL_SEAL),
					 0);
	}
	if (what != HANG_UP)
		pass(fd, msg, what == CUT ? ASK_LEN - 1 : ASK_LEN, fds, n);
	while (n)
		close(fds[--n]);
	if (what == NO_FD || what == HANG_UP)
		close(fds[0]);
	if (what == HANG_UP) {
		assert_int_equal(step(&b.o), PAIR_OFFERED);
		close(fd);
	}
	step(&b.o);
	why = b.o.p.why;
	assert_int_equal(b.o.p.state, why ? PAIR_FAILED : PAIR_DONE);
	if (what != HANG_UP)
		close(fd);
	assert_int_equal(step(&b.q), PAIR_FAILED);
	if (why)
		assert_int_equal(fds_open(), before - 1);
	drop(&b);
	return why;
}

static void test_lies_to_offer(void **state)
{
	const size_t nowhere = 500;

	(void)state;
	assert_int_equal(lie_to_offer(FLIP, nowhere), WHY_NONE);
	assert_int_equal(lie_to_offer(FLIP, AT_MAGIC), WHY_PROTOCOL);
	assert_int_equal(lie_to_offer(FLIP, AT_VERSION), WHY_PROTOCOL);
	assert_int_equal(lie_to_offer(FLIP, AT_COOKIE), WHY_OWNER);
	assert_int_equal(lie_to_offer(FLIP, AT_SEEN), WHY_OWNER);
	assert_int_equal(lie_to_offer(FLIP, AT_SIZE), WHY_BAD_SEGMENT);
	assert_int_equal(lie_to_offer(FLIP, AT_SIZE + 7), WHY_BAD_SEGMENT);
	assert_int_equal(lie_to_offer(FLIP, AT_HELLO), WHY_BAD_HELLO);
	assert_int_equal(lie_to_offer(FLIP, AT_HELLO + 28), WHY_BAD_HELLO);
	assert_int_equal(lie_to_offer(FLIP, AT_HELLO + 32), WHY_BAD_HELLO);
	assert_int_equal(lie_to_offer(CUT, 0), WHY_PROTOCOL);
	assert_int_equal(lie_to_offer(NO_FD, 0), WHY_PROTOCOL);
	assert_int_equal(lie_to_offer(MANY_FDS, 0), WHY_PROTOCOL);
	assert_int_equal(lie_to_offer(UNSEALED, 0), WHY_BAD_SEGMENT);
	assert_int_equal(lie_to_offer(SHORT, 0), WHY_BAD_SEGMENT);
	assert_int_equal(lie_to_offer(HANG_UP, 0), WHY_PEER_PLAIN);
}

/* A liar between the answering end and its PAIRED. */
static enum reason lie_to_answer(enum trick what, size_t at)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), q, o, memfd;
	uint8_t msg[512];
	enum reason why;
	struct both b;

	local(&b);
	assert_int_equal(bind(listener, (void *)&b.o.p.name, b.o.p.name_len),
			 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(step(&b.q), PAIR_ASKED);
	q = accept(listener, NULL, NULL);
	assert_int_equal(grab(q, msg, sizeof(msg), &memfd), ASK_LEN);
	close(listener);
	assert_int_equal(step(&b.o), PAIR_OFFERED);
	o = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(o, (void *)&b.o.p.name, b.o.p.name_len), 0);
	pass(o, msg, ASK_LEN, &memfd, 1);
	close(memfd);
	assert_int_equal(step(&b.o), PAIR_DONE);
	assert_int_equal(grab(o, msg, sizeof(msg), &memfd), ANSWER_LEN);
	if (what == FLIP)
		msg[at] ^= 0x10;
	if (what != HANG_UP)
		pass(q, msg, what == CUT ? ANSWER_LEN - 1 : ANSWER_LEN, NULL,
		     0);
	close(q);
	step(&b.q);
	why = b.q.p.why;
	assert_int_equal(b.q.p.state, why ? PAIR_FAILED : PAIR_DONE);
	close(o);
	drop(&b);
	return why;
}

static void test_lies_to_answer(void **state)
{
	(void)state;
	assert_int_equal(lie_to_answer(FLIP, 500), WHY_NONE);
	assert_int_equal(lie_to_answer(FLIP, AT_MAGIC), WHY_PROTOCOL);
	assert_int_equal(lie_to_answer(FLIP, AT_COOKIE), WHY_OWNER);
	assert_int_equal(lie_to_answer(FLIP, AT_SEEN), WHY_OWNER);
	/* The verdict: any reason of the list, nothing beyond it. */
	assert_int_equal(lie_to_answer(FLIP, AT_SIZE), 0x10);
	assert_int_equal(lie_to_answer(FLIP, AT_SIZE + 7), WHY_PROTOCOL);
	assert_int_equal(lie_to_answer(FLIP, AT_HELLO), WHY_BAD_HELLO);
	assert_int_equal(lie_to_answer(CUT, 0), WHY_PROTOCOL);
	assert_int_equal(lie_to_answer(HANG_UP, 0), WHY_PEER_PLAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_meet),
		cmocka_unit_test(test_own_addresses),
		cmocka_unit_test(test_begin_refuses),
		cmocka_unit_test(test_netns),
		cmocka_unit_test(test_plain_peer),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_name_taken),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_lies_to_offer),
		cmocka_unit_test(test_lies_to_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
