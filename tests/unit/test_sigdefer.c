/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Signals that come while a thread is inside, and sleeps that let them in. For
 * the sleeps a thread is stepped to each of their instructions, up to the
 * system call, and gets one signal there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/sigdefer.h"
#include "base/sys.h"

#define MOST 64
#define HANG 5 /* seconds, then a step counts as a hang */

static volatile int hits, values[MOST], inside_hits;
static volatile pid_t from;

static void note(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)context;
	inside_hits += guard_inside();
	from = si->si_pid;
	if (hits < MOST)
		values[hits] = si->si_value.sival_int;
	hits++;
}

/* As preload does it. */
static void handle(int sig, void (*handler)(int, siginfo_t *, void *),
		   unsigned long flags)
{
	struct sigdefer_action a = { .handler = handler, .flags = flags };
	struct sigaction sa = { .sa_sigaction = sigdefer_entry };

	sa.sa_flags = (int)(flags & SA_RESTART) | SA_SIGINFO;
	sigdefer_set(sig, &a);
	assert_int_equal(sigaction(sig, &sa, NULL), 0);
	hits = inside_hits = 0;
	from = 0;
}

static bool is_blocked(int sig)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	return sigismember(&now, sig);
}

/* A call in a call, from a frame below. */
__attribute__((noinline)) static void nested(void)
{
	guard_leave(guard_enter());
}

/* --- inside --------------------------------------------------------------- */

static void outside_at_once(void **state)
{
	(void)state;
	handle(SIGUSR1, note, 0);
	raise(SIGUSR1);
	assert_int_equal(hits, 1);
	guard_leave(guard_enter());
	raise(SIGUSR1);
	assert_int_equal(hits, 2);
}

static void inside_put_off(void **state)
{
	uint64_t was;

	(void)state;
	handle(SIGUSR1, note, 0);
	handle(SIGUSR2, note, 0);
	was = guard_enter();
	raise(SIGUSR1);
	raise(SIGUSR2);
	assert_int_equal(hits, 0);
	assert_true(is_blocked(SIGUSR1));
	nested();
	assert_int_equal(hits, 0);
	guard_leave(was);
	assert_int_equal(hits, 2);
	assert_int_equal(inside_hits, 0);
	assert_int_equal(from, getpid());
	assert_false(is_blocked(SIGUSR1));
	assert_false(is_blocked(SIGUSR2));
}

static void others_stay_blocked(void **state)
{
	sigset_t own, before;
	uint64_t was;

	(void)state;
	handle(SIGUSR1, note, 0);
	handle(SIGUSR2, note, 0);
	sigemptyset(&own);
	sigaddset(&own, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &own, &before);
	was = guard_enter();
	raise(SIGUSR1);
	raise(SIGUSR2);
	guard_leave(was);
	assert_int_equal(hits, 1);
	assert_true(is_blocked(SIGUSR2));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	assert_int_equal(hits, 2);
}

/* Queued by another thread in one go, while this one is inside. */
static void *queue_values(void *arg)
{
	const pthread_t *to = arg;
	union sigval v;

	for (v.sival_int = 1; v.sival_int <= MOST / 2; v.sival_int++)
		assert_int_equal(pthread_sigqueue(*to, SIGRTMIN, v), 0);
	return NULL;
}

static void in_order(unsigned long flags)
{
	pthread_t self = pthread_self(), t;
	int round, i;
	uint64_t was;

	for (round = 0; round < 50; round++) {
		handle(SIGRTMIN, note, flags);
		assert_int_equal(pthread_create(&t, NULL, queue_values, &self),
				 0);
		for (i = 0; i < 100000 && hits < MOST / 2; i++) {
			was = guard_enter();
			__atomic_signal_fence(__ATOMIC_SEQ_CST);
			guard_leave(was);
		}
		pthread_join(t, NULL);
		while (hits < MOST / 2)
			guard_leave(guard_enter());
		assert_int_equal(hits, MOST / 2);
		for (i = 0; i < MOST / 2; i++)
			assert_int_equal(values[i], i + 1);
	}
}

static void real_time_order(void **state)
{
	(void)state;
	in_order(SA_SIGINFO);
}

