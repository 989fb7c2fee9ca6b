/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A call that takes several of the kernel's, with a signal that is put off
 * between two of them: its handler sends or receives behind what the call has
 * moved, and the call moves nothing more behind the handler.
 */
#include "both_util.h"

#include <signal.h>
#include <sys/uio.h>

#include "base/guard.h"
#include "base/sigdefer.h"

static int behind; /* the signal comes behind so many calls of the kernel's */
static char early[8]; /* what the handler received */
static ssize_t early_n;
static int hits;

static void came_behind(void)
{
	if (behind && !--behind)
		assert_int_equal(raise(SIGUSR1), 0);
}

static void h_recv(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)si;
	(void)context;
	hits++;
	early_n = sock_recv(&sock, fd, early, 1, MSG_DONTWAIT);
}

static void h_send(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)si;
	(void)context;
	hits++;
	early_n = sock_send(&sock, fd, "M", 1, MSG_DONTWAIT);
}

/* As preload does it. */
static void handler(void (*does)(int, siginfo_t *, void *))
{
	struct sigdefer_action a = { .handler = does, .flags = SA_RESTART };
	struct sigaction sa = { .sa_sigaction = sigdefer_entry,
				.sa_flags = SA_RESTART | SA_SIGINFO };

	sigdefer_set(SIGUSR1, &a);
	assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
	hits = 0;
	early_n = -1;
}

/* --- the kernel's calls, outside: three bytes go at a time --------------- */

static size_t least(size_t n)
{
	return n < 3 ? n : 3;
}

static ssize_t recv_some(int s, void *buf, size_t n, int flags)
{
	uint64_t was = guard_sleep();
	ssize_t ret = recv(s, buf, least(n), flags);

	guard_wake(was);
	came_behind();
	return ret;
}

static ssize_t recvmsg_some(int s, struct msghdr *m, int flags)
{
	return recv_some(s, m->msg_iov->iov_base, m->msg_iov->iov_len, flags);
}

static ssize_t sendmsg_all(int s, const struct msghdr *m, int flags)
{
	uint64_t was = guard_sleep();
	ssize_t ret = sendmsg(s, m, flags);

	guard_wake(was);
	came_behind();
	return ret;
}

/* --- receives ------------------------------------------------------------ */

/* The rest is not taken behind the byte of the handler. */
static void t_whole(void **state)
{
	char buf[8] = "";
	uint64_t was;

	(void)state;
	handler(h_recv);
	on_anchor("abcdef", 6);
	behind = 1;
	was = guard_enter();
	assert_int_equal(sock_recv(&sock, fd, buf, 6, MSG_WAITALL), 3);
	guard_leave(was);
	assert_memory_equal(buf, "abc", 4);
	assert_int_equal(hits, 1);
	assert_int_equal(early_n, 1);
	assert_int_equal(early[0], 'd');
	assert_int_equal(sock_recv(&sock, fd, buf, 6, 0), 2);
	assert_memory_equal(buf, "ef", 2);
}

/* The second message of a call. */
static void second(int flags, ssize_t told)
{
	char buf[8] = "";
	struct iovec v = { buf, 3 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	uint64_t was;

	handler(h_recv);
	on_anchor("abcdef", 6);
	was = guard_enter();
	assert_int_equal(sock_recvmsg(&sock, fd, &m, flags), 3);
	assert_int_equal(raise(SIGUSR1), 0);
	assert_int_equal(hits, 0);
	assert_int_equal(sock_recvmsg_next(&sock, fd, &m, flags), told);
	guard_leave(was);
	assert_int_equal(hits, 1);
}

static void t_second(void **state)
{
	(void)state;
	second(0, -EINTR);
	assert_int_equal(early_n, 1);
	assert_int_equal(early[0], 'd');
}

/* It does not sleep: the handler is behind the whole call. */
static void t_second_now(void **state)
{
	(void)state;
	second(MSG_DONTWAIT, 3);
	assert_int_equal(early_n, -EAGAIN);
}

/* --- sends --------------------------------------------------------------- */

static void t_send(void **state)
{
	char got[8] = "";
	struct iovec v = { (char *)"abc", 3 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	uint64_t was;

	(void)state;
	handler(h_send);
	was = guard_enter();
	assert_int_equal(sock_sendmsg(&sock, fd, &m, 0), 3);
	assert_int_equal(raise(SIGUSR1), 0);
	assert_int_equal(sock_sendmsg_next(&sock, fd, &m, 0), 3);
	assert_int_equal(hits, 0);
	guard_leave(was);
	assert_int_equal(hits, 1);
	assert_int_equal(early_n, 1);
	assert_int_equal(recv(writer.fd, got, sizeof(got), MSG_DONTWAIT), 7);
	assert_memory_equal(got, "abcabcM", 7);
}

/* ------------------------------------------------------------------------- */

#define CASE(name, where) \
	cmocka_unit_test_setup_teardown(name, where, tear_down)

#if defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#else
#define UNDER_SANITIZER 0
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(t_whole, one_host),      CASE(t_whole, two_hosts),
		CASE(t_second, one_host),     CASE(t_second, two_hosts),
		CASE(t_second_now, one_host), CASE(t_second_now, two_hosts),
		CASE(t_send, one_host),	      CASE(t_send, two_hosts),
	};
	const struct sock_hooks lent = {
		.recv = recv_some,
		.recvmsg = recvmsg_some,
		.send = send,
		.sendmsg = sendmsg_all,
		.ppoll = ppoll,
	};

	if (UNDER_SANITIZER)
		return 77; /* it puts signals off by itself */
	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
