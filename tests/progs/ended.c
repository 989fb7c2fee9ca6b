/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ended - calls that are ended from outside while they are half done. */
#include "prog.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
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
	prog_not_here(SIGALRM);
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

/* A receive ended before anything was lifted; the stream goes on, and home. */
static void goes_on(struct end *e)
{
	uint8_t b;

	prog_tell(e, 1);
	/* from where the other was: that shows that it is over */
	CHECK(recv(e->l.fd, &b, 1, 0) == 1);
	flow_check(&e->l.rx, &b, 1);
	prog_warm(&e->l, true, 200);
	prog_mid(e->l.fd);
	/* more than a ring holds, before the other end reads */
	link_put(&e->l, prog_held(3000000));
	prog_tell(e, 1);
	CHECK(prog_hear(e) == 1);
	link_get(&e->l, prog_held(3000000));
	prog_sync(e);
}

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
	goes_on(e);
}

/*
 * Jumped out of on a stack of the program's own making, which is gone then. It
 * lies above the one that goes on.
 */
#define FIBER_STACK ((size_t)256 << 10)

static ucontext_t fiber, below;
static volatile sig_atomic_t left;
static int fiber_fd;
static atomic_bool inside;

static void leave_fiber(int sig)
{
	(void)sig;
	left = 1;
	setcontext(&below);
}

static void in_fiber(void)
{
	uint8_t b;

	atomic_store(&inside, true);
	recv(fiber_fd, &b, 1, 0);
	CHECK(fiber_fd < 0); /* not interrupted */
}

static void *from_fiber(void *arg)
{
	struct end *e = arg;

	CHECK((uintptr_t)&e < (uintptr_t)fiber.uc_stack.ss_sp);
	CHECK(!getcontext(&below));
	if (!left)
		setcontext(&fiber);
	CHECK(!munmap(fiber.uc_stack.ss_sp, FIBER_STACK));
	goes_on(e);
	return NULL;
}

static void fiber_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = leave_fiber }, old;
	pthread_t t;

	link_bare(e);
	left = 0;
	atomic_store(&inside, false);
	fiber_fd = e->l.fd;
	CHECK(!sigaction(SIGALRM, &sa, &old));
	CHECK(!getcontext(&fiber));
	fiber.uc_stack.ss_size = FIBER_STACK;
	fiber.uc_stack.ss_sp = mmap(NULL, FIBER_STACK, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(fiber.uc_stack.ss_sp != MAP_FAILED);
	makecontext(&fiber, in_fiber, 0);
	CHECK(!pthread_create(&t, NULL, from_fiber, e));
	while (!atomic_load(&inside))
		prog_nap_ms(1);
	prog_nap_ms(30);
	CHECK(!pthread_kill(t, SIGALRM));
	CHECK(!pthread_join(t, NULL));
	CHECK(!sigaction(SIGALRM, &old, NULL));
}

/* The thread that was inside is no more: its frames were unwound, or not. */
static void unwound_run(struct end *e)
{
	pthread_t t;

	link_bare(e);
	CHECK(!pthread_create(&t, NULL, receiver, &e->l.fd));
	prog_nap_ms(30);
	CHECK(!pthread_cancel(t));
	CHECK(!pthread_join(t, NULL));
	goes_on(e);
}

static void early_peer(struct end *e)
{
	prog_not_here(SIGALRM);
	link_bare(e);
	CHECK(prog_hear(e) == 1);
	link_put(&e->l, 1);
	prog_warm(&e->l, false, 200);
	CHECK(prog_hear(e) == 1);
	link_get(&e->l, prog_held(3000000));
	link_put(&e->l, prog_held(2000000));
	prog_tell(e, 1);
	link_put(&e->l, prog_held(1000000));
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
	pid_t tid; /* the sender */
};

static void *thrower(void *arg)
{
	struct long_send *l = arg;

	prog_asleep(l->tid, 200);
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

/* How much of it went is not known; a mark shows where it ends. */
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
	prog_asleep(l.tid, 200);
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
	struct long_send *l = arg;

	prog_asleep(l->tid, 100);
	CHECK(!shutdown(l->e->l.fd, SHUT_WR));
	return NULL;
}

/*
 * A send that is half done when its direction ends tells how far it came; the
 * signal is for the next.
 */
static void half_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_pipe }, old;
	struct long_send l = { e, (pid_t)syscall(SYS_gettid) };
	size_t n = 64 << 20;
	char *big = mmap(NULL, n, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t;
	ssize_t ret;

	CHECK(big != MAP_FAILED);
	atomic_store(&pipes, 0);
	CHECK(!sigaction(SIGPIPE, &sa, &old));
	CHECK(!pthread_create(&t, NULL, shutter, &l));
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

/* By a signal, on the small stack that a runtime gives to handlers. */
static void small_run(struct end *e)
{
	size_t guard = 65536;
	stack_t ss = { .ss_size = (getauxval(AT_MINSIGSTKSZ) + 4096) & ~15ul };
	int fd = socket(AF_INET, SOCK_STREAM, 0), status;
	uint8_t *mem;
	pid_t pid;

	(void)e;
	CHECK(fd >= 0);
	mem = mmap(NULL, 2 * guard, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mem != MAP_FAILED && !mprotect(mem, guard, PROT_NONE));
	ss.ss_sp = mem + guard;
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(!sigaltstack(&ss, NULL));
		CHECK(!kill(getpid(), SIGTERM));
		CHECK(!e);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	CHECK(!munmap(mem, 2 * guard) && !close(fd));
}

static const struct prog_case cases[] = {
	{ "cancel", cancel_run, ends_peer, 0 },
	{ "jump", jump_run, ends_peer, 0 },
	{ "early", early_run, early_peer, CASE_BARE },
	{ "unwound", unwound_run, early_peer, CASE_BARE },
	{ "fiber", fiber_run, early_peer, CASE_BARE },
	{ "thrown", thrown_run, thrown_peer, 0 },
	{ "stopped", stopped_run, thrown_peer, 0 },
	{ "half", half_run, half_peer, 0 },
	{ "small", small_run, NULL, CASE_SOLO },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
