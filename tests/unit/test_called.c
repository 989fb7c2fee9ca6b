/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What says on the anchor that the queue pair is broken is seen (mend.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

#include "socket/rdma.h"

#define TAKEN 4 /* bytes of the token */

static struct anc_dir dir;
static struct rdma rdma;
static struct sock sock;
static int peer;

static void say(const void *p, size_t n)
{
	assert_int_equal(write(peer, p, n), n);
}

/* Lifted, and the rest of the token and a record lie on the anchor. */
static int set_up(void **state)
{
	static const uint8_t token[RDMA_TOKEN] = "sixteen bytes!!";
	static const uint8_t secret[RESUME_SECRET] = "sixteen others!";
	uint8_t rec[RESUME_RECORD];
	int fd[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	memset(&dir, 0, sizeof(dir));
	memset(&rdma, 0, sizeof(rdma));
	memset(&sock, 0, sizeof(sock));
	dir.state = ANC_LIFTED;
	rdma.state = RDMA_UP;
	rdma.token_wait = rdma.called = true;
	memcpy(rdma.token_rx, token, sizeof(token));
	memcpy(rdma.secret_rx, secret, sizeof(secret));
	sock.rx = &dir;
	sock.rd = &rdma;
	sock.ghost = fd[0];
	peer = fd[1];
	resume_record(rec, secret, 0);
	say(token + TAKEN, sizeof(token) - TAKEN);
	say(rec, sizeof(rec));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(sock.ghost);
	close(peer);
	return 0;
}

static void t_seen(void **state)
{
	(void)state;
	sock.ar.bells = TAKEN;
	assert_true(mend_look(&sock));
	assert_false(rdma.called);
}

/*
 * A receive of before the lift has the token's beginning, or all of it, and has
 * not counted it: what is looked at now is judged wrong, and nothing more comes
 * that would have it looked at again.
 */
static void t_receive(void **state)
{
	(void)state;
	dir.rawrx = 1;
	assert_false(mend_look(&sock));
	assert_true(rdma.called);
	sock.ar.bells = TAKEN;
	dir.rawrx = 0;
	assert_true(mend_look(&sock));
}

static void t_in_front(void **state)
{
	(void)state;
	sock.ar.bells = TAKEN;
	dir.x = 10;
	assert_false(mend_look(&sock));
	assert_true(rdma.called);
	sock.ar.taken = 10;
	assert_true(mend_look(&sock));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(t_seen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_receive, set_up, tear_down),
		cmocka_unit_test_setup_teardown(t_in_front, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