/* The first is put off, the others come when it is. */
static void real_time_all_put_off(void **state)
{
	union sigval v;
	uint64_t was;
	int i;

	(void)state;
	handle(SIGRTMIN, note, SA_SIGINFO);
	was = guard_enter();
	for (v.sival_int = 1; v.sival_int < 6; v.sival_int++)
		assert_int_equal(pthread_sigqueue(pthread_self(), SIGRTMIN, v),
				 0);
	assert_int_equal(hits, 0);
	guard_leave(was);
	assert_int_equal(hits, 5);
	for (i = 0; i < 5; i++)
		assert_int_equal(values[i], i + 1);
	assert_false(is_blocked(SIGRTMIN));
}

/* The queue takes nothing: it is not lost. */
static void queue_full(void **state)
{
	struct rlimit rl, none;
	union sigval v = { .sival_int = 7 };
	uint64_t was;

	(void)state;
	handle(SIGRTMIN, note, SA_SIGINFO);
	getrlimit(RLIMIT_SIGPENDING, &rl);
	was = guard_enter();
	none = (struct rlimit){ 0, rl.rlim_max };
	assert_int_equal(pthread_sigqueue(pthread_self(), SIGRTMIN, v), 0);
	guard_leave(was);
	assert_int_equal(hits, 1);
	setrlimit(RLIMIT_SIGPENDING, &none);
	handle(SIGUSR1, note, SA_SIGINFO);
	was = guard_enter();
	raise(SIGUSR1);
	guard_leave(was);
	assert_int_equal(hits, 1);
	setrlimit(RLIMIT_SIGPENDING, &rl);
}

static sigjmp_buf out;
static volatile int *volatile nowhere;

static void jump(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)si;
	(void)context;
	hits++;
	siglongjmp(out, 1);
}

/* What an instruction raised has to be seen there. */
static void faults_at_once(void **state)
{
	volatile uint64_t was;

	(void)state;
	handle(SIGFPE, note, SA_SIGINFO);
	handle(SIGSEGV, jump, SA_SIGINFO);
	was = guard_enter();
	raise(SIGFPE); /* by kill() it is like any other */
	assert_int_equal(hits, 0);
	if (!sigsetjmp(out, 1))
		*nowhere = 0;
	assert_int_equal(hits, 1);
	hits = 0;
	guard_leave(was);
	assert_int_equal(hits, 1);
	signal(SIGSEGV, SIG_DFL);
}

static void reset_by_entry(void **state)
{
	struct sigaction sa;
	uint64_t was;

	(void)state;
	handle(SIGTERM, note, SA_RESETHAND);
	was = guard_enter();
	raise(SIGTERM);
	guard_leave(was);
	assert_int_equal(hits, 1);
	assert_int_equal(sigaction(SIGTERM, NULL, &sa), 0);
	assert_true(sa.sa_handler == SIG_DFL);
}

/* --- sleeps ------------------------------------------------------------------ */

struct way {
	bool await; /* recv(), which is restarted; else ppoll() */
	unsigned long flags;
	bool blocked; /* ppoll() has it in its mask */
};

/* How a sleep ends that gets a signal and, if that does not end it, a byte. */
static int sleep_by(const struct way *w, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	sigset_t mask;
	char byte;
	int ret;

	sigemptyset(&mask);
	if (w->blocked)
		sigaddset(&mask, SIGUSR1);
	if (w->await) {
		ret = (int)sigdefer_await(fd, &byte, true);
		if (ret == SIGDEFER_AGAIN && hits)
			ret = (int)sigdefer_await(fd, &byte, true);
		return ret;
	}
	return sigdefer_ppoll(&p, 1, 0, NULL, w->blocked ? &mask : NULL);
}

static bool ends(const struct way *w)
{
	return !w->blocked && !(w->await && (w->flags & SA_RESTART));
}

static void stepped(const struct way *w, int fd)
{
	uint64_t was;
	int ret;

	handle(SIGUSR1, note, w->flags);
	alarm(HANG);
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	was = guard_enter();
	raise(SIGSTOP);
	ret = sleep_by(w, fd);
	if (!guard_inside() || inside_hits)
		_exit(3);
	guard_leave(was);
	_exit(hits != 1 || ret != (ends(w) ? -EINTR : 1));
}

static uintptr_t pc_of(pid_t pid)
{
	struct user_regs_struct r;
	struct iovec iov = { &r, sizeof(r) };

	assert_int_equal(ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &iov), 0);
#ifdef __x86_64__
	return (uintptr_t)r.rip;
#else
	return (uintptr_t)r.pc;
#endif
}

