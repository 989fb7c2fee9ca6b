/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reader that sleeps in the kernel as its stream is lifted comes out by a byte
 * on the anchor, though the anchor takes none at the time.
 */
#include "both_util.h"

#include <linux/filter.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>

static uint64_t sent;

static void set(int sock_fd, int level, int option, const void *v,
		socklen_t len)
{
	assert_int_equal(setsockopt(sock_fd, level, option, v, len), 0);
}

/* From here on nothing is acknowledged, until drain_filled(). */
static void fill(void)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog all = { 1, &drop };
	int on = 1, small = 1;
	char buf[512] = "";
	ssize_t n;

	set(writer.fd, SOL_SOCKET, SO_ATTACH_FILTER, &all, sizeof(all));
	set(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	set(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	while ((n = sock_send(&sock, fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		sent += (uint64_t)n;
	assert_int_equal(n, -EAGAIN);
}

/* By the reader's count it has taken all: the stream is lifted. */
static void lift_filled(void)
{
	struct anc_rx reader = { 0 };

	sent = 0;
	fill();
	anc_taken(sock.tx, &reader, sent);
	sock.peer->ready = 1;
	sock.peer->counted = ANC_COUNTED_RX;
	lift_try_tx(&sock, fd);
	assert_int_equal(anc_state(sock.tx), ANC_LIFTED);
	/* the background thread counts one while it tries */
	assert_int_equal(lock_take(&sock.lock), 0);
	assert_int_equal(sock.tx->kicks, 0);
	lock_drop(&sock.lock);
}

static void drain(uint64_t n)
{
	const struct timeval limit = { .tv_sec = 10 };
	char buf[512];

	set(writer.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	while (n) {
		ssize_t got = recv(writer.fd, buf,
				   n < sizeof(buf) ? n : sizeof(buf), 0);

		assert_true(got > 0);
		n -= (uint64_t)got;
	}
}

/* All of it comes, and is acknowledged. */
static void drain_filled(void)
{
	int none = 0, left, naps = 0;

	set(writer.fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
	drain(sent);
	while (!ioctl(fd, SIOCOUTQ, &left) && left) {
		assert_true(naps++ < 10000);
		usleep(1000);
	}
}

/* A message was put into the ring. */
static void puts_message(void)
{
	assert_int_equal(lock_take(&sock.lock), 0);
	ring_reader(&sock, fd);
	lock_drop(&sock.lock);
}

static void one_kick(void)
{
	char more;

	drain(1);
	assert_int_equal(__atomic_load_n(&sock.tx->kicks, __ATOMIC_SEQ_CST), 1);
	assert_int_equal(recv(writer.fd, &more, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void t_next_message(void **state)
{
	(void)state;
	lift_filled();
	puts_message();
	assert_int_equal(sock.tx->kicks, 0);
	drain_filled();
	puts_message();
	one_kick();
	puts_message();
	assert_int_equal(sock.tx->kicks, 1);
}

/* No message follows. */
static void t_background(void **state)
{
	(void)state;
	assert_int_equal(service_start(), 0);
	service_add(&sock);
	lift_filled();
	drain_filled();
	one_kick();
	service_del(&sock);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, one_host, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(t_next_message),
		CASE(t_background),
	};
	const struct sock_hooks lent = {
		.recv = recv, .send = send, .sendmsg = sendmsg, .ppoll = ppoll
	};

	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
