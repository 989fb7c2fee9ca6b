/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The order in which a set reports, beside a model of the kernel's ready list.
 * The model itself is held against the kernel, with members that are its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "preload/epoll/epset.h"
#include "ready_util.h"

#define ADD EPOLL_CTL_ADD
#define MOD EPOLL_CTL_MOD
#define DEL EPOLL_CTL_DEL
#define ET  ((uint32_t)EPOLLET)
#define ONE ((uint32_t)EPOLLONESHOT)

enum { N = 9 };

struct member {
	struct sock *s;
	bool cold; /* the kernel's */
	uint32_t mask;
	bool data, on; /* on the list */
	bool off; /* one-shot, delivered */
	int came; /* what can be told, the how manieth that came */
};

/*
 * The kernel's list. A level that is on it since it was reported, and has been
 * read, is found out by the next wait; until then what comes has its old place.
 * Of lifted members it is known at once, and what comes is last.
 */
enum kind { KERNEL, LIFTED, MIXED };

struct model {
	struct member m[N];
	int list[N], n;
	enum kind kind;
	int ep, came;
	int sends; /* through the kernel, since all was told */
	uint64_t seed;
};

static uint32_t rnd(struct model *w, uint32_t n)
{
	w->seed ^= w->seed << 13;
	w->seed ^= w->seed >> 7;
	w->seed ^= w->seed << 17;
	return (uint32_t)(w->seed >> 33) % n;
}

static void on(struct model *w, int i)
{
	if (w->m[i].on)
		return;
	w->m[i].came = w->came++;
	w->m[i].on = true;
	w->list[w->n++] = i;
}

static void off(struct model *w, int i)
{
	int at, to = 0;

	for (at = 0; at < w->n; at++)
		if (w->list[at] != i)
			w->list[to++] = w->list[at];
	w->n = to;
	w->m[i].on = false;
}

static void drained(struct model *w, int i)
{
	struct member *m = &w->m[i];
	char buf[4096];

	if (!m->cold) {
		fake_take(m->s);
		off(w, i);
	} else if (m->data) {
		assert_true(read(m->s->fd, buf, sizeof(buf)) > 0);
		m->s->read_at = stamp_now();
	}
	m->data = false;
}

static void waited(struct model *w, int max);

static void comes(struct model *w, int i)
{
	struct member *m = &w->m[i];

	/* it would be listed again if its first event was taken */
	if (w->kind == MIXED && m->cold && m->on)
		return;
	if (!m->cold) {
		fake_data(m->s);
	} else {
		/* the log has so many, and not those before */
		if (w->sends++ == STAMP_LOG)
			waited(w, N + 1);
		assert_int_equal(write(m->s->peer, "x", 1), 1);
		stamp_log_add(m->s->peer_port);
	}
	m->data = true;
	if (!m->off)
		on(w, i);
}

static void taken(struct model *w, int i)
{
	struct member *m = &w->m[i];

	drained(w, i);
	/* what comes next would have the place of what was read */
	if (w->kind == MIXED && m->cold && m->on)
		waited(w, N + 1);
}

/* EPOLL_CTL_MOD without a change, or of a one-shot that was delivered. */
static void modified(struct model *w, int i)
{
	struct member *m = &w->m[i];

	/* where among the others the unread is, is not known */
	if (w->kind == MIXED)
		taken(w, i);
	assert_int_equal(set_ctl(w->ep, MOD, m->s->fd, m->mask, (uint64_t)i),
			 0);
	m->off = false;
	if (m->data)
		on(w, i);
}

/* Deleted and added again. */
static void renewed(struct model *w, int i)
{
	struct member *m = &w->m[i];

	if (w->kind == MIXED && (!m->cold || m->off))
		taken(w, i);
	assert_int_equal(set_ctl(w->ep, DEL, m->s->fd, 0, 0), 0);
	off(w, i);
	assert_int_equal(set_ctl(w->ep, ADD, m->s->fd, m->mask, (uint64_t)i),
			 0);
	m->off = false;
	if (m->data)
		on(w, i);
}

/*
 * One writer, and members of both kinds: an order that it cannot have made is
 * wrong, but between two of the kernel's own.
 */
