/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* stream - amounts, sizes and threads: every byte once, in order. */
#include "prog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* Random sizes up to 100 KB; prog_mid() about once per MiB. */
static void pour(struct link *l, size_t total, uint32_t seed)
{
	static _Thread_local uint8_t buf[100000];
	size_t mid = MIB;

	while (total) {
		size_t n = 1 + prog_rand(&seed) % sizeof(buf);
		size_t done = 0;

		if (prog_rand(&seed) % 4 == 0)
			n = 1 + n % 200;
		if (n > total)
			n = total;
		flow_fill(&l->tx, buf, n);
		while (done < n) {
			ssize_t r = write(l->fd, buf + done, n - done);

			CHECK(r > 0);
			done += (size_t)r;
		}
		total -= n;
		if (mid <= n) {
			prog_mid(l->fd);
			mid = MIB;
		} else {
			mid -= n;
		}
	}
}

static void drink(struct link *l, size_t total, uint32_t seed)
{
	static _Thread_local uint8_t buf[100000];

	while (total) {
		size_t n = 1 + prog_rand(&seed) % sizeof(buf);
		ssize_t r;

		if (n > total)
			n = total;
		r = read(l->fd, buf, n);
		CHECK(r > 0);
		flow_check(&l->rx, buf, (size_t)r);
		total -= (size_t)r;
	}
}

static size_t bulk(void)
{
	return 8 * MIB * prog_scale;
}

static void out_run(struct end *e)
{
	pour(&e->l, bulk(), 11);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&e->l);
}

static void out_peer(struct end *e)
{
	drink(&e->l, bulk(), 12);
	link_eof(&e->l);
}

static void in_run(struct end *e)
{
	drink(&e->l, bulk(), 13);
	link_eof(&e->l);
}

static void in_peer(struct end *e)
{
	pour(&e->l, bulk(), 14);
}

/* --- both ways at once ------------------------------------------------- */

struct job {
	struct link *l;
	size_t total;
	uint32_t seed;
};

static void *pour_thread(void *arg)
{
	struct job *j = arg;

	pour(j->l, j->total, j->seed);
	CHECK(!shutdown(j->l->fd, SHUT_WR));
	return NULL;
}

static void both_ways(struct link *l, size_t total, uint32_t seed)
{
	struct job j = { l, total, seed };
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, pour_thread, &j));
	drink(l, total, seed + 1);
	link_eof(l);
	CHECK(!pthread_join(t, NULL));
}

static void duplex(struct end *e)
{
	both_ways(&e->l, bulk(), e->peer ? 21 : 22);
}

#define LINKS 8

static void *both_ways_thread(void *arg)
{
	struct job *j = arg;

	both_ways(j->l, j->total, j->seed);
	return NULL;
}

static void threads(struct end *e)
{
	struct link l[LINKS];
	struct job j[LINKS];
	pthread_t t[LINKS];
	uint32_t i;

	for (i = 0; i < LINKS; i++)
		prog_link(e, &l[i]);
	for (i = 0; i < LINKS; i++) {
		j[i] = (struct job){ &l[i], MIB * prog_scale, 31 + i };
		CHECK(!pthread_create(&t[i], NULL, both_ways_thread, &j[i]));
	}
	for (i = 0; i < LINKS; i++) {
		CHECK(!pthread_join(t[i], NULL));
		link_close(&l[i]);
	}
}

/* --- small writes, turns, pauses --------------------------------------- */

static void small_run(struct end *e)
{
	uint32_t seed = 41;
	int i;

	for (i = 0; i < 20000; i++)
		link_put(&e->l, 1 + prog_rand(&seed) % 16);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&e->l);
}

static void small_peer(struct end *e)
{
	uint32_t seed = 41;
	size_t total = 0;
	int i;

	for (i = 0; i < 20000; i++)
		total += 1 + prog_rand(&seed) % 16;
	link_get(&e->l, total);
	link_eof(&e->l);
}

static void turns(struct end *e)
{
	uint32_t seed = 51;
	int i;

	for (i = 0; i < 2000; i++) {
		link_turn(&e->l, 1 + prog_rand(&seed) % 4096, !e->peer);
		if (i % 500 == (e->peer ? 100 : 350))
			prog_mid(e->l.fd);
	}
}

/* Messages far apart: both ends fall asleep before each. */
static void pauses(struct end *e)
{
	int i;

	for (i = 0; i < 40; i++) {
		prog_nap_ms(i % 5 ? 3 : 12);
		link_turn(&e->l, (size_t)(1 + i * 97), !e->peer);
	}
}

