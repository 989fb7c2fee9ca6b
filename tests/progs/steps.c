/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * steps - a process is killed at each place of its calls (step.h), while its
 * peer waits, or does what needs an answer: starts a program that inherits the
 * descriptor, forks. Of a writer everything comes that its calls had taken, and
 * then the end; a reader's peer is told that it is gone.
 */
#include "prog.h"
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
#define WARM   40
#define MANY   300000

struct victim;

/* What is done meanwhile, by the process that is killed and by its peer. */
struct test {
	void (*work)(struct victim *v); /* again and again */
	void *(*meanwhile)(void *over); /* NULL: nothing but its end of it */
	bool gets; /* the victim receives, its peer sends */
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

	step_start(&st, prepare, work, v);
	step_to(&st, v->place);
	v->places = st.places;
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
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		_exit(0);
	prog_reap(pid, 0);
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
	CHECK(!n);
}

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
	pid_t pid;

	for (; !__atomic_load_n(over, __ATOMIC_ACQUIRE); usleep(500)) {
		pid = fork();
		CHECK(pid >= 0);
		if (!pid)
			_exit(0);
		prog_reap(pid, 0);
	}
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
static size_t one(int lfd, const struct test *t, size_t place)
{
	struct victim v = { .test = t, .place = place };
	struct link l = { .tx.seed = 2, .rx.seed = 1 };
	socklen_t len = sizeof(v.addr);
	pthread_t carrier, other;
	bool over = false;

	v.sent = shared_number();
	CHECK(!getsockname(lfd, (struct sockaddr *)&v.addr, &len));
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
	int lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t i, n = ROUNDS * (size_t)prog_scale, all;
	uint32_t rnd = (uint32_t)prog_now_ms();

	CHECK(lfd >= 0 && !listen(lfd, 4)); /* on a free port */
	all = one(lfd, t, SIZE_MAX);
	for (i = 0; i < n; i++)
		one(lfd, t, 1 + (all * i + prog_rand(&rnd) % all) / n);
	CHECK(!close(lfd));
}

#define ROUND(name, ...)                                      \
	static void name(struct end *e)                       \
	{                                                     \
		static const struct test t = { __VA_ARGS__ }; \
                                                              \
		(void)e;                                      \
		rounds(&t);                                   \
	}
#define THREE(work, gets)                               \
	ROUND(work##_alone, work, NULL, gets)           \
	ROUND(work##_starts, work, starts_others, gets) \
	ROUND(work##_forks, work, starts_children, gets)
THREE(puts_few, false)
THREE(puts_many, false)
THREE(gets, true)
THREE(polls, true)
THREE(shuts, false)
THREE(closes, false)
THREE(exits, false)
THREE(forks, false)
THREE(runs, false)

#define CASES(name, work)                                           \
	{ name, work##_alone, NULL, CASE_SOLO },                    \
		{ name "-starts", work##_starts, NULL, CASE_SOLO }, \
	{                                                           \
		name "-forks", work##_forks, NULL, CASE_SOLO        \
	}
static const struct prog_case cases[] = {
	CASES("send", puts_few), CASES("send-much", puts_many),
	CASES("recv", gets),	 CASES("poll", polls),
	CASES("shut", shuts),	 CASES("close", closes),
	CASES("exit", exits),	 CASES("fork", forks),
	CASES("system", runs),
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
