/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * steps - a process is killed at places drawn from all of its calls (step.h),
 * while its peer waits, or does what needs an answer: starts a program that inherits the
 * descriptor, forks. Of a writer everything comes that its calls had taken, and
 * then the end; a reader's peer is told that it is gone. Between hosts what the
 * killed process had not sent yet is lost with it, and its end may be a reset.
 */
#include "step.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS 6
#define WARM   (step_elsewhere() ? 400 : 40)
#define MANY   300000

struct victim;

/* What is done meanwhile, by the process that is killed and by its peer. */
struct test {
	const char *name;
	void (*work)(struct victim *v); /* again and again */
	void *(*meanwhile)(void *over); /* NULL: nothing but its end of it */
	bool gets; /* the victim receives, its peer sends */
	bool ends; /* the victim may end by itself */
};

/* The process that is killed, and the thread that carries it there. */
struct victim {
	const struct test *test;
	struct sockaddr_in addr;
	struct link l;
	size_t place; /* where it is killed */
	size_t places; /* and how far it came */
	uint64_t *sent; /* by calls that were over */
	char *block; /* what puts_many() sends again and again */
};

static void prepare(void *arg)
{
	struct victim *v = arg;

	v->l = (struct link){ .tx.seed = 1, .rx.seed = 2 };
	v->l.fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(v->l.fd >= 0);
	CHECK(!connect(v->l.fd, (struct sockaddr *)&v->addr, sizeof(v->addr)));
	prog_warm(&v->l, true, WARM);
	*v->sent = v->l.tx.off;
	v->block = malloc(MANY);
	CHECK(v->block);
	memset(v->block, 'm', MANY);
}

static void work(void *arg)
{
	struct victim *v = arg;

	v->test->work(v);
}

static void *carries(void *arg)
{
	struct victim *v = arg;
	struct step st;

	if (step_elsewhere())
		step_exec(&st, v->test->name, &v->addr);
	else
		step_start(&st, prepare, work, v);
	step_to(&st, v->place);
	v->places = st.places;
	/* of its own it ends in exit() only: it has found nothing wrong */
	CHECK(!st.over || (v->test->ends && !st.status));
	step_kill(&st);
	return NULL;
}

/* --- what the victim does ------------------------------------------------ */

static void puts_of(struct victim *v, size_t n)
{
	link_put(&v->l, n);
	__atomic_store_n(v->sent, v->l.tx.off, __ATOMIC_RELEASE);
}

static void puts_few(struct victim *v)
{
	puts_of(v, 100);
}

/* The same byte always: to make up a pattern takes more steps than to send it. */
static void puts_many(struct victim *v)
{
	ssize_t n = send(v->l.fd, v->block, MANY, 0);

	CHECK(n > 0);
	__atomic_add_fetch(v->sent, (uint64_t)n, __ATOMIC_RELEASE);
}

static void gets(struct victim *v)
{
	char buf[4096];
	ssize_t n = recv(v->l.fd, buf, sizeof(buf), 0);

	CHECK(n > 0);
	flow_check(&v->l.rx, buf, (size_t)n);
}

static void polls(struct victim *v)
{
	struct pollfd p = { .fd = v->l.fd, .events = POLLIN };

	CHECK(poll(&p, 1, -1) == 1);
	gets(v);
}

/* Its steps go on: a thread that sleeps is carried no further. */
static void until_killed(void)
{
	for (;;)
		sched_yield();
}

static void shuts(struct victim *v)
{
	puts_of(v, 100);
	CHECK(!shutdown(v->l.fd, SHUT_WR));
	until_killed();
}

static void closes(struct victim *v)
{
	puts_of(v, 100);
	CHECK(!close(v->l.fd));
	until_killed();
}

static void exits(struct victim *v)
{
	puts_of(v, 100);
	exit(0);
}

static void forks(struct victim *v)
{
	prog_child();
	puts_of(v, 100);
}

static void runs(struct victim *v)
{
	CHECK(system("exit 3") == 3 << 8);
	puts_of(v, 100);
}

/* --- what its peer does -------------------------------------------------- */

static void all_m(struct flow *f, const char *buf, size_t n)
{
	f->off += n;
	while (n)
		CHECK(buf[--n] == 'm');
}