/* The reader stops now and then, longer than a writer cares to wait. */
static void lazy_run(struct end *e)
{
	pour(&e->l, 12 * MIB, 61);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&e->l);
}

static void lazy_peer(struct end *e)
{
	int i;

	for (i = 0; i < 12; i++) {
		if (i % 3 == 0)
			prog_nap_ms(60);
		drink(&e->l, MIB, 62);
	}
	link_eof(&e->l);
}

/* --- several threads on one socket ------------------------------------- */

#define CREW	   4
#define CREW_BYTES (300 * 1000)

static void *crew_write(void *arg)
{
	struct job *j = arg;
	uint8_t buf[3000];
	uint32_t seed = j->seed;
	size_t left = CREW_BYTES;

	memset(buf, (int)j->seed, sizeof(buf));
	while (left) {
		size_t n = 1 + prog_rand(&seed) % sizeof(buf);
		ssize_t r;

		r = write(j->l->fd, buf, n < left ? n : left);
		CHECK(r > 0);
		left -= (size_t)r;
	}
	return NULL;
}

/* Bytes of one writer are all alike, so any interleaving is right. */
static void writers_run(struct end *e)
{
	struct job j[CREW];
	pthread_t t[CREW];
	uint32_t i;

	for (i = 0; i < CREW; i++) {
		j[i] = (struct job){ &e->l, 0, i + 1 };
		CHECK(!pthread_create(&t[i], NULL, crew_write, &j[i]));
	}
	for (i = 0; i < CREW; i++)
		CHECK(!pthread_join(t[i], NULL));
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&e->l);
}

static void writers_peer(struct end *e)
{
	size_t count[CREW + 1] = { 0 };
	uint8_t buf[5000];
	ssize_t r, i;

	while ((r = read(e->l.fd, buf, sizeof(buf))) > 0)
		for (i = 0; i < r; i++) {
			CHECK(buf[i] >= 1 && buf[i] <= CREW);
			count[buf[i]]++;
		}
	CHECK(r == 0);
	for (i = 1; i <= CREW; i++)
		CHECK(count[i] == CREW_BYTES);
}

static atomic_ulong crew_sum, crew_count;

static void *crew_read(void *arg)
{
	struct job *j = arg;
	uint8_t buf[3000];
	ssize_t r, i;

	while ((r = read(j->l->fd, buf, sizeof(buf))) > 0) {
		unsigned long sum = 0;

		for (i = 0; i < r; i++)
			sum += buf[i];
		atomic_fetch_add(&crew_sum, sum);
		atomic_fetch_add(&crew_count, (unsigned long)r);
	}
	CHECK(r == 0);
	return NULL;
}

/* Every sleeper must come out at the end of the stream. */
static void readers_run(struct end *e)
{
	struct job j = { &e->l, 0, 0 };
	pthread_t t[CREW];
	int i;

	atomic_store(&crew_sum, 0);
	atomic_store(&crew_count, 0);
	for (i = 0; i < CREW; i++)
		CHECK(!pthread_create(&t[i], NULL, crew_read, &j));
	prog_nap_ms(10);
	prog_sync(e);
	for (i = 0; i < CREW; i++)
		CHECK(!pthread_join(t[i], NULL));
	prog_tell(e, atomic_load(&crew_sum));
	prog_tell(e, atomic_load(&crew_count));
}

static void readers_peer(struct end *e)
{
	uint8_t buf[4000];
	uint64_t sum = 0, count = 0;
	uint32_t seed = 71;
	size_t k;
	int i;

	prog_sync(e);
	for (i = 0; i < 1000; i++) {
		size_t n = 1 + prog_rand(&seed) % sizeof(buf);

		flow_fill(&e->l.tx, buf, n);
		for (k = 0; k < n; k++)
			sum += buf[k];
		count += n;
		for (k = 0; k < n;) {
			ssize_t r = write(e->l.fd, buf + k, n - k);

			CHECK(r > 0);
			k += (size_t)r;
		}
		if (i % 250 == 0)
			prog_nap_ms(2);
	}
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	CHECK(prog_hear(e) == sum);
	CHECK(prog_hear(e) == count);
}

/* --- many short and many open connections ------------------------------ */

static void churn(struct end *e)
{
	struct link l;
	int i;

	for (i = 0; i < 60; i++) {
		prog_link(e, &l);
		link_turn(&l, 3000, !e->peer);
		link_close(&l);
	}
}

