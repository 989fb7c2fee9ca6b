/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sigaction() and its kin: in the kernel a handler of the program is the
 * library's entry (sigdefer.h), as long as rules may concern the process. What
 * the program asks back is what it set, while the kernel still has the entry;
 * else what the kernel has. SIG_DFL and SIG_IGN go there as they are, but for
 * what fatal.c does with the default, and that from the first managed socket on
 * the default of SIGSEGV and SIGBUS is the entry's, too: copies may fault
 * (ucopy.h).
 *
 * libc's own functions go past these names, so each that sets a handler or
 * tells one is caught by itself.
 */
#include "preload/fd/real.h"

#include <string.h>

#include "base/lock.h"
#include "base/sigdefer.h"
#include "base/sys.h"
#include "preload/preload.h"

#define HANDLERS 64

static bool on; /* atomic: handlers are the entry from here on */
static bool copies; /* atomic: so is the default of a fault */
static uint64_t early; /* atomic; signals that had a handler before */
static uint64_t interrupts; /* atomic; siginterrupt(sig, 1) */
static struct lock lock; /* of the entry's table */
static int own_pid;

static uint64_t bit_of(int sig)
{
	return 1ull << (sig - 1);
}

static bool is_handler(const struct sigaction *sa)
{
	return sa->sa_handler != SIG_DFL && sa->sa_handler != SIG_IGN &&
	       sa->sa_handler != SIG_ERR;
}

static bool is_entry(const struct sigaction *sa)
{
	return sa->sa_sigaction == sigdefer_entry;
}

static uint64_t *word_of(sigset_t *set)
{
	return (uint64_t *)(void *)set;
}

/* --- there and back --------------------------------------------------------- */

static void to_table(int sig, const struct sigaction *sa)
{
	sigset_t mask = sa->sa_mask;
	struct sigdefer_action a = { .handler = sa->sa_sigaction,
				     .flags = (unsigned long)sa->sa_flags,
				     .mask = *word_of(&mask) };

	sigdefer_set(sig, &a);
}

/*
 * Flags that it does not know, and signals that cannot be blocked, the kernel
 * leaves out.
 */
static void from_table(const struct sigdefer_action *a, struct sigaction *sa)
{
	const int own = SA_SIGINFO | (int)SA_RESETHAND;

	sa->sa_sigaction = a->handler;
	if (!a->handler) {
		sa->sa_flags = (int)a->flags;
		*word_of(&sa->sa_mask) = a->mask;
		return;
	}
	sa->sa_flags = (sa->sa_flags & ~own) | ((int)a->flags & own);
}

static bool faults(int sig)
{
	return (sig == SIGSEGV || sig == SIGBUS) &&
	       __atomic_load_n(&copies, __ATOMIC_RELAXED) &&
	       !fatal_watches(sig);
}

/* With the lock: the entry, or what else the kernel is to have. */
static int set(int sig, const struct sigaction *sa, struct sigaction *was)
{
	struct sigaction entry;
	bool dfl = sa && sa->sa_handler == SIG_DFL;

	if (!sa || !(is_handler(sa) || (dfl && faults(sig))))
		return fatal_action(sig, sa, was);
	to_table(sig, sa);
	entry = *sa;
	entry.sa_sigaction = sigdefer_entry;
	entry.sa_flags = (sa->sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
	if (dfl) {
		entry.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
		sigemptyset(&entry.sa_mask);
	}
	return real_sigaction(sig, &entry, was);
}

/* With the lock; *was: as the program sees it. */
static int exchange(int sig, const struct sigaction *sa, struct sigaction *was)
{
	struct sigdefer_action before;
	int ret;

	sigdefer_get(sig, &before);
	ret = set(sig, sa, was);
	if (!ret && is_entry(was))
		from_table(&before, was);
	else if (!ret)
		fatal_seen(was);
	return ret;
}

/* The child of a vfork() has handlers of its own, but our table. */
static bool is_child(void)
{
	return unlikely(fdt_vforked) && sys_getpid() != own_pid;
}

static bool is_ours(int sig)
{
	return __atomic_load_n(&on, __ATOMIC_RELAXED) && sig > 0 &&
	       sig <= HANDLERS && !is_child();
}

/* Set past the table, for now. */
static void note_early(int sig)
{
	if (sig > 0 && sig <= HANDLERS && !is_child())
		__atomic_or_fetch(&early, bit_of(sig), __ATOMIC_RELAXED);
}

/* What libc's functions say was set. */
static sighandler_t seen(int sig, sighandler_t was)
{
	struct sigdefer_action a;

	if (was != (sighandler_t)(void (*)(void))sigdefer_entry)
		return was;
	sigdefer_get(sig, &a);
	return (sighandler_t)(void (*)(void))a.handler;
}

/*
 * All signals are blocked meanwhile: a handler that is set may come at once,
 * and set another.
 */
static int change(int sig, const struct sigaction *sa, struct sigaction *old)
{
	uint64_t all = UINT64_MAX, mask;
	struct sigaction was;
	int ret;

	sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&mask, 8, 0,
		  0);
	lock_take(&lock);
	ret = exchange(sig, sa, &was);
	lock_drop(&lock);
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, 8, 0, 0);
	if (!ret && old)
		*old = was;
	return ret;
}