#ifdef __x86_64__
#define CALL_LEN 2
#else
#define CALL_LEN 4
#endif

/*
 * Steps to the k-th instruction, or the system call. Returns how many it took.
 */
static int step(pid_t pid, int k)
{
	int status, i;

	for (i = 0; i < k; i++) {
		if (pc_of(pid) == (uintptr_t)sigdefer_asleep - CALL_LEN)
			break;
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, 0, 0), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
	}
	return i;
}

/* A signal at the k-th instruction. Returns which one it was. */
static int signal_at(const struct way *w, int k)
{
	int sv[2], status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	pid = fork();
	if (!pid)
		stepped(w, sv[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	k = step(pid, k);
	assert_int_equal(ptrace(PTRACE_DETACH, pid, 0, SIGUSR1), 0);
	if (!ends(w))
		assert_int_equal(write(sv[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		print_error("step %d: status %x\n", k, (unsigned int)status);
	assert_int_equal(status, 0);
	close(sv[0]);
	close(sv[1]);
	return k;
}

/* Each of the last ones, and some of those before. */
static void each_step(const struct way *w)
{
	int last = signal_at(w, INT32_MAX), k;

	assert_true(last > 50);
	for (k = last - 40; k < last; k++)
		signal_at(w, k);
	for (k = 1; k < last - 40; k *= 2)
		signal_at(w, k);
}

static void ends_poll(void **state)
{
	const struct way w = { .flags = 0 };

	(void)state;
	each_step(&w);
}

static void ends_poll_that_restarts(void **state)
{
	const struct way w = { .flags = SA_RESTART };

	(void)state;
	each_step(&w);
}

static void ends_receive(void **state)
{
	const struct way w = { .await = true };

	(void)state;
	each_step(&w);
}

static void restarts_receive(void **state)
{
	const struct way w = { .await = true, .flags = SA_RESTART };

	(void)state;
	each_step(&w);
}

/* One that was put off before, and that the call itself does not let in. */
static void mask_of_the_call(void **state)
{
	const struct way w = { .blocked = true };
	int sv[2];
	uint64_t was;

	(void)state;
	handle(SIGUSR1, note, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	assert_int_equal(write(sv[1], "", 1), 1);
	was = guard_enter();
	raise(SIGUSR1);
	assert_int_equal(sleep_by(&w, sv[0]), 1);
	assert_int_equal(hits, 0);
	guard_leave(was);
	assert_int_equal(hits, 1);
	close(sv[0]);
	close(sv[1]);
}

/* --- cancellation -------------------------------------------------------------- */

static atomic_bool cleaned;

static void clean(int *unused)
{
	(void)unused;
	atomic_store(&cleaned, true);
}

static void *sleeper(void *arg)
{
	__attribute__((cleanup(clean))) int cleans = 0;

	(void)cleans;
	guard_enter();
	sigdefer_ppoll(NULL, 0, 0, NULL, NULL);
	return arg;
}

static void cancelled(void **state)
{
	struct timespec ms = { 0, 1000000 };
	pthread_t t;
	void *ret;
	int i;

	(void)state;
	for (i = 0; i < 20; i++) {
		atomic_store(&cleaned, false);
		assert_int_equal(pthread_create(&t, NULL, sleeper, NULL), 0);
		if (i % 2)
			nanosleep(&ms, NULL);
		assert_int_equal(pthread_cancel(t), 0);
		assert_int_equal(pthread_join(t, &ret), 0);
		assert_ptr_equal(ret, PTHREAD_CANCELED);
		assert_true(atomic_load(&cleaned));
	}
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#else
#define UNDER_SANITIZER 0
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outside_at_once),
		cmocka_unit_test(inside_put_off),
		cmocka_unit_test(others_stay_blocked),
		cmocka_unit_test(real_time_order),
		cmocka_unit_test(real_time_all_put_off),
		cmocka_unit_test(queue_full),
		cmocka_unit_test(faults_at_once),
		cmocka_unit_test(reset_by_entry),
		cmocka_unit_test(ends_poll),
		cmocka_unit_test(ends_poll_that_restarts),
		cmocka_unit_test(ends_receive),
		cmocka_unit_test(restarts_receive),
		cmocka_unit_test(mask_of_the_call),
		cmocka_unit_test(cancelled),
	};

	if (UNDER_SANITIZER)
		return 77; /* it puts signals off by itself */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