static void check_mixed(struct model *w, int max)
{
	struct epoll_event ev[64];
	int n, i, k, ready = 0;

	for (i = 0; i < N; i++)
		ready += w->m[i].data && !w->m[i].off;
	n = do_epoll_wait(w->ep, ev, max, 0);
	assert_int_equal(n, ready < max ? ready : max);
	for (k = 0; k < n; k++) {
		struct member *m = &w->m[ev[k].data.u64];

		assert_true(m->data);
		for (i = 0; i < N; i++)
			if (w->m[i].data && !w->m[i].off &&
			    w->m[i].came < m->came &&
			    !(m->cold && w->m[i].cold))
				fail_msg("%d before %d", (int)ev[k].data.u64,
					 i);
		drained(w, (int)ev[k].data.u64);
		off(w, (int)ev[k].data.u64);
		m->off = m->mask & ONE;
	}
	for (i = 0; i < N && max > N; i++)
		if (!w->m[i].data)
			off(w, i);
}

static void waited(struct model *w, int max)
{
	struct epoll_event ev[64];
	int n, i, got = 0, told[N];

	if (max > N)
		w->sends = 0;
	if (w->kind == MIXED) {
		check_mixed(w, max);
		return;
	}
	n = do_epoll_wait(w->ep, ev, max, 0);
	while (w->n && got < max) {
		i = w->list[0];
		off(w, i);
		if (w->m[i].data)
			told[got++] = i;
	}
	assert_int_equal(n, got);
	for (n = 0; n < got; n++) {
		struct member *m = &w->m[told[n]];

		if (ev[n].data.u64 != (uint64_t)told[n])
			fail_msg("place %d of %d: %d and not %d", n, got,
				 (int)ev[n].data.u64, told[n]);
		m->off = m->mask & ONE;
		if (!(m->mask & (ET | ONE)))
			on(w, told[n]);
	}
}

static void step(struct model *w)
{
	int i = (int)rnd(w, N);

	switch (rnd(w, 12)) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
		comes(w, i);
		break;
	case 5:
	case 6:
		taken(w, i);
		break;
	case 7:
		modified(w, i);
		break;
	case 8:
		if (!rnd(w, 4))
			renewed(w, i);
		break;
	default:
		waited(w,
		       rnd(w, 3) ? 1 + (int)rnd(w, rnd(w, 2) ? 2 : N + 1) : 64);
		break;
	}
}

static void walk(enum kind kind, uint64_t seed, int steps)
{
	static const uint32_t masks[] = { EPOLLIN, EPOLLIN | ET, EPOLLIN | ONE,
					  EPOLLIN };
	struct model w = { .kind = kind, .seed = seed * 0x9e3779b97f4a7c15 };
	int i;

	stamp_forked(); /* the same ports stand for others */
	rnd(&w, 1);
	w.ep = ep_born(epoll_create1(0));
	for (i = 0; i < N; i++) {
		w.m[i].s = fake_new();
		w.m[i].cold = kind == KERNEL || (kind == MIXED && i % 2);
		w.m[i].mask = masks[rnd(&w, 4)];
		/* a level that was read is not at once off the kernel's list */
		if (kind == MIXED && w.m[i].cold && w.m[i].mask == EPOLLIN)
			w.m[i].mask |= ET;
		assert_int_equal(set_ctl(w.ep, ADD, w.m[i].s->fd, w.m[i].mask,
					 (uint64_t)i),
				 0);
		w.m[i].s->peer_port = (uint16_t)(i + 1);
		if (!w.m[i].cold) {
			fake_pair(w.m[i].s);
			w.m[i].s->ours = EPOLLIN;
		}
	}
	for (i = 0; i < steps; i++)
		step(&w);
	for (i = 0; i < N; i++)
		fake_close(w.m[i].s);
	ep_fd_closing(w.ep, NULL, false);
	close(w.ep);
}

static void t_kernel(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 300; seed++)
		walk(KERNEL, seed, 300);
}

static void t_lifted(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 300; seed++)
		walk(LIFTED, seed, 300);
}

static void t_mixed(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 300; seed++)
		walk(MIXED, seed, 300);
}

/* --- what the model does not have ------------------------------------------ */

static int pair_of(struct sock **s, int ep, int n, uint32_t mask)
{
	int i;

	for (i = 0; i < n; i++) {
		s[i] = fake_new();
		assert_int_equal(set_ctl(ep, ADD, s[i]->fd, mask, (uint64_t)i),
				 0);
		fake_pair(s[i]);
		s[i]->ours = EPOLLIN;
	}
	return do_epoll_wait(ep, &(struct epoll_event){ 0 }, 1, 0);
}

static struct sock *first, *second;

static void both_come(void)
{
	fake_data(first);
	fake_data(second);
}

/*
 * One writer writes to two sockets while they are looked at, to the one that
 * was looked at already and then to the one that was not: the second is not
 * reported without the first.
 */
