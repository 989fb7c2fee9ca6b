/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is taken out of a pipe leaves at once: no byte goes back into it. */
#include "sent_util.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include "socket/stream/stream.h"

#define SIZE 200u

static uint8_t bytes[SIZE];
static int ends[2];

static int set_up(void **state)
{
	size_t i;

	(void)state;
	lifted_sock();
	for (i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7);
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	assert_int_equal(write(ends[1], bytes, SIZE), SIZE);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(ends[0]);
	close(ends[1]);
	return 0;
}

/* So many went, and the others are still there. */
static ssize_t goes(size_t n)
{
	struct load w = { .len = n, .by_pipe = true, .pipe = ends[0] };
	ssize_t went = load_from_pipe(&sock, &w);
	int left;

	assert_int_equal(ioctl(ends[0], FIONREAD, &left), 0);
	assert_int_equal(sock.conn.error, 0);
	assert_int_equal(left, SIZE - went);
	return went;
}

static void test_all(void **state)
{
	(void)state;
	assert_int_equal(goes(SIZE), SIZE);
	holds(0, bytes, SIZE);
}

static void test_part(void **state)
{
	(void)state;
	assert_int_equal(goes(10), 10);
	holds(0, bytes, 10);
}

static void test_full(void **state)
{
	(void)state;
	most = 0;
	assert_int_equal(goes(SIZE), 0);
}

/* What the peer asked for goes first, and takes the only room there is. */
static void test_control(void **state)
{
	struct wire_msg m;

	(void)state;
	sock.conn.want |= CONN_WANT_RCVACK;
	most = 1;
	assert_int_equal(goes(SIZE), 0);
	assert_int_equal(nsent, 1);
	assert_int_equal(wire_decode(sent[0], sent_len[0], &m), 0);
	assert_int_equal(m.mid, WIRE_RCVBUF_ACK);
	most = 2;
	assert_int_equal(goes(SIZE), SIZE);
	holds(1, bytes, SIZE);
}

/* Until a lift is confirmed a copy is kept, of no more than so many bytes. */
static void test_unconfirmed(void **state)
{
	(void)state;
	unconfirmed();
	rd.failover.kept->len = RDMA_KEPT - 24;
	assert_int_equal(goes(SIZE), 24);
	holds(0, bytes, 24);
	assert_int_equal(rd.failover.kept->len, RDMA_KEPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_part, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_control, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_unconfirmed, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
