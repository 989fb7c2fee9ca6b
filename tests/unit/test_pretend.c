/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The pretended devices of tests/fake do as real ones: what has come to the
 * other host is acknowledged, even if nothing polls there. Stream bytes, and
 * all where a queue pair is to break, are when they are taken in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"

#define DATA	0xff
#define DISCONN 2
#define BSDH	16

static const struct verbs_api *const api = &libsdp_verbs;
static struct verbs *here, *there;
static struct end *near, *far;

static struct verbs_event await(struct verbs *v, enum verbs_event_type type)
{
	struct pollfd p = { .fd = api->fd(v), .events = POLLIN };
	struct verbs_event ev = { .type = VE_NONE };

	while (!api->event(v, &ev))
		assert_true(poll(&p, 1, -1) == 1);
	assert_int_equal(ev.type, type);
	return ev;
}

static int setup(void **state)
{
	const struct verbs_conf conf = { .allow_soft_rdma = true };
	static const uint8_t req[VERBS_REQ_LEN], rep[VERBS_REP_LEN];
	union verbs_addr to = { .in.sin_family = AF_INET };
	struct verbs_event ev;
	int port;

	(void)state;
	assert_int_equal(api->open(&here, &conf), 0);
	assert_int_equal(api->open(&there, &conf), 0);
	port = api->listen(there, AF_INET, 0);
	assert_true(port > 0);
	to.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.in.sin_port = htons((uint16_t)port);
	assert_int_equal(api->dial(here, NULL, &to, 1, &near), 0);
	await(here, VE_READY);
	assert_int_equal(api->connect(near, req), 0);
	ev = await(there, VE_REQUEST);
	assert_int_equal(api->prepare(there, ev.request, 2, &far), 0);
	assert_int_equal(api->accept(far, rep), 0);
	await(here, VE_ANSWERED);
	assert_int_equal(api->establish(near), 0);
	await(here, VE_UP);
	await(there, VE_UP);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	near->ops->destroy(near);
	if (far)
		far->ops->destroy(far);
	api->close(here);
	api->close(there);
	return 0;
}

static void sends(uint8_t mid, uint32_t len)
{
	uint8_t *mem = near->ops->buf(near, len);

	assert_non_null(mem);
	memset(mem, 0, len);
	mem[0] = mid;
	assert_int_equal(near->ops->send(near, len, false), 0);
}

/* Until the other host has it; nothing polls there. */
static void comes(void)
{
	int queued;

	do
		assert_int_equal(ioctl(of(near)->fd, SIOCOUTQ, &queued), 0);
	while (queued);
}

static uint32_t unacked(void)
{
	struct fab_msg m;
	uint32_t pos = 0;

	while (api->unacked(near, &pos, &m))
		;
	return pos;
}

static void taken_in(void)
{
	struct fab_msg m;

	while (!far->ops->poll(far, &m))
		;
	if (m.held)
		far->ops->release(far);
	while (!api->flushed(near))
		;
	assert_int_equal(api->flushed(near), 1);
	assert_int_equal(unacked(), 0);
}

static void test_nobody_polls(void **state)
{
	struct fab_msg m;

	(void)state;
	sends(DISCONN, BSDH);
	comes();
	assert_int_equal(api->flushed(near), 1);
	assert_int_equal(unacked(), 0);
	/* and it is not lost */
	assert_int_equal(far->ops->poll(far, &m), 1);
	assert_int_equal(m.len, BSDH);
	assert_int_equal(m.mem[0], DISCONN);
}

static void test_stream(void **state)
{
	(void)state;
	sends(DATA, BSDH + 1);
	comes();
	assert_int_equal(api->flushed(near), 0);
	assert_int_equal(unacked(), 1);
	taken_in();
}

static void test_to_break(void **state)
{
	(void)state;
	setenv("FAKE_BREAK", "100", 1);
	sends(DISCONN, BSDH);
	comes();
	assert_int_equal(api->flushed(near), 0);
	assert_int_equal(unacked(), 1);
	taken_in();
	unsetenv("FAKE_BREAK");
}

static struct gate elsewhere = { .nonce = 47, .busy = 1 };
static bool wrote;

/* Until the key is gone, so that its owner waits; others register meanwhile. */
static void *writes(void *arg)
{
	static uint8_t mem[64];
	struct key *k = arg;
	uint32_t rkey;

	while (__atomic_load_n(&k->rkey, __ATOMIC_SEQ_CST))
		sched_yield();
	assert_int_equal(near->ops->lend(near, mem, sizeof(mem), &rkey), 0);
	__atomic_store_n(&wrote, true, __ATOMIC_SEQ_CST);
	__atomic_store_n(&elsewhere.busy, 0, __ATOMIC_SEQ_CST);
	return NULL;
}

static void lends_to(pid_t writer)
{
	static uint8_t mem[64];
	uint32_t rkey;

	assert_int_equal(far->ops->sink(far, mem, sizeof(mem), &rkey), 0);
	of(far)->who.pid = writer;
	of(far)->who.gate = (uintptr_t)&elsewhere;
	of(far)->who.nonce = elsewhere.nonce;
}

static void takes_back(void)
{
	alarm(10);
	far->ops->unsink(far);
	alarm(0);
}

/* A write that is under way is over when the memory is its owner's again. */
static void test_write_under_way(void **state)
{
	pthread_t t;

	(void)state;
	lends_to(getpid());
	assert_int_equal(pthread_create(&t, NULL, writes, of(far)->sink.mr), 0);
	takes_back();
	assert_true(__atomic_load_n(&wrote, __ATOMIC_SEQ_CST));
	pthread_join(t, NULL);
}

/* Killed while it writes into memory of ours, and not waited for. */
static void test_dead_writer(void **state)
{
	siginfo_t si;
	pid_t pid;

	(void)state;
	elsewhere.busy = 1;
	pid = fork();
	if (!pid)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	lends_to(pid);
	takes_back();
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Of an end that has gone nothing is told, though a child has its descriptor. */
static void test_child_has_it(void **state)
{
	struct pollfd p = { .fd = api->fd(there), .events = POLLIN };
	struct verbs_event ev;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	far->ops->destroy(far);
	far = NULL;
	assert_int_equal(shutdown(of(near)->fd, SHUT_WR), 0);
	assert_int_equal(api->event(there, &ev), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nobody_polls), TEST(test_stream),
		TEST(test_to_break),	 TEST(test_write_under_way),
		TEST(test_dead_writer),	 TEST(test_child_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
