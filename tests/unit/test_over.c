/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A receive where the stream goes over from one carrier to the other gives what
 * a look has shown, and a look shows what has come.
 */
#include <sys/epoll.h>

#include "both_util.h"

static void sees(const char *bytes)
{
	char buf[64];
	ssize_t n =
		sock_recv(&sock, fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);

	assert_int_equal(n, strlen(bytes));
	assert_memory_equal(buf, bytes, strlen(bytes));
}

/* It may sleep, and must not. */
static void gets(const char *bytes)
{
	char buf[64];
	ssize_t n = sock_recv(&sock, fd, buf, sizeof(buf), 0);

	assert_int_equal(n, strlen(bytes));
	assert_memory_equal(buf, bytes, strlen(bytes));
}

static void gets_nothing(void)
{
	char byte;

	assert_int_equal(sock_recv(&sock, fd, &byte, 1, MSG_DONTWAIT), -EAGAIN);
}

/* --- from the ring to the anchor ------------------------------------------ */

static void in_ring_and_behind(void)
{
	lifts();
	gets_nothing();
	arrives("abc");
	stalls();
	says("tail");
}

static void t_spill(void **state)
{
	(void)state;
	in_ring_and_behind();
	sees("abctail");
	gets("abctail");
	gets_nothing();
}

static void t_nothing_behind(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	stalls();
	gets("abc");
	says("tail");
	gets("tail");
}

/* The first of them is full in the middle of what lies on the anchor. */
static void t_vector(void **state)
{
	char a[5], b[10];
	struct iovec v[] = { { a, sizeof(a) }, { b, sizeof(b) } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	(void)state;
	in_ring_and_behind();
	assert_int_equal(sock_recvmsg(&sock, fd, &m, 0), 7);
	assert_memory_equal(a, "abcta", 5);
	assert_memory_equal(b, "il", 2);
}

/* Control messages belong to the bytes of one carrier. */
static void t_control(void **state)
{
	char a[16], room[256];
	struct iovec v = { a, sizeof(a) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	int flags;

	for (flags = 0; flags <= MSG_DONTWAIT; flags += MSG_DONTWAIT) {
		in_ring_and_behind();
		m.msg_control = room;
		m.msg_controllen = sizeof(room);
		m.msg_flags = MSG_CTRUNC;
		assert_int_equal(sock_recvmsg(&sock, fd, &m, flags), 3);
		assert_int_equal(m.msg_controllen, 0);
		assert_int_equal(m.msg_flags, 0);
		gets("tail");
		tear_down(state);
		sock.rd ? two_hosts(state) : one_host(state);
	}
	/* one that waits for all gets both, and none of them */
	in_ring_and_behind();
	v.iov_len = 7;
	m.msg_controllen = sizeof(room);
	m.msg_flags = MSG_CTRUNC;
	assert_int_equal(sock_recvmsg(&sock, fd, &m, MSG_WAITALL), 7);
	assert_int_equal(m.msg_controllen, 0);
	assert_int_equal(m.msg_flags, 0);
}

/* A kick lies in front of the rest, and was counted before it is there. */
static void t_kick_to_come(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	anc_kick(writer.dir, &writer.at);
	stalls();
	gets("abc");
	on_anchor("", 1);
	says("tail");
	gets("tail");
}

/* The end behind it is the next receive's. */
static void t_end(void **state)
{
	(void)state;
	in_ring_and_behind();
	assert_int_equal(shutdown(writer.fd, SHUT_WR), 0);
	gets("abctail");
	gets("");
}

/* DisConn, and the writer leaves the ring; its FIN is to come. */
static void ends_in_ring(void)
{
	struct conn_offer offer = { .bytes = 0 };
	struct conn_op op;

	conn_shutdown(&writer.conn, 0, false);
	conn_next(&writer.conn, 0, &offer, sizeof(came[0]), &op);
	assert_int_equal(op.type, CONN_SEND);
	memcpy(came[ncame], op.hdr, op.hdr_len);
	came_len[ncame] = op.hdr_len;
	__atomic_store_n(&ncame, ncame + 1, __ATOMIC_RELEASE);
}

static void found(void)
{
	struct sock_ready r;

	sock_ready(&sock, fd, EPOLLIN, &r);
	assert_int_equal(r.ours & r.now & (EPOLLIN | EPOLLRDHUP),
			 EPOLLIN | EPOLLRDHUP);
}

static void end_found(void)
{
	char byte;

	assert_int_equal(sock_recv(&sock, fd, &byte, 1, MSG_DONTWAIT), 0);
	found();
	assert_int_equal(
		sock_recv(&sock, fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT), 0);
	assert_int_equal(shutdown(writer.fd, SHUT_WR), 0);
	gets("");
	found();
}

/* An end that was reported is there while the kernel's FIN is on its way. */
static void t_end_before_fin(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	gets("abc");
	ends_in_ring();
	found();
	stalls();
	end_found();
}

/* The same where nothing has looked at the DisConn before. */
static void t_end_unseen(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	gets("abc");
	ends_in_ring();
	stalls();
	end_found();
}

/* --- from the anchor to the ring ------------------------------------------ */

static void t_lift(void **state)
{
	(void)state;
	says("head");
	assert_int_equal(anc_switch(writer.dir, &writer.at, true), 1);
	told();
	arrives("abc");
	sees("headabc");
	gets("headabc");
}

/* And back, before anything has looked. */
static void t_both(void **state)
{
	(void)state;
	says("head");
	assert_int_equal(anc_switch(writer.dir, &writer.at, true), 1);
	told();
	arrives("abc");
	stalls();
	says("tail");
	gets("headabctail");
}

/* --- within the ring ------------------------------------------------------ */

/* One that does nothing but look sees what comes behind bytes seen before. */
static void t_look(void **state)
{
	(void)state;
	lifts();
	gets_nothing();
	arrives("abc");
	sees("abc");
	arrives("de");
	sees("abcde");
	arrives("f");
	sees("abcdef");
	gets("abcdef");
}

#define CASE(name, where) \
	cmocka_unit_test_setup_teardown(name, where, tear_down)
#define BOTH(name) CASE(name, one_host), CASE(name, two_hosts)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(t_spill),
		BOTH(t_nothing_behind),
		BOTH(t_vector),
		BOTH(t_control),
		BOTH(t_end),
		CASE(t_end_before_fin, one_host),
		CASE(t_end_unseen, one_host),
		CASE(t_kick_to_come, one_host),
		CASE(t_lift, one_host),
		CASE(t_both, one_host),
		BOTH(t_look),
	};
	const struct sock_hooks lent = { .recv = recv,
					 .recvmsg = recvmsg,
					 .ppoll = ppoll };

	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