static void crowd(struct end *e)
{
	struct link l[100];
	size_t i, k;

	for (i = 0; i < ARRAY_SIZE(l); i++)
		prog_link(e, &l[i]);
	for (k = 0; k < 3; k++)
		for (i = 0; i < ARRAY_SIZE(l); i++)
			link_turn(&l[i], 1 + 37 * i, !e->peer);
	for (i = 0; i < ARRAY_SIZE(l); i++)
		link_close(&l[i]);
}

/*
 * What lies there is had by one receive, also where the stream went over to
 * another carrier in the middle of it.
 */
#define ROUNDS 40
#define SOME   100

/* Between two hosts a step may be told of before its bytes have come. */
static void lies_there(int fd, int n)
{
	int have = 0;

	while (have < n) {
		CHECK(!ioctl(fd, FIONREAD, &have));
		if (have < n)
			prog_nap_ms(1);
	}
}

static void whole_run(struct end *e)
{
	uint8_t buf[2 * ROUNDS * SOME];
	ssize_t n;
	int i;

	link_bare(e);
	for (i = 0; i < ROUNDS; i++) {
		link_put(&e->l, 1);
		CHECK(prog_hear(e) == 1);
	}
	lies_there(e->l.fd, ROUNDS * SOME);
	n = recv(e->l.fd, buf, sizeof(buf), 0);
	CHECK(n == ROUNDS * SOME);
	flow_check(&e->l.rx, buf, (size_t)n);
	prog_sync(e);
}

static void whole_peer(struct end *e)
{
	int i;

	link_bare(e);
	for (i = 0; i < ROUNDS; i++) {
		link_put(&e->l, SOME);
		link_get(&e->l, 1);
		prog_tell(e, 1);
	}
	prog_sync(e);
}

/*
 * A reset is told by the call after the one that it cut short, and without
 * SIGPIPE, be it a receive that waits for all or one large send.
 */
static void reset_peer(struct end *e)
{
	const struct linger hard = { .l_onoff = 1 };

	CHECK(prog_hear(e) == 1);
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)));
	CHECK(!close(e->l.fd));
	e->l.fd = -1;
	prog_tell(e, 1);
}

static void cut_run(struct end *e)
{
	uint8_t buf[2 * SOME];

	link_bare(e);
	prog_tell(e, 1);
	CHECK(prog_hear(e) == 1);
	CHECK(recv(e->l.fd, buf, sizeof(buf), MSG_WAITALL) == SOME);
	flow_check(&e->l.rx, buf, SOME);
	CHECK(recv(e->l.fd, buf, 1, 0) == -1 && errno == ECONNRESET);
	CHECK(recv(e->l.fd, buf, 1, 0) == 0);
}

static void cut_peer(struct end *e)
{
	link_bare(e);
	link_put(&e->l, SOME);
	reset_peer(e);
}

static void crash_run(struct end *e)
{
	static uint8_t buf[64 * MIB];
	ssize_t n;

	link_bare(e);
	prog_tell(e, 1);
	n = send(e->l.fd, buf, sizeof(buf), 0);
	CHECK(n > 0 && (size_t)n < sizeof(buf));
	CHECK(prog_hear(e) == 1);
	CHECK(send(e->l.fd, buf, 1, 0) == -1 && errno == ECONNRESET);
	CHECK(send(e->l.fd, buf, 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
}

static void crash_peer(struct end *e)
{
	uint8_t b;

	link_bare(e);
	CHECK(recv(e->l.fd, &b, 1, 0) == 1);
	reset_peer(e);
}

static const struct prog_case cases[] = {
	{ "out", out_run, out_peer, 0 },
	{ "in", in_run, in_peer, 0 },
	{ "duplex", duplex, duplex, 0 },
	{ "threads", threads, threads, CASE_BARE },
	{ "small", small_run, small_peer, 0 },
	{ "turns", turns, turns, 0 },
	{ "pauses", pauses, pauses, 0 },
	{ "lazy", lazy_run, lazy_peer, 0 },
	{ "writers", writers_run, writers_peer, 0 },
	{ "readers", readers_run, readers_peer, 0 },
	{ "churn", churn, churn, CASE_BARE },
	{ "crowd", crowd, crowd, CASE_BARE },
	{ "whole", whole_run, whole_peer, CASE_BARE },
	{ "cut", cut_run, cut_peer, CASE_BARE },
	{ "crash", crash_run, crash_peer, CASE_BARE },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
