/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Signals for the process while a thread holds them back: whose are they? The
 * first thread is kept from taking its own as one is that waits in vfork().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hold.h"
#include "socket/life/life.h"

#define CHILD_NS    20000000 /* so long the first thread can take nothing */
#define PATIENCE_NS 200000000u /* hold.c */
#define ROUNDS	    10

static pthread_t first;
static atomic_int by_first, by_other;
static atomic_bool *busy; /* shared with the child */
static uint64_t waited; /* so long, ns, a thread gave way */

static void on_signal(int sig)
{
	(void)sig;
	if (pthread_equal(pthread_self(), first))
		atomic_fetch_add(&by_first, 1);
	else
		atomic_fetch_add(&by_other, 1);
}

/* ThreadSanitizer puts handlers off until the next call that can wait. */
static void settle(void)
{
	usleep(1000);
}

/* In the kernel until its child has ended, whatever it lets in. */
static void be_busy(void)
{
	const struct timespec nap = { .tv_nsec = CHILD_NS };
	long pid = sys_call6(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0, 0);

	if (!pid) {
		atomic_store(busy, true);
		sys_call3(SYS_nanosleep, (long)&nap, 0, 0);
		sys_call3(SYS_exit_group, 0, 0, 0);
	}
	assert_true(pid > 0);
	while (waitpid((pid_t)pid, NULL, 0) != pid)
		;
	settle();
}

/* `how` the first thread takes it. */
static void reset(int how)
{
	struct sigaction sa = { .sa_handler = on_signal };
	sigset_t usr1;

	first = pthread_self();
	atomic_store(&by_first, 0);
	atomic_store(&by_other, 0);
	atomic_store(busy, false);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
	assert_int_equal(pthread_sigmask(how, &usr1, NULL), 0);
}

static void let_in(void)
{
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL), 0);
}

static void *holds(void *arg)
{
	struct hold h = { .on = false };
	bool own = arg != NULL;
	uint64_t since;

	let_in();
	while (!atomic_load(busy))
		usleep(100);
	hold_signals(&h);
	if (own)
		pthread_kill(pthread_self(), SIGUSR1);
	else
		kill(getpid(), SIGUSR1);
	since = clock_ns();
	hold_end(&h);
	waited = clock_ns() - since;
	settle();
	return NULL;
}

/* --- with memory lent (sigblock.h) -------------------------------------- */

struct settings settings = { .zcopy = SET_ZCOPY_AUTO };
struct sock_hooks hooks = { .ppoll = ppoll };
int32_t sock_pid;
static int tasks = -1; /* where the library sees how many threads there are */

void wait_away(struct sleep *in, struct sock *s, bool writer)
{
	(void)writer;
	in->s = s;
	lock_drop(&s->lock);
}

void wait_back(struct sleep *in)
{
	assert_int_equal(lock_take(&in->s->lock), 0);
	in->s = NULL;
}

void wait_cancelled(struct sleep *in)
{
	assert_null(in->s);
}

bool wait_restarts(uint64_t signals)
{
	return signals != UINT64_MAX && !(signals & ~(1ull << (SIGUSR1 - 1)));
}

int fd_hide(int fd)
{
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && S_ISDIR(st.st_mode))
		tasks = fd;
	return fd;
}

bool fd_move(int *fd, int from)
{
	(void)fd;
	(void)from;
	return false;
}

void fd_unhide(int fd)
{
	(void)fd;
}

static void *lends(void *own)
{
	struct sock *s = calloc(1, sizeof(*s));
	struct sigblock h = { .fd = -1 };
	struct pollfd p = { .events = POLLIN };
	uint64_t since;
	bool restarts;
	int n;

	let_in();
	while (!atomic_load(busy))
		usleep(100);
	assert_int_equal(lock_take(&s->lock), 0);
	assert_true(sigblock_begin(&h));
	if (own)
		pthread_kill(pthread_self(), SIGUSR1);
	else
		kill(getpid(), SIGUSR1);
	p.fd = h.fd;
	do { /* if this was kept off its processor, the first has taken it */
		n = poll(&p, 1, 10);
	} while (!n && !atomic_load(&by_first));
	assert_true(n >= 0);
	since = clock_ns();
	if (sigblock_heed(s, &h, &restarts) == -EINTR)
		assert_true(restarts);
	waited = clock_ns() - since;
	sigblock_end(s, &h);
	assert_int_equal(h.fd, -1);
	settle();
	free(s);
	return NULL;
}

