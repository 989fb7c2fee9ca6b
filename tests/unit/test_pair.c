/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rendezvous over real TCP sockets: both ends in one thread and in two
 * processes.
 */

#include "pair_util.h"

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
	assert_int_equal(b.q.p.why, WHY_PEER_DECLINED);
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
			assert_int_equal(b.q.p.why, WHY_PEER_DECLINED);
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
			poll(&pfd, 1, 100000);
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
		assert_int_equal(poll(&pfd, 1, 100000), 1);
		step(&b.o);
	}
	assert_int_equal(b.o.p.state, PAIR_DONE);
	assert_int_equal(b.o.p.peer_pid, pid);
	pfd = (struct pollfd){ b.o.p.fd, POLLIN, 0 };
	assert_int_equal(poll(&pfd, 1, 100000), 1);
	assert_int_equal(read(b.o.p.fd, &c, 1), 1);
	assert_int_equal(((uint32_t *)shm_words(&b.o.p.seg))[5], 4711);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	drop(&b);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
