/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What one wait of the kernel's says of one connection in two events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <unistd.h>

#include "preload/epoll/epset.h"
#include "ready_util.h"

#define WORD 0xfeedfacecafebeefull

/*
 * A connection whose bytes come by the kernel begins to be lifted: the ring
 * rings, and says of the bytes that they are there, while the same wait has
 * their edge, which counts for what is still the kernel's only.
 */
static void t_rises(void **state)
{
	const uint32_t both = EPOLLIN | EPOLLOUT;
	struct sock *s = fake_new();
	int ep = ep_born(epoll_create1(0));

	(void)state;
	fake_pair(s);
	s->ours = s->now = 0;
	assert_int_equal(set_ctl(ep, EPOLL_CTL_ADD, s->fd,
				 both | EPOLLRDHUP | (uint32_t)EPOLLET, WORD),
			 0);
	assert_int_equal(set_one(ep, WORD, 0), EPOLLOUT);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	assert_int_equal(send(s->wake_peer, "", 1, 0), 1);
	assert_int_equal(write(s->peer, "x", 1), 1);
	s->ours = s->now = EPOLLIN;
	assert_int_equal(set_one(ep, WORD, 0), both);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	fake_close(s);
	ep_fd_closing(ep, NULL, false);
	close(ep);
	assert_int_equal(ep_nregs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_rises),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
