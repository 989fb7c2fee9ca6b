/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Socket diagnosis of real TCP sockets, and the hidden descriptors. */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "socket/core/pair.h"

struct tcp {
	int listener, a, b; /* connecting, accepted or -1 */
};

static void tcp_connect(struct tcp *t)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(sin);

	t->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	t->a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	t->b = -1;
	assert_int_equal(bind(t->listener, (void *)&sin, len), 0);
	assert_int_equal(listen(t->listener, 5), 0);
	assert_int_equal(getsockname(t->listener, (void *)&sin, &len), 0);
	assert_int_equal(connect(t->a, (void *)&sin, len), 0);
}

static void tcp_accept(struct tcp *t)
{
	t->b = accept(t->listener, NULL, NULL);
	assert_true(t->b >= 0);
}

static void tcp_close(struct tcp *t)
{
	close(t->listener);
	close(t->a);
	if (t->b >= 0)
		close(t->b);
}

static uint64_t cookie_of(int fd)
{
	uint64_t v = 0;
	socklen_t len = sizeof(v);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &v, &len), 0);
	return v;
}

static uint64_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static void test_facts(void **state)
{
	struct diag d, early;
	struct tcp t;

	(void)state;
	tcp_connect(&t);
	assert_int_equal(diag_peer(t.a, &early), 0);
	assert_int_equal(early.inode, 0);
	assert_int_equal(early.state, TCP_ESTABLISHED);
	tcp_accept(&t);
	assert_int_equal(send(t.a, "hello", 5, 0), 5);
	assert_int_equal(diag_peer(t.a, &d), 0);
	assert_true(d.cookie == cookie_of(t.b) && d.cookie == early.cookie);
	assert_int_equal(d.inode, inode_of(t.b));
	assert_int_equal(d.uid, getuid());
	assert_int_equal(d.rqueue, 5);
	assert_int_equal(diag_peer(t.b, &d), 0);
	assert_true(d.cookie == cookie_of(t.a));
	assert_int_equal(d.inode, inode_of(t.a));
	assert_int_equal(d.rqueue, 0);
	tcp_close(&t);
}

static void test_absent(void **state)
{
	struct linger lg = { 1, 0 };
	struct diag_names n;
	struct diag d;
	struct tcp t;

	(void)state;
	assert_int_equal(diag_peer(-1, &d), -EBADF);
	tcp_connect(&t);
	tcp_accept(&t);
	assert_int_equal(diag_peer(t.listener, &d), -ENOTCONN);
	assert_int_equal(diag_names(t.a, &n), 0);
	assert_true(n.v4 && n.local_port != n.peer_port);
	assert_int_equal(diag_find(&n, false, &d), 0);
	assert_true(d.cookie == cookie_of(t.a));
	/* A reset leaves no socket; the listener's must not answer for it. */
	setsockopt(t.b, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	close(t.b);
	t.b = -1;
	assert_int_equal(diag_find(&n, true, &d), -ENOENT);
	tcp_close(&t);
}

static void *many(void *arg)
{
	const int *fd = arg;
	struct diag d;
	int i, bad = 0;

	for (i = 0; i < 2000; i++)
		bad += diag_peer(fd[0], &d) || d.inode != inode_of(fd[1]);
	return (void *)(intptr_t)bad;
}

static void test_threads(void **state)
{
	pthread_t th[4];
	struct tcp t[4];
	int fd[4][2], i;
	void *bad;

	(void)state;
	for (i = 0; i < 4; i++) {
		tcp_connect(&t[i]);
		tcp_accept(&t[i]);
		fd[i][0] = t[i].a;
		fd[i][1] = t[i].b;
		assert_int_equal(pthread_create(&th[i], NULL, many, fd[i]), 0);
	}
	for (i = 0; i < 4; i++) {
		pthread_join(th[i], &bad);
		assert_null(bad);
		tcp_close(&t[i]);
	}
}

static int hidden_one(void)
{
	int fd;

	for (fd = 0; fd < FD_TOP; fd++)
		if (fd_hidden(fd) && fcntl(fd, F_GETFD) >= 0)
			return fd;
	return -1;
}

/* The program closes our descriptor and puts something else there. */
static void test_stolen(void **state)
{
	struct diag d;
	struct tcp t;
	int kept, p[2];
	char c;

	(void)state;
	tcp_connect(&t);
	tcp_accept(&t);
	assert_int_equal(diag_peer(t.a, &d), 0);
	kept = hidden_one();
	assert_true(kept > 100);
	assert_int_equal(fcntl(kept, F_GETFD), FD_CLOEXEC);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(dup2(p[1], kept), kept);
	close(p[1]);
	assert_int_equal(diag_peer(t.a, &d), 0);
	assert_true(fcntl(kept, F_GETFD) >= 0);
	assert_false(fd_hidden(kept) && hidden_one() == kept);
	close(kept);
	assert_int_equal(read(p[0], &c, 1), 0);
	close(p[0]);
	tcp_close(&t);
}

static void test_fork(void **state)
{
	struct diag d;
	struct tcp t;
	int i, status;
	pid_t pid;

	(void)state;
	tcp_connect(&t);
	tcp_accept(&t);
	assert_int_equal(diag_peer(t.a, &d), 0);
	pid = fork();
	if (!pid) {
		diag_forked();
		status = hidden_one() >= 0;
		for (i = 0; i < 3000; i++)
			status |= diag_peer(t.b, &d) ||
				  d.inode != inode_of(t.a);
		_exit(status);
	}
	for (i = 0; i < 3000; i++) {
		assert_int_equal(diag_peer(t.a, &d), 0);
		assert_int_equal(d.inode, inode_of(t.b));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	tcp_close(&t);
}

static void test_hide(void **state)
{
	struct rlimit old, few = { 256, 256 };
	int fd[256], n = 0, room = 0, low, i;

	(void)state;
	for (i = 192; i < 256; i++)
		room += fcntl(i, F_GETFD) < 0;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	low = dup(0);
	for (;;) {
		int d = dup(0);

		assert_int_equal(d, low + 1);
		d = fd_hide(d);
		if (d < 0) {
			assert_int_equal(d, -EMFILE);
			break;
		}
		assert_true(d >= 192 && fd_hidden(d));
		assert_int_equal(fcntl(d, F_GETFD), FD_CLOEXEC);
		fd[n++] = d;
	}
	assert_int_equal(n, room);
	for (i = 0; i < n; i++) {
		fd_unhide(fd[i]);
		assert_false(fd_hidden(fd[i]));
		close(fd[i]);
	}
	assert_false(fd_hidden(-1) || fd_hidden(FD_TOP) || fd_hidden(low));
	close(low);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hide),   cmocka_unit_test(test_facts),
		cmocka_unit_test(test_absent), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_stolen), cmocka_unit_test(test_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
