/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reset is told once, as on TCP, whichever knows of it first: the kernel's
 * anchor, or the library of a peer that is gone with bytes unread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket/life/life.h"
#include "tcp_util.h"

static struct sock sock;
static struct anc_page page;
static int fd, peer;

static int setup(void **state)
{
	int pair[2];

	(void)state;
	tcp_pair(pair);
	fd = pair[0];
	peer = pair[1];
	memset(&sock, 0, sizeof(sock));
	memset(&page, 0, sizeof(page));
	sock.end = &rdma_nowhere;
	sock.stats.row = &sock_spare;
	sock.stats.row_pid = sock_pid;
	sock.id.phase = PH_CONNECTED;
	sock.seek.look = LOOK_NEVER;
	sock.waits.wake = sock.waits.orphan_fd = -1;
	sock.mem.holder[0] = (struct holder){ .pid = sock_pid, .fds = 1 };
	sock.mem.holder[0].fd = fd;
	sock.rx = &page.dir[0];
	sock.tx = &page.dir[1];
	sock.own = &page.side[0];
	sock.peer = &page.side[1];
	sock.paired = true;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(fd);
	return 0;
}

/* What we sent by the ring was not read, and the peer's process is gone. */
static void leaves_unread(void)
{
	page.dir[1].state = ANC_LIFTED;
	sock.at.sent = 100;
	sock.peer_gone = true;
}

/* Has the kernel end the anchor, by RST or in order. */
static void ends(bool reset)
{
	struct linger lg = { reset, 0 };

	assert_int_equal(
		setsockopt(peer, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)), 0);
	assert_int_equal(close(peer), 0);
}

static void told_reset_then_end(void)
{
	char byte;
	int i;

	assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), -ECONNRESET);
	for (i = 0; i < 3; i++)
		assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), 0);
}

static void test_both_know(void **state)
{
	(void)state;
	leaves_unread();
	ends(true);
	told_reset_then_end();
}

static void test_kernel_knows(void **state)
{
	(void)state;
	ends(true);
	told_reset_then_end();
}

static void test_library_knows(void **state)
{
	(void)state;
	leaves_unread();
	ends(false);
	told_reset_then_end();
}

/* Between hosts its word may be here before the RST, which then comes too. */
static void test_kernel_hears_later(void **state)
{
	char byte;

	(void)state;
	leaves_unread();
	page.dir[0].state = ANC_LIFTED;
	assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), -ECONNRESET);
	page.dir[0].state = ANC_TCP;
	ends(true);
	assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), 0);
}

static void test_kernel_hears_later_of_a_send(void **state)
{
	(void)state;
	leaves_unread();
	page.dir[0].state = ANC_LIFTED;
	assert_int_equal(sock_send(&sock, fd, "", 1, MSG_NOSIGNAL),
			 -ECONNRESET);
	page.dir[1].state = ANC_TCP;
	ends(true);
	assert_int_equal(sock_send(&sock, fd, "", 1, MSG_NOSIGNAL), -EPIPE);
}

/* A reset that we were told of, and the kernel tells no more: not EPIPE yet. */
static void test_send_after_ours(void **state)
{
	(void)state;
	ends(true);
	assert_int_equal(tcp_sink(&sock, fd, (char[1]){ 0 }, 1), -ECONNRESET);
	assert_int_equal(sock_send(&sock, fd, "", 1, MSG_NOSIGNAL),
			 -ECONNRESET);
	assert_int_equal(sock_send(&sock, fd, "", 1, MSG_NOSIGNAL), -EPIPE);
}

/* The queue pair's word of it is here, and the kernel has not heard of it. */
static void test_fabric_knows(void **state)
{
	const uint32_t all = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP;
	struct sock_ready ready;
	char byte;

	(void)state;
	leaves_unread();
	page.dir[0].state = ANC_LIFTED;
	sock.conn.error = -ECONNRESET;
	sock_ready(&sock, fd, 0, &ready);
	assert_int_equal(ready.now & (all | EPOLLERR), all | EPOLLERR);
	assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), -ECONNRESET);
	sock_ready(&sock, fd, 0, &ready);
	assert_int_equal(ready.now & (all | EPOLLERR), all);
	assert_int_equal(ready.ours & EPOLLERR, EPOLLERR);
	assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), 0);
	close(peer);
}

/* The kernel tells it to a kick of ours, unasked. */
static void test_kick(void **state)
{
	struct sock_ready ready;

	(void)state;
	page.dir[1].state = ANC_LIFTED;
	sock.at.y = ANC_OPEN;
	ends(true);
	assert_true(ring_told(&sock, fd) < 0);
	page.dir[1].state = ANC_TCP;
	sock_ready(&sock, fd, 0, &ready);
	assert_true(ready.now & EPOLLERR);
	told_reset_then_end();
}