/* Without others the first thread lends, else nothing unasked. */
static void *stays(void *end)
{
	while (!atomic_load((atomic_bool *)end))
		usleep(100);
	return NULL;
}

static bool may_lend(void)
{
	struct sigblock h = { .fd = -1 };
	bool may = sigblock_begin(&h);

	sigblock_drop(&h);
	return may;
}

/* Of a child of many threads only one is left, whatever it inherits. */
static void child_lends(void)
{
	int pid = fork(), status;

	assert_true(pid >= 0);
	if (!pid) {
		lock_forked();
		sock_pid = getpid();
		_exit(!may_lend() || !may_lend());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_lends(void **state)
{
	atomic_bool end = false;
	pthread_t t[2];
	int i;

	(void)state;
	sock_pid = getpid();
	reset(SIG_UNBLOCK);
	assert_true(may_lend());
	assert_true(tasks >= 0);
	for (i = 0; i < 2; i++) /* one counts as the library's */
		assert_int_equal(pthread_create(&t[i], NULL, stays, &end), 0);
	assert_false(may_lend());
	settings.zcopy = SET_ZCOPY_ALWAYS;
	assert_true(may_lend());
	settings.zcopy = SET_ZCOPY_AUTO;
	child_lends();
	/* the program may take its number for another file */
	assert_int_equal(dup2(STDIN_FILENO, tasks), tasks);
	assert_false(may_lend());
	atomic_store(&end, true);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
}

static void run(void *(*how)(void *), void *own)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, how, own), 0);
	be_busy();
	assert_int_equal(pthread_join(t, NULL), 0);
}

/* Another taker of it has waited as long as it has to. */
static void first_first(void *(*how)(void *))
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		reset(SIG_UNBLOCK);
		run(how, NULL);
		assert_int_equal(by_first + by_other, 1);
		assert_true(by_first || waited >= PATIENCE_NS);
	}
}

static void test_first(void **state)
{
	(void)state;
	first_first(holds);
	first_first(lends);
}

/*
 * A thread that gives way sleeps meanwhile, again and again; once only, if the
 * machine keeps it from its processor.
 */
static void *naps(void *arg)
{
	struct hold h = { .on = false };
	struct rusage before, after;

	let_in();
	hold_signals(&h);
	kill(getpid(), SIGUSR1);
	getrusage(RUSAGE_THREAD, &before);
	hold_give_way(&h);
	getrusage(RUSAGE_THREAD, &after);
	*(long *)arg = after.ru_nvcsw - before.ru_nvcsw;
	hold_end(&h);
	return NULL;
}

static void test_naps(void **state)
{
	struct lock_mask *own = &lock_mask;
	long n = 0;
	pthread_t t;
	int i;

	(void)state;
	for (i = 0; i < 20 && n < 10; i++) {
		reset(SIG_BLOCK);
		/* it says that it is about to let the signal in */
		own->held = HELD_SOON;
		assert_int_equal(pthread_create(&t, NULL, naps, &n), 0);
		assert_int_equal(pthread_join(t, NULL), 0);
		own->held = HELD_NOT;
		assert_int_equal(by_other, 1);
	}
	assert_true(n >= 10);
}

/* The first thread does not let it in. */
static void test_other(void **state)
{
	(void)state;
	reset(SIG_BLOCK);
	run(holds, NULL);
	run(lends, NULL);
	assert_int_equal(by_first, 0);
	assert_int_equal(by_other, 2);
}

/* Meant for the thread that holds it. */
static void test_own(void **state)
{
	(void)state;
	reset(SIG_UNBLOCK);
	run(holds, &first);
	run(lends, &first);
	assert_int_equal(by_first, 0);
	assert_int_equal(by_other, 2);
}

/* The first thread itself is not kept from its own. */
static void test_alone(void **state)
{
	struct hold h = { .on = false };

	(void)state;
	reset(SIG_UNBLOCK);
	hold_signals(&h);
	kill(getpid(), SIGUSR1);
	assert_int_equal(by_first, 0);
	hold_end(&h);
	settle();
	assert_int_equal(by_first, 1);
}