static void midst(int n, bool ready)
{
	struct sock *s[64];
	struct epoll_event ev[64];
	int ep = ep_born(epoll_create1(0)), i, got, seen = 0;

	assert_int_equal(pair_of(s, ep, n, EPOLLIN), 0);
	if (ready)
		fake_data(s[1]);
	first = s[0];
	second = s[n - 1];
	s[n / 2]->ms = 5; /* looked at for sure, from the next time on */
	ep_risen(s[n / 2]);
	assert_int_equal(do_epoll_wait(ep, ev, 64, 0), ready);
	fake_looked = both_come;
	fake_looked_at = s[n / 2];
	while (seen < 2) {
		got = do_epoll_wait(ep, ev, 64, 0);
		assert_true(got > 0);
		for (i = 0; i < got; i++) {
			if (ev[i].data.u64 == 1)
				continue;
			assert_int_equal(ev[i].data.u64, seen ? n - 1 : 0);
			seen++;
		}
		if (seen == 1)
			fake_take(first);
	}
	for (i = 0; i < n; i++)
		fake_close(s[i]);
	ep_fd_closing(ep, NULL, false);
	close(ep);
}

static void t_midst(void **state)
{
	(void)state;
	midst(6, false);
	midst(6, true);
	midst(64, false);
	midst(64, true);
}

/* Sets in a set are ready since the first of their members was. */
static void t_nested(void **state)
{
	struct sock *s[6];
	struct epoll_event ev[4];
	int out = ep_born(epoll_create1(0)), in[3], i, k;

	(void)state;
	for (i = 0; i < 3; i++) {
		in[i] = ep_born(epoll_create1(0));
		assert_int_equal(set_ctl(out, ADD, in[i], EPOLLIN, (uint64_t)i),
				 0);
		assert_int_equal(pair_of(s + 2 * i, in[i], 2, EPOLLIN), 0);
	}
	assert_int_equal(do_epoll_wait(out, ev, 4, 0), 0);
	for (k = 0; k < 12; k++) {
		int a = k % 3, b = (a + 1 + k / 3 % 2) % 3, c = 3 - a - b;

		fake_data(s[2 * a + k % 2]);
		fake_data(s[2 * b + 1]);
		fake_data(s[2 * c]);
		fake_data(s[2 * b]); /* later, which changes nothing */
		assert_int_equal(do_epoll_wait(out, ev, 4, 0), 3);
		assert_int_equal(ev[0].data.u64, a);
		assert_int_equal(ev[1].data.u64, b);
		assert_int_equal(ev[2].data.u64, c);
		for (i = 0; i < 6; i++)
			fake_take(s[i]);
		assert_int_equal(do_epoll_wait(out, ev, 4, 0), 0);
	}
	for (i = 0; i < 6; i++)
		fake_close(s[i]);
	for (i = 0; i < 3; i++) {
		ep_fd_closing(in[i], NULL, false);
		close(in[i]);
	}
	ep_fd_closing(out, NULL, false);
	close(out);
}

/* One direction is ours, the other the kernel's: one event, in any array. */
static void t_halves(void **state)
{
	struct sock *s[2];
	struct epoll_event ev[6];
	int ep = ep_born(epoll_create1(0)), max, n, i, seen;

	(void)state;
	pair_of(s, ep, 2, EPOLLIN | EPOLLOUT);
	for (i = 0; i < 2; i++)
		fake_data(s[i]);
	for (max = 1; max <= 6; max++) {
		n = do_epoll_wait(ep, ev, max, 0);
		assert_int_equal(n, max < 2 ? 1 : 2);
		for (i = 0, seen = 0; i < n; i++) {
			assert_int_equal(ev[i].events, EPOLLIN | EPOLLOUT);
			seen += 1 << ev[i].data.u64;
		}
		if (n == 2)
			assert_int_equal(seen, 3);
	}
	for (i = 0; i < 2; i++)
		fake_close(s[i]);
	ep_fd_closing(ep, NULL, false);
	close(ep);
}

/*
 * A connection is paired, but what comes is the kernel's still: that user space
 * finds nothing to read there does not say that there is nothing.
 */
