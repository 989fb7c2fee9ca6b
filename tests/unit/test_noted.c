/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A notification of MSG_ZEROCOPY that went ahead of its bytes is one send's,
 * however many threads send on TCP by then.
 */
#include "sent_util.h"
#include "tcp_util.h"

#include <errno.h>

static int fd[2], calls, noted, other, refused;

static ssize_t one(void)
{
	return sock_send(&sock, fd[0], "x", 1, MSG_ZEROCOPY | MSG_DONTWAIT);
}

/* While the kernel is in one send, `other` threads more begin theirs. */
static ssize_t kernel_send(int to, const void *p, size_t n, int flags)
{
	assert_int_equal(to, fd[0]);
	assert_non_null(p);
	if (other) {
		other--;
		assert_int_equal(one(), 1);
	}
	if (refused) {
		refused--;
		errno = EAGAIN;
		return -1;
	}
	calls++;
	noted += !!(flags & MSG_ZEROCOPY);
	return (ssize_t)n;
}

static int set_up(void **state)
{
	int on = 1;

	(void)state;
	lifted_sock();
	memset(&hooks, 0, sizeof(hooks));
	hooks.send = kernel_send;
	sock.id.phase = PH_CONNECTED;
	sock.seek.look = LOOK_NEVER;
	sock.tx->state = ANC_TCP;
	sock.zc.least = SIZE_MAX;
	calls = noted = other = refused = 0;
	tcp_pair(fd);
	return setsockopt(fd[0], SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on));
}

static int tear_down(void **state)
{
	(void)state;
	close(fd[0]);
	close(fd[1]);
	return 0;
}

static void t_none(void **state)
{
	(void)state;
	other = 1;
	assert_int_equal(one(), 1);
	assert_int_equal(calls, 2);
	assert_int_equal(noted, 2);
}

static void t_one(void **state)
{
	(void)state;
	sock.told = 1;
	other = 2;
	assert_int_equal(one(), 1);
	assert_int_equal(calls, 3);
	assert_int_equal(noted, 2);
	assert_int_equal(sock.told, 0);
}

/* It stays the socket's where its send is refused. */
static void t_refused(void **state)
{
	(void)state;
	sock.told = 1;
	refused = 1;
	assert_int_equal(one(), -EAGAIN);
	assert_int_equal(sock.told, 1);
	assert_int_equal(one(), 1);
	assert_int_equal(noted, 0);
	assert_int_equal(one(), 1);
	assert_int_equal(noted, 1);
}

static bool told(void)
{
	struct msghdr m = { .msg_flags = 0 };

	return recvmsg(fd[0], &m, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0;
}

/* The ring was full when the notification would have gone. */
static void t_room(void **state)
{
	(void)state;
	sock.tx->state = ANC_LIFTED;
	sock.at.y = ANC_OPEN;
	sock.paired = true;
	late = 1;
	assert_int_equal(one(), 1);
	holds(0, (const uint8_t *)"x", 1);
	assert_true(told());
	assert_false(told());
	assert_int_equal(sock.told, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(t_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_room, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
