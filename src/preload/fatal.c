/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The line of statistics of a process that a signal ends (LIBSDP_STATS_FILE).
 *
 * Only if a line is asked for, from the first managed socket on, a signal that
 * would end the process comes here first: the line is written, and then the
 * signal does what it would have done. The program does not notice: what it
 * sets goes before, and where it looks it finds the default. SIGKILL, a stack
 * that is full and calls unseen by the library leave no line.
 */
#include "preload/fd/real.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/sigdefer.h"
#include "base/sys.h"
#include "base/ucopy.h"
#include "config/config.h"
#include "preload/preload.h"

static const int fatal[] = {
	SIGHUP,	 SIGINT,  SIGQUIT, SIGILL,    SIGABRT, SIGBUS,
	SIGFPE,	 SIGSEGV, SIGUSR1, SIGUSR2,   SIGPIPE, SIGALRM,
	SIGTERM, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGSYS,
};
#define FATALS (sizeof(fatal) / sizeof(fatal[0]))

static uint64_t watched; /* bit per signal whose default is ours */

bool fatal_watches(int sig)
{
	return sig > 0 && sig < 64 &&
	       __atomic_load_n(&watched, __ATOMIC_RELAXED) >> sig & 1;
}

/* The instruction that made it comes again, and so does the signal. */
static bool comes_again(int sig, const siginfo_t *si)
{
	/* asked last: one set again by sigset() left us without */
	return (sig == SIGSEGV || sig == SIGBUS || sig == SIGILL ||
		sig == SIGFPE) &&
	       si->si_code > 0;
}

static void ending(int sig, siginfo_t *si, void *context)
{
	struct sigaction dfl;
	int keep = errno;

	if (ucopy_ends(sig, si, context))
		return;
	if (fdt_is_owner())
		sock_killed();
	memset(&dfl, 0, sizeof(dfl));
	dfl.sa_handler = SIG_DFL;
	real_sigaction(sig, &dfl, NULL);
	/* blocked until this function returns */
	if (!comes_again(sig, si))
		sys_call3(SYS_tgkill, sys_getpid(), sys_gettid(), sig);
	errno = keep;
}

static bool is_ours(const struct sigaction *sa)
{
	return sa->sa_flags & SA_SIGINFO && sa->sa_sigaction == ending;
}

static void watch(int sig)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = ending;
	sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	sigfillset(&sa.sa_mask);
	real_sigaction(sig, &sa, NULL);
}

/* SA_SIGINFO or not: the kernel looks at the handler alone, and so does PHP. */
static bool is_default(const struct sigaction *sa)
{
	return sa->sa_handler == SIG_DFL;
}

/*
 * The kernel spares the first process of a namespace what it does not handle:
 * that one must not begin to handle anything.
 */
void fatal_begin(void)
{
	static bool begun;
	struct sigaction sa;
	int keep = errno;
	size_t i;

	if (likely(begun))
		return;
	begun = true;
	if (!config.stats_file[0] || sys_getpid() == 1)
		return;
	for (i = 0; i < FATALS; i++) {
		__atomic_or_fetch(&watched, 1ull << fatal[i], __ATOMIC_RELAXED);
		if (!real_sigaction(fatal[i], NULL, &sa) && is_default(&sa))
			watch(fatal[i]);
	}
	errno = keep;
}

void fatal_end(void)
{
	struct sigaction sa, dfl;
	size_t i;

	if (!__atomic_exchange_n(&watched, 0, __ATOMIC_RELAXED))
		return;
	memset(&dfl, 0, sizeof(dfl));
	dfl.sa_handler = SIG_DFL;
	for (i = 0; i < FATALS; i++)
		if (!real_sigaction(fatal[i], NULL, &sa) && is_ours(&sa))
			real_sigaction(fatal[i], &dfl, NULL);
}

int fatal_action(int sig, const struct sigaction *sa, struct sigaction *was)
{
	int ret;

	if (likely(!watched) || !fatal_watches(sig) || !sa || !is_default(sa))
		return real_sigaction(sig, sa, was);
	ret = real_sigaction(sig, NULL, was);
	if (!ret && !is_ours(was))
		watch(sig);
	return ret;
}

void fatal_seen(struct sigaction *was)
{
	if (!is_ours(was))
		return;
	memset(was, 0, sizeof(*was));
	was->sa_handler = SIG_DFL;
}

void fatal_default(int sig, const struct sigdefer_action *was)
{
	struct sigaction dfl;

	if (fatal_watches(sig)) {
		watch(sig);
		return;
	}
	memset(&dfl, 0, sizeof(dfl));
	memcpy(&dfl.sa_mask, &was->mask, sizeof(was->mask));
	dfl.sa_flags = (int)was->flags;
	dfl.sa_handler = SIG_DFL;
	real_sigaction(sig, &dfl, NULL);
}