/*
 * The peer's last process was killed and had read all but a kick: by that the
 * kernel says reset, where TCP ends in order.
 */
static void kick_is_left(void)
{
	page.dir[0].state = page.dir[1].state = ANC_LIFTED;
	page.dir[0].y = page.dir[1].y = sock.at.y = ANC_OPEN;
	sock.at.sent = page.dir[1].taken = 5;
	sock.at.kicks = page.dir[1].kicks = 1;
	sock.peer_gone = true;
	assert_int_equal(send(fd, "k", 1, 0), 1);
}

static void test_kick_left(void **state)
{
	int i, error = -1;
	socklen_t len = sizeof(error);
	char byte;

	(void)state;
	kick_is_left();
	ends(false);
	for (i = 0; i < 3; i++)
		assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), 0);
	assert_int_equal(sock_getsockopt(&sock, fd, SOL_SOCKET, SO_ERROR,
					 &error, &len),
			 0);
	assert_int_equal(error, 0);
}

/* One direction was lifted; that its library is gone shows a moment later. */
static void test_kick_left_one_way(void **state)
{
	int wake[2], i;
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, wake), 0);
	kick_is_left();
	page.dir[0].state = ANC_TCP;
	sock.peer_gone = false;
	sock.waits.wake = wake[0];
	ends(false);
	assert_int_equal(close(wake[1]), 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), 0);
	close(wake[0]);
}

/* What it had sent did not come: no end. */
static void test_kick_left_with_bytes(void **state)
{
	(void)state;
	kick_is_left();
	page.dir[0].sent = 1;
	ends(false);
	told_reset_then_end();
}

static void test_kick_left_by_a_reset(void **state)
{
	(void)state;
	kick_is_left();
	page.side[1].reset = 1;
	ends(true);
	told_reset_then_end();
}

/*
 * Bytes are on their way by the anchor, and a look for them is told of its end.
 */
static void test_look(void **state)
{
	char byte;
	int i;

	(void)state;
	page.dir[0].state = ANC_SWITCHING;
	page.dir[0].x = 10;
	page.dir[0].y = ANC_OPEN;
	ends(true);
	assert_int_equal(sock_recv(&sock, fd, &byte, 1, MSG_PEEK), -ECONNRESET);
	for (i = 0; i < 3; i++)
		assert_int_equal(sock_recv(&sock, fd, &byte, 1, MSG_PEEK), 0);
}

/*
 * We had sent an urgent byte, on the anchor, where its reader took it beside
 * the stream. The peer has ended in order, with bytes for us in the ring or
 * none.
 */
static void urgent(void **state, enum anc_state tx, enum anc_state rx)
{
	struct sock_ready ready;
	char byte;

	page.dir[0].state = rx;
	page.dir[1].state = tx;
	sock.own->urgent = 1;
	sock.at.sent = 1;
	sock.peer_gone = true;
	ends(false);
	do
		sock_ready(&sock, fd, 0, &ready);
	while (rx && ready.ms >= 0);
	assert_int_equal(ready.now & (EPOLLERR | EPOLLHUP), 0);
	assert_int_equal(sock_recv(&sock, fd, &byte, 1, 0), 0);
	assert_false(sock.eos.rst_told);
	tear_down(state);
	setup(state);
}

static void test_urgent(void **state)
{
	urgent(state, ANC_TCP, ANC_TCP);
	urgent(state, ANC_TCP, ANC_LIFTED);
	urgent(state, ANC_GONE, ANC_TCP);
	urgent(state, ANC_GONE, ANC_LIFTED);
}

/* What was not read went by the anchor: the kernel tells, or nothing. */
static void test_anchor_unread(void **state)
{
	struct sock_ready ready;

	(void)state;
	page.dir[0].state = ANC_LIFTED;
	sock.at.sent = 100;
	sock.peer_gone = true;
	ends(true);
	do
		sock_ready(&sock, fd, 0, &ready);
	while (ready.ms >= 0);
	assert_int_equal(ready.now & (EPOLLERR | EPOLLHUP),
			 EPOLLERR | EPOLLHUP);
	told_reset_then_end();
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, tear_down)

int main(void)
{
	const struct sock_hooks lent = { .recv = recv, .send = send };
	const struct CMUnitTest tests[] = {
		TEST(test_both_know),
		TEST(test_kernel_knows),
		TEST(test_library_knows),
		TEST(test_urgent),
		TEST(test_fabric_knows),
		TEST(test_kick),
		TEST(test_kick_left),
		TEST(test_kick_left_one_way),
		TEST(test_kick_left_with_bytes),
		TEST(test_kick_left_by_a_reset),
		TEST(test_look),
		TEST(test_anchor_unread),
		TEST(test_kernel_hears_later),
		TEST(test_send_after_ours),
		TEST(test_kernel_hears_later_of_a_send),
	};

	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