static void t_between(void **state)
{
	struct sock *s[2];
	struct epoll_event ev[8];
	int ep = ep_born(epoll_create1(0)), max, i;
	char byte;

	(void)state;
	pair_of(s, ep, 1, EPOLLIN);
	s[1] = fake_new();
	s[1]->peer_port = 77;
	assert_int_equal(set_ctl(ep, ADD, s[1]->fd, EPOLLIN, 1), 0);
	fake_pair(s[1]);
	s[1]->ours = EPOLLOUT;
	for (max = 2; max <= 8; max++) {
		assert_int_equal(do_epoll_wait(ep, ev, 8, 0), 0);
		assert_int_equal(write(s[1]->peer, "x", 1), 1);
		stamp_log_add(s[1]->peer_port);
		fake_data(s[0]);
		assert_int_equal(do_epoll_wait(ep, ev, max, 0), 2);
		assert_int_equal(ev[0].data.u64, 1);
		assert_int_equal(ev[1].data.u64, 0);
		assert_int_equal(read(s[1]->fd, &byte, 1), 1);
		s[1]->read_at = stamp_now();
		fake_take(s[0]);
	}
	for (i = 0; i < 2; i++)
		fake_close(s[i]);
	ep_fd_closing(ep, NULL, false);
	close(ep);
}

/*
 * Levels that never end fill each array: a lifted member that may have to come
 * behind something of the kernel's is not put off for ever. `lift`: a level
 * that is a member's, by the direction that is the kernel's; `anew`: what is
 * lifted is read, and something comes.
 */
static void crowd(int n, int max, bool lift, bool anew)
{
	struct sock *s[2];
	struct epoll_event ev[8];
	int ep = ep_born(epoll_create1(0)), fd[64], count[66] = { 0 }, i, k,
	    got;

	for (i = 0; i < n; i++) {
		fd[i] = eventfd(1, 0);
		assert_int_equal(
			set_ctl(ep, ADD, fd[i], EPOLLIN, (uint64_t)i + 2), 0);
	}
	pair_of(s, ep, 1, EPOLLIN);
	s[1] = fake_new();
	if (lift) {
		assert_int_equal(
			set_ctl(ep, ADD, s[1]->fd, EPOLLIN | EPOLLOUT, 1), 0);
		fake_pair(s[1]);
		s[1]->ours = EPOLLIN;
	}
	stamp_log_add(9);
	fake_data(s[0]);
	for (i = 0; i < 40 * (n + 2); i++) {
		got = do_epoll_wait(ep, ev, max, 0);
		assert_int_equal(got, max);
		for (k = 0; k < got; k++)
			count[ev[k].data.u64]++;
		if (!anew || !count[0] || ev[0].data.u64)
			continue;
		fake_take(s[0]);
		stamp_log_add(9);
		fake_data(s[0]);
	}
	for (i = 0; i < n + 2; i++)
		if (i != 1 || lift)
			assert_in_range(count[i], 8, 40 * (n + 2));
	for (i = 0; i < n; i++)
		close(fd[i]);
	for (i = 0; i < 2; i++)
		fake_close(s[i]);
	ep_fd_closing(ep, NULL, false);
	close(ep);
}

static void t_crowd(void **state)
{
	int n, max, how;

	(void)state;
	for (n = 2; n <= 40; n += n < 4 ? 1 : 18)
		for (max = 1; max <= 2; max++)
			for (how = 0; how < 4; how++)
				crowd(n, max, how & 1, how & 2);
}

/* A peer that lies about the time gains and costs nothing. */
static void t_liar(void **state)
{
	struct sock *s[3];
	struct epoll_event ev[4];
	int ep = ep_born(epoll_create1(0)), i, seen = 0;

	(void)state;
	assert_int_equal(pair_of(s, ep, 3, EPOLLIN), 0);
	fake_data(s[1]);
	fake_data(s[0]);
	s[0]->since = s[0]->news = 1; /* another clock, too */
	assert_int_equal(do_epoll_wait(ep, ev, 4, 0), 2);
	assert_int_equal(ev[0].data.u64, 1);
	fake_take(s[0]);
	fake_take(s[1]);
	assert_int_equal(do_epoll_wait(ep, ev, 4, 0), 0);
	fake_data(s[2]);
	s[2]->since = s[2]->news = s[1]->since + (1ull << 60);
	fake_data(s[1]);
	for (i = 0; i < 8 && seen != 6; i++) {
		int n = do_epoll_wait(ep, ev, 4, 0);

		while (n--)
			seen |= 1 << ev[n].data.u64;
	}
	assert_int_equal(seen, 6);
	for (i = 0; i < 3; i++)
		fake_close(s[i]);
	ep_fd_closing(ep, NULL, false);
	close(ep);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_kernel),  cmocka_unit_test(t_lifted),
		cmocka_unit_test(t_mixed),   cmocka_unit_test(t_midst),
		cmocka_unit_test(t_nested),  cmocka_unit_test(t_halves),
		cmocka_unit_test(t_crowd),   cmocka_unit_test(t_liar),
		cmocka_unit_test(t_between),
	};

	(void)argv;
	if (argc < 2) /* else by the other clock */
		stamp_learn();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