/*
 * The first thread holds it back itself, for a while; or is kept off its
 * processor at the end of that, with its lock mask off already
 * (hold_unblock()).
 */
static atomic_bool sent;

static void *ends_soon(void *arg)
{
	struct hold h = { .on = false };
	uint64_t since;

	(void)arg;
	let_in();
	hold_signals(&h);
	kill(getpid(), SIGUSR1);
	since = clock_ns();
	atomic_store(&sent, true);
	hold_end(&h);
	waited = clock_ns() - since;
	settle();
	return NULL;
}

static void test_both(void **state)
{
	struct hold h = { .on = false };
	pthread_t t;
	int i;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		reset(SIG_UNBLOCK);
		atomic_store(&sent, false);
		hold_signals(&h);
		assert_int_equal(pthread_create(&t, NULL, ends_soon, NULL), 0);
		while (!atomic_load(&sent))
			sys_call3(SYS_sched_yield, 0, 0, 0);
		if (i & 1)
			lock_mask_on(false);
		/* now the other would take it that does not wait */
		sys_call3(SYS_nanosleep,
			  (long)&(struct timespec){ .tv_nsec = CHILD_NS }, 0,
			  0);
		hold_end(&h);
		assert_int_equal(pthread_join(t, NULL), 0);
		settle();
		assert_int_equal(by_first + by_other, 1);
		assert_true(by_first || waited >= PATIENCE_NS);
	}
}

/* --- waiting for a lock meanwhile ----------------------------------------- */

static struct lock stopped; /* by a thread that waits for the handler */
static atomic_bool at_lock;

static void *wants(void *as)
{
	struct hold h = { .on = false };
	struct sigblock q = { .fd = -1 };

	let_in();
	if (as)
		assert_true(sigblock_begin(&q));
	else
		hold_signals(&h);
	atomic_store(&at_lock, true);
	assert_int_equal(lock_take(&stopped), 0);
	lock_drop(&stopped);
	if (as)
		sigblock_drop(&q);
	else
		hold_end(&h);
	return NULL;
}

static void stop(void *as)
{
	pthread_t t;
	int ms;

	reset(SIG_BLOCK);
	atomic_store(&at_lock, false);
	assert_int_equal(lock_take(&stopped), 0);
	assert_int_equal(pthread_create(&t, NULL, wants, as), 0);
	while (!atomic_load(&at_lock))
		usleep(100);
	pthread_kill(t, SIGUSR1);
	for (ms = 0; ms < 20000 && !atomic_load(&by_other); ms++)
		usleep(1000);
	ms = atomic_load(&by_other);
	lock_drop(&stopped);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(ms, 1);
}

static void test_lock(void **state)
{
	(void)state;
	stop(NULL);
	stop(&first);
}

static void test_status(void **state)
{
#define HEAD "Name:\tx\nState:\tS (sleeping)\nGroups:\t0 1 2\n"
#define PEND "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000e00\n"
	static const char dead[] = "Name:\tx\nState:\tZ (zombie)\n" PEND
				   "SigBlk:\t0000000000000000\n";
	static const char some[] = HEAD PEND "SigBlk:\t0000000000000200\n";
	struct lock_mask own = { .set = 0x400 };

	(void)state;
	assert_int_equal(hold_lets_in(some, NULL), 0xc00);
	assert_int_equal(hold_lets_in(some, &own), 0xc00);
	own.held = HELD_SOON;
	assert_int_equal(hold_lets_in(some, &own), 0xe00);
	own.held = HELD_BACK;
	assert_int_equal(hold_lets_in(some, &own), 0xa00);
	assert_int_equal(hold_lets_in(dead, &own), 0);
	assert_int_equal(hold_lets_in(HEAD, NULL), 0);
	assert_int_equal(hold_lets_in(HEAD PEND, NULL), 0);
	assert_int_equal(hold_lets_in(HEAD PEND "SigBlk:\t0000", NULL), 0);
	assert_int_equal(hold_lets_in("", NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),  cmocka_unit_test(test_other),
		cmocka_unit_test(test_own),    cmocka_unit_test(test_alone),
		cmocka_unit_test(test_status), cmocka_unit_test(test_lends),
		cmocka_unit_test(test_lock),   cmocka_unit_test(test_both),
		cmocka_unit_test(test_naps),
	};

	busy = mmap(NULL, sizeof(*busy), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (busy == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