/* Everything, and then the end. */
static void get_all(struct victim *v, struct link *l)
{
	char buf[4096];
	ssize_t n;

	do {
		n = recv(l->fd, buf, sizeof(buf), 0);
		if (n > 0 && v->test->work == puts_many)
			all_m(&l->rx, buf, (size_t)n);
		else if (n > 0)
			flow_check(&l->rx, buf, (size_t)n);
	} while (n > 0 || (n < 0 && errno == EINTR));
	CHECK(!n || (step_elsewhere() && errno == ECONNRESET));
}

/* The naps leave the carrier a processor; nothing depends on how long they are. */
static void *starts_others(void *arg)
{
	const bool *over = arg;

	for (; !__atomic_load_n(over, __ATOMIC_ACQUIRE); usleep(500))
		CHECK(system("exit 3") == 3 << 8);
	return NULL;
}

static void *starts_children(void *arg)
{
	const bool *over = arg;

	for (; !__atomic_load_n(over, __ATOMIC_ACQUIRE); usleep(500))
		prog_child();
	return NULL;
}

static void put_all(struct link *l)
{
	char buf[3000];
	struct flow next;
	ssize_t n;

	do {
		next = l->tx;
		flow_fill(&next, buf, sizeof(buf));
		n = send(l->fd, buf, sizeof(buf), MSG_NOSIGNAL);
		if (n > 0)
			l->tx.off += (uint64_t)n;
	} while (n >= 0 || errno == EINTR);
	CHECK(errno == EPIPE || errno == ECONNRESET);
}

/* --- rounds -------------------------------------------------------------- */

static void *shared_number(void)
{
	void *p = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* How far it came. */
static size_t one(int lfd, const struct sockaddr_in *at, const struct test *t,
		  size_t place)
{
	struct victim v = { .test = t, .addr = *at, .place = place };
	struct link l = { .tx.seed = 2, .rx.seed = 1 };
	pthread_t carrier, other;
	bool over = false;

	v.sent = shared_number();
	CHECK(!pthread_create(&carrier, NULL, carries, &v));
	l.fd = accept4(lfd, NULL, NULL, t->meanwhile ? 0 : SOCK_CLOEXEC);
	CHECK(l.fd >= 0);
	prog_warm(&l, false, WARM);
	if (t->meanwhile)
		CHECK(!pthread_create(&other, NULL, t->meanwhile, &over));
	if (t->gets)
		put_all(&l);
	else
		get_all(&v, &l);
	CHECK(!pthread_join(carrier, NULL));
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	if (t->meanwhile)
		CHECK(!pthread_join(other, NULL));
	CHECK(t->gets || l.rx.off >= *v.sent);
	CHECK(!munmap(v.sent, sizeof(*v.sent)));
	link_close(&l);
	return v.places;
}

static void rounds(const struct test *t)
{
	struct sockaddr_in at;
	int lfd = step_listen(&at);
	size_t i, n = ROUNDS * (size_t)prog_scale, most;
	uint32_t rnd = (uint32_t)prog_now_ms();

	most = one(lfd, &at, t, SIZE_MAX);
	for (i = 0; i < n; i++)
		one(lfd, &at, t, 1 + (most * i + prog_rand(&rnd) % most) / n);
	CHECK(!close(lfd));
}

/* --- cases ---------------------------------------------------------------- */

#define THREE(name, work, gets, ends)                                \
	{ name, work, NULL, gets, ends },                            \
		{ name "-starts", work, starts_others, gets, ends }, \
	{                                                            \
		name "-forks", work, starts_children, gets, ends     \
	}
static const struct test tests[] = {
	THREE("send", puts_few, false, false),
	THREE("send-much", puts_many, false, false),
	THREE("recv", gets, true, false),
	THREE("poll", polls, true, false),
	THREE("shut", shuts, false, false),
	THREE("close", closes, false, false),
	THREE("exit", exits, false, true),
	THREE("fork", forks, false, false),
	THREE("system", runs, false, false),
};

static const struct step_tests all = STEP_TESTS(tests);

static void run(struct end *e)
{
	rounds(step_test(&all, e->name));
}

int main(int argc, char **argv)
{
	struct victim v = { 0 };
	const char *asked = step_asked(argc, argv, &v.addr);

	if (asked) {
		v.test = step_test(&all, asked);
		v.sent = shared_number();
		step_here(prepare, work, &v);
	}
	return step_main(argc, argv, &all, run);
}
