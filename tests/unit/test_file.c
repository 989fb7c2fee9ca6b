/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bytes of a file in messages, without a buffer between them. */
#include "sent_util.h"

#include <stdlib.h>

#define SIZE 1000u

/* --- a sock with a file ---------------------------------------------------- */

static uint8_t bytes[SIZE];
static char path[] = "/tmp/test_file.XXXXXX";
static struct file_in file;
static bool reads; /* without waiting, as far as this file system goes */

static int set_up(void **state)
{
	struct iovec one = { bytes, 1 };
	size_t i;

	(void)state;
	lifted_sock();
	for (i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
	file = (struct file_in){ .fd = mkstemp(path) };
	assert_true(file.fd >= 0);
	assert_int_equal(write(file.fd, bytes, SIZE), SIZE);
	reads = preadv2(file.fd, &one, 1, 0, RWF_NOWAIT) == 1;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(file.fd);
	unlink(path);
	return 0;
}

static ssize_t goes(size_t n)
{
	struct cursor c = { .file = &file };

	return sock.rd ? failover_send(&sock, &c, n) : pump_send(&sock, &c, n);
}

/* Where the file cannot be read without waiting, nothing is begun. */
static bool refused(ssize_t ret)
{
	if (reads)
		return false;
	assert_int_equal(ret, 0);
	assert_true(file.stop);
	assert_int_equal(file.err, -EAGAIN);
	assert_int_equal(nsent, 0);
	return true;
}

static void test_part(void **state)
{
	ssize_t n;

	(void)state;
	file.at = 100;
	n = goes(500);
	if (refused(n))
		return;
	assert_int_equal(n, 500);
	assert_int_equal(file.at, 600);
	assert_false(file.stop);
	assert_int_equal(nsent, 2);
	holds(0, bytes + 100, 500);
	assert_int_equal(sock.tx->sent, 500);
}

static void test_end(void **state)
{
	ssize_t n;

	(void)state;
	file.at = SIZE - 10;
	n = goes(500);
	if (refused(n))
		return;
	assert_int_equal(n, 10);
	assert_true(file.stop);
	assert_int_equal(file.err, 0);
	holds(0, bytes + SIZE - 10, 10);
}

/*
 * It does not fit: what is left waits for room, and the file is not at fault.
 */
static void test_full(void **state)
{
	ssize_t n;

	(void)state;
	most = 2;
	n = goes(SIZE);
	if (refused(n))
		return;
	assert_int_equal(n, 2 * (ROOM - WIRE_BSDH));
	assert_false(file.stop);
	assert_int_equal(goes(SIZE), 0);
	assert_false(file.stop);
	most = MSGS;
	assert_int_equal(goes(SIZE), SIZE - n);
	holds(0, bytes, SIZE);
}

/*
 * A control message that is due goes first, and takes nothing of the file with
 * it.
 */
static void test_control(void **state)
{
	struct wire_msg m;
	ssize_t n;

	(void)state;
	sock.conn.want |= CONN_WANT_RCVACK; /* the peer asked */
	n = goes(20);
	assert_true(nsent > 0);
	assert_int_equal(wire_decode(sent[0], sent_len[0], &m), 0);
	assert_int_equal(m.mid, WIRE_RCVBUF_ACK);
	if (!reads)
		return;
	assert_int_equal(n, 20);
	assert_int_equal(nsent, 2);
	holds(1, bytes, 20);
}

static void test_error(void **state)
{
	(void)state;
	close(file.fd);
	file.fd = -1;
	assert_int_equal(goes(10), 0);
	assert_true(file.stop);
	assert_int_equal(file.err, -EBADF);
	assert_int_equal(nsent, 0);
}

/* Until a lift is confirmed a copy is kept: by way of a buffer, then. */
static void test_unconfirmed(void **state)
{
	(void)state;
	unconfirmed();
	assert_true(failover_room(&sock));
	assert_int_equal(goes(10), 0);
	assert_true(file.stop);
	assert_int_equal(file.err, -EAGAIN);
	assert_int_equal(nsent, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_part, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_control, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_error, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unconfirmed, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
