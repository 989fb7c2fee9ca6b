/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a gate has to read (bridge_gate.c). */

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "socket/life/life.h"

static int gate, program;

static int connected(void **state)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	gate = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&sin, sizeof(sin)) ||
	    listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&sin, &len) ||
	    setsockopt(gate, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one)) ||
	    connect(gate, (struct sockaddr *)&sin, sizeof(sin)))
		return -1;
	program = accept(listener, NULL, NULL);
	return program < 0 ? -1 : close(listener);
}

static int closed(void **state)
{
	(void)state;
	return close(gate) | close(program);
}

static bool arrived(short what)
{
	struct pollfd p = { .fd = gate, .events = what };

	return poll(&p, 1, -1) == 1 && p.revents == what;
}

/* gate_peek() has this for its answer. */
static void shows(ssize_t n, bool urgent)
{
	bool was = !urgent;

	assert_int_equal(gate_peek(gate, 100, &was), n);
	assert_int_equal(was, urgent);
}

static void takes(const char *bytes)
{
	char buf[16];
	size_t n = strlen(bytes);

	assert_int_equal(recv(gate, buf, n, 0), n);
	assert_memory_equal(buf, bytes, n);
}

static void an_urgent_byte_is_alone(void **state)
{
	(void)state;
	shows(-EAGAIN, false);
	assert_int_equal(send(program, "before", 6, 0), 6);
	assert_int_equal(send(program, "!", 1, MSG_OOB), 1);
	assert_int_equal(send(program, "behind", 6, 0), 6);
	assert_int_equal(shutdown(program, SHUT_WR), 0);
	assert_true(arrived(POLLIN | POLLPRI));
	shows(6, false);
	takes("before");
	shows(1, true);
	takes("!");
	shows(6, false);
	takes("behind");
	shows(0, false);
}

/* Each receive of the watched thread: first an urgent byte arrives. */
static void *sends_first(void *listener)
{
	struct seccomp_notif n = { 0 };
	struct seccomp_notif_resp go = {
		.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE,
	};
	int fd = *(int *)listener;

	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &n) ||
	    send(program, "!", 1, MSG_OOB) != 1 || !arrived(POLLIN | POLLPRI))
		abort();
	go.id = n.id;
	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &go))
		abort();
	return NULL;
}

/* The first receive of this thread is held up; negative: it cannot be. */
static int watch(void)
{
	struct sock_filter is[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_recvfrom, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(is) / sizeof(is[0]), is };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
}

static void *looks(void *to)
{
	pthread_t other;
	int listener = watch();
	bool urgent = false;

	/* with the filter, but it receives nothing */
	if (listener < 0 ||
	    pthread_create(&other, NULL, sends_first, &listener))
		abort();
	*(bool *)to = gate_peek(gate, 100, &urgent) == 1 && urgent;
	pthread_join(other, NULL);
	close(listener);
	return NULL;
}

static void an_urgent_byte_comes_in_between(void **state)
{
	pthread_t watched;
	bool seen = false;

	(void)state;
	assert_int_equal(pthread_create(&watched, NULL, looks, &seen), 0);
	assert_int_equal(pthread_join(watched, NULL), 0);
	assert_true(seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_urgent_byte_is_alone,
						connected, closed),
		cmocka_unit_test_setup_teardown(an_urgent_byte_comes_in_between,
						connected, closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