int do_sigaction(int sig, const struct sigaction *sa, struct sigaction *old)
{
	struct sigdefer_action a;
	struct sigaction was;
	int ret;

	if (is_ours(sig))
		return change(sig, sa, old);
	ret = real_sigaction(sig, sa, &was);
	if (ret)
		return ret;
	if (sa)
		note_early(sig);
	if (is_entry(&was)) {
		sigdefer_get(sig, &a);
		from_table(&a, &was);
	}
	if (old)
		*old = was;
	return 0;
}

void sigaction_begin(void)
{
	struct sigaction sa;
	uint64_t left;
	int sig;

	if (__atomic_exchange_n(&on, true, __ATOMIC_RELAXED))
		return;
	own_pid = sys_getpid();
	sigdefer_default = fatal_default;
	left = __atomic_load_n(&early, __ATOMIC_RELAXED);
	for (; left; left &= left - 1) {
		sig = __builtin_ctzll(left) + 1;
		if (!real_sigaction(sig, NULL, &sa) && is_handler(&sa) &&
		    !is_entry(&sa))
			change(sig, &sa, NULL);
	}
}

void sigaction_end(void)
{
	__atomic_store_n(&on, false, __ATOMIC_RELAXED);
}

void sigaction_faults(void)
{
	static const int sig[] = { SIGSEGV, SIGBUS };
	struct sigaction sa;
	size_t i;

	if (likely(__atomic_load_n(&copies, __ATOMIC_RELAXED)) || is_child() ||
	    __atomic_exchange_n(&copies, true, __ATOMIC_RELAXED))
		return;
	for (i = 0; i < sizeof(sig) / sizeof(sig[0]); i++)
		if (!real_sigaction(sig[i], NULL, &sa) &&
		    sa.sa_handler == SIG_DFL)
			change(sig[i], &sa, NULL);
}

void sigaction_forked(void)
{
	own_pid = sys_getpid();
	lock.word = 0;
	sigdefer_forked();
}

/* --- the older ways ----------------------------------------------------------- */

static sighandler_t set_handler(int sig, sighandler_t handler, int flags,
				uint64_t mask)
{
	struct sigaction sa, old;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = handler;
	sa.sa_flags = flags;
	*word_of(&sa.sa_mask) = mask;
	return do_sigaction(sig, &sa, &old) ? SIG_ERR : old.sa_handler;
}

/* libc has the signal itself in the mask, too. */
sighandler_t do_signal(int sig, sighandler_t handler)
{
	uint64_t set = __atomic_load_n(&interrupts, __ATOMIC_RELAXED);

	if (!is_ours(sig)) {
		note_early(sig);
		return seen(sig, real_signal(sig, handler));
	}
	return set_handler(sig, handler, set & bit_of(sig) ? 0 : SA_RESTART,
			   bit_of(sig));
}

sighandler_t do___sysv_signal(int sig, sighandler_t handler)
{
	if (!is_ours(sig)) {
		note_early(sig);
		return seen(sig, real___sysv_signal(sig, handler));
	}
	return set_handler(sig, handler, (int)SA_RESETHAND | SA_NODEFER, 0);
}

#define HOLD ((sighandler_t)2) /* libc's SIG_HOLD */

/* How it was with the signal: HOLD if it was blocked. */
static sighandler_t held(uint64_t mask, int sig, sighandler_t was)
{
	return mask & bit_of(sig) ? HOLD : was;
}

sighandler_t do_sigset(int sig, sighandler_t handler)
{
	struct sigaction old;
	sighandler_t was;
	uint64_t set, mask;

	if (!is_ours(sig)) {
		note_early(sig);
		return seen(sig, real_sigset(sig, handler));
	}
	set = bit_of(sig);
	if (handler == HOLD) {
		if (do_sigaction(sig, NULL, &old))
			return SIG_ERR;
		sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&set,
			  (long)&mask, 8, 0, 0);
		return held(mask, sig, old.sa_handler);
	}
	was = set_handler(sig, handler, 0, 0);
	if (was == SIG_ERR)
		return was;
	sys_call6(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&set, (long)&mask, 8,
		  0, 0);
	return held(mask, sig, was);
}

/* The signal() above asks us, not libc. */
int do_siginterrupt(int sig, int flag)
{
	struct sigaction sa;

	if (sig > 0 && sig <= HANDLERS && flag)
		__atomic_or_fetch(&interrupts, bit_of(sig), __ATOMIC_RELAXED);
	else if (sig > 0 && sig <= HANDLERS)
		__atomic_and_fetch(&interrupts, ~bit_of(sig), __ATOMIC_RELAXED);
	if (!is_ours(sig))
		return real_siginterrupt(sig, flag);
	if (do_sigaction(sig, NULL, &sa))
		return -1;
	if (flag)
		sa.sa_flags &= ~SA_RESTART;
	else
		sa.sa_flags |= SA_RESTART;
	return do_sigaction(sig, &sa, NULL);
}
