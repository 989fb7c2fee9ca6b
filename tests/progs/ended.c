/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ended - calls that are ended from outside while they are half done. */
#include "prog.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static void *receiver(void *arg)
{
	uint8_t b;

	recv(*(int *)arg, &b, 1, 0);
	CHECK(!arg); /* not cancelled */
	return NULL;
}

/* After a cancelled receive a close is a close: the peer sees the end. */
static void cancel_run(struct end *e)
{
	pthread_t t;
	void *ret;

	CHECK(!pthread_create(&t, NULL, receiver, &e->l.fd));
	prog_nap_ms(30);
	CHECK(!pthread_cancel(t));
	CHECK(!pthread_join(t, &ret));
	CHECK(ret == PTHREAD_CANCELED);
	CHECK(!close(e->l.fd));
	e->l.fd = -1;
	CHECK(prog_hear(e) == 1);
}

static void ends_peer(struct end *e)
{
	link_eof(&e->l);
	prog_tell(e, 1);
}

static sigjmp_buf back;

static void on_alarm(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

/* So it is after a handler that jumped out of one. */
static void jump_run(struct end *e)
{
	struct itimerval it = { .it_value = { .tv_usec = 30000 } };
	struct sigaction sa = { .sa_handler = on_alarm }, old;
	uint8_t b;

	CHECK(!sigaction(SIGALRM, &sa, &old));
	if (!sigsetjmp(back, 1)) {
		CHECK(!setitimer(ITIMER_REAL, &it, NULL));
		recv(e->l.fd, &b, 1, 0);
		CHECK(!e); /* not interrupted */
	}
	CHECK(!sigaction(SIGALRM, &old, NULL));
	CHECK(!close(e->l.fd));
	e->l.fd = -1;
	CHECK(prog_hear(e) == 1);
}

/* Jumped out of before anything was lifted; the stream goes on, and home. */
static void early_run(struct end *e)
{
	struct itimerval it = { .it_value = { .tv_usec = 30000 } };
	struct sigaction sa = { .sa_handler = on_alarm }, old;
	uint8_t b;

	link_bare(e);
	CHECK(!sigaction(SIGALRM, &sa, &old));
	if (!sigsetjmp(back, 1)) {
		CHECK(!setitimer(ITIMER_REAL, &it, NULL));
		recv(e->l.fd, &b, 1, 0);
		CHECK(!e); /* not interrupted */
	}
	CHECK(!sigaction(SIGALRM, &old, NULL));
	prog_tell(e, 1);
	/* from where the other was: that shows that it is over */
	CHECK(recv(e->l.fd, &b, 1, 0) == 1);
	flow_check(&e->l.rx, &b, 1);
	prog_warm(&e->l, true, 200);
	prog_mid(e->l.fd);
	/* more than a ring holds, before the other end reads */
	link_put(&e->l, 3000000);
	prog_tell(e, 1);
	CHECK(prog_hear(e) == 1);
	link_get(&e->l, 3000000);
	prog_sync(e);
}

static void early_peer(struct end *e)
{
	link_bare(e);
	CHECK(prog_hear(e) == 1);
	link_put(&e->l, 1);
	prog_warm(&e->l, false, 200);
	CHECK(prog_hear(e) == 1);
	link_get(&e->l, 3000000);
	link_put(&e->l, 2000000);
	prog_tell(e, 1);
	link_put(&e->l, 1000000);
	prog_sync(e);
}

/* --- out of a send ------------------------------------------------------- */

#define LONG ((size_t)64 << 20) /* more than ring and kernel hold */

static char *long_block(void)
{
	char *big = mmap(NULL, LONG, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(big != MAP_FAILED);
	memset(big, 'x', LONG);
	return big;
}

struct long_send {
	struct end *e;
	pid_t tid; /* who sends */
};

/* Until the sender has slept for 200 ms: it is in the kernel, for good. */
static void long_asleep(pid_t tid)
{
	char path[64], line[512], *p;
	int row = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	while (row < 40) {
		f = fopen(path, "re");
		CHECK(f && fgets(line, sizeof(line), f));
		fclose(f);
		p = strrchr(line, ')');
		row = p && p[2] == 'S' ? row + 1 : 0;
		prog_nap_ms(5);
	}
}

static void *thrower(void *arg)
{
	struct long_send *l = arg;

	long_asleep(l->tid);
	CHECK(!syscall(SYS_tgkill, getpid(), l->tid, SIGALRM));
	return NULL;
}

static void *long_sender(void *arg)
{
	struct long_send *l = arg;
	char *big = long_block();

	__atomic_store_n(&l->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	send(l->e->l.fd, big, LONG, 0);
	CHECK(!arg); /* not cancelled */
	return NULL;
}

/* How much of it went nobody knows; a mark shows where it ends. */
static void go_on(struct end *e)
{
	prog_tell(e, 1);
	CHECK(send(e->l.fd, "0123456789", 10, 0) == 10);
	CHECK(prog_hear(e) == 1);
	prog_warm(&e->l, true, 200);
	prog_mid(e->l.fd);
	/* one way, and more than a ring holds, before the other end reads */
	link_put(&e->l, 3000000);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	prog_tell(e, 1);
	link_get(&e->l, 3000000);
	link_eof(&e->l);
	prog_sync(e);
}

static void thrown_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_alarm }, old;
	struct long_send l = { e, (pid_t)syscall(SYS_gettid) };
	char *big = long_block();
	pthread_t t;

	CHECK(!sigaction(SIGALRM, &sa, &old));
	CHECK(!pthread_create(&t, NULL, thrower, &l));
	if (!sigsetjmp(back, 1)) {
		send(e->l.fd, big, LONG, 0);
		CHECK(!e); /* not interrupted */
	}
	CHECK(!pthread_join(t, NULL));
	CHECK(!sigaction(SIGALRM, &old, NULL));
	CHECK(!munmap(big, LONG));
	go_on(e);
}

static void stopped_run(struct end *e)
{
	struct long_send l = { e, 0 };
	pthread_t t;
	void *ret;

	CHECK(!pthread_create(&t, NULL, long_sender, &l));
	while (!__atomic_load_n(&l.tid, __ATOMIC_ACQUIRE))
		prog_nap_ms(1);
	long_asleep(l.tid);
	CHECK(!pthread_cancel(t));
	CHECK(!pthread_join(t, &ret));
	CHECK(ret == PTHREAD_CANCELED);
	go_on(e);
}

static void thrown_peer(struct end *e)
{
	static char buf[65536], mark[] = "0123456789";
	size_t i, seen = 0;
	ssize_t n;

	CHECK(prog_hear(e) == 1);
	while (seen < 10) {
		n = read(e->l.fd, buf, sizeof(buf));
		CHECK(n > 0);
		for (i = 0; i < (size_t)n; i++)
			if (seen || buf[i] != 'x')
				CHECK(seen < 10 && buf[i] == mark[seen++]);
	}
	prog_tell(e, 1);
	prog_warm(&e->l, false, 200);
	CHECK(prog_hear(e) == 1);
	link_get(&e->l, 3000000);
	link_eof(&e->l);
	link_put(&e->l, 3000000);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	prog_sync(e);
}

static atomic_int pipes;

static void on_pipe(int sig)
{
	(void)sig;
	atomic_fetch_add(&pipes, 1);
}

static void *shutter(void *arg)
{
	struct end *e = arg;

	prog_nap_ms(100);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	return NULL;
}

/*
 * A send that is half done when its direction ends tells how far it came; the
 * signal is for the next.
 */
static void half_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_pipe }, old;
	size_t n = 64 << 20;
	char *big = mmap(NULL, n, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t;
	ssize_t ret;

	CHECK(big != MAP_FAILED);
	atomic_store(&pipes, 0);
	CHECK(!sigaction(SIGPIPE, &sa, &old));
	CHECK(!pthread_create(&t, NULL, shutter, e));
	ret = send(e->l.fd, big, n, 0);
	CHECK(ret > 0 && (size_t)ret < n);
	CHECK(atomic_load(&pipes) == 0);
	FAILS(send(e->l.fd, big, n, 0), EPIPE);
	CHECK(atomic_load(&pipes) == 1);
	CHECK(!pthread_join(t, NULL));
	CHECK(!sigaction(SIGPIPE, &old, NULL));
	CHECK(!munmap(big, n));
	prog_tell(e, (uint64_t)ret);
	CHECK(prog_hear(e) == (uint64_t)ret);
}

static void half_peer(struct end *e)
{
	uint64_t n = prog_hear(e), got = 0;
	char buf[65536];
	ssize_t ret;

	while ((ret = read(e->l.fd, buf, sizeof(buf))) > 0)
		got += (uint64_t)ret;
	CHECK(ret == 0);
	CHECK(got == n);
	prog_tell(e, got);
}

static const struct prog_case cases[] = {
	{ "cancel", cancel_run, ends_peer, 0 },
	{ "jump", jump_run, ends_peer, 0 },
	{ "early", early_run, early_peer, CASE_BARE },
	{ "thrown", thrown_run, thrown_peer, 0 },
	{ "stopped", stopped_run, thrown_peer, 0 },
	{ "half", half_run, half_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
