/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The entry, and what it puts off; see sigdefer.h. */
#include "base/sigdefer.h"

#include <string.h>
#include <ucontext.h>

#include "base/guard.h"
#include "base/sigdefer_int.h"
#include "base/sys.h"
#include "base/table.h"
#include "base/ucopy.h"

#define SIGNALS 64
#define REAL	32 /* from here on they queue, in order */

/*
 * The one that counts is a[seq & 1]; the other is filled and then published.
 * So an entry that interrupts the change, in its own thread, has the old one.
 */
TABLE static struct {
	uint32_t seq; /* atomic */
	uint32_t spent; /* atomic; SA_RESETHAND of that seq has run, plus 1 */
	struct sigdefer_action a[2];
} table[SIGNALS + 1];

__thread uint32_t sigdefer_ran __attribute__((tls_model("initial-exec")));
__thread uint32_t sigdefer_ended __attribute__((tls_model("initial-exec")));

void (*sigdefer_default)(int sig, const struct sigdefer_action *was);

static bool off; /* atomic */

void sigdefer_end(void)
{
	__atomic_store_n(&off, true, __ATOMIC_RELAXED);
}

/* --- the table ------------------------------------------------------------ */

static uint32_t load(int sig, struct sigdefer_action *a)
{
	uint32_t seq, again;

	seq = __atomic_load_n(&table[sig].seq, __ATOMIC_ACQUIRE);
	for (;;) {
		*a = table[sig].a[seq & 1];
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		again = __atomic_load_n(&table[sig].seq, __ATOMIC_RELAXED);
		if (again == seq)
			return seq;
		seq = again;
	}
}

void sigdefer_get(int sig, struct sigdefer_action *a)
{
	load(sig, a);
}

void sigdefer_set(int sig, const struct sigdefer_action *a)
{
	uint32_t seq = table[sig].seq + 1;

	__atomic_thread_fence(__ATOMIC_RELEASE);
	table[sig].a[seq & 1] = *a;
	__atomic_store_n(&table[sig].seq, seq, __ATOMIC_RELEASE);
}

/* --- putting off ------------------------------------------------------------ */

/* To the end of the own thread's queue, as it came. */
static bool queue(int sig, const siginfo_t *si)
{
	return !sys_call6(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(),
			  sig, (long)si, 0, 0);
}

/*
 * Real-time signals come in the order of their queue. One that is put off was
 * its first and would become its last: so it is kept here, and a copy with a
 * mark goes to the end in its place. When they are let in, each that comes is
 * exchanged for the one that is kept, and the mark for the last. What others
 * queue meanwhile is behind the mark.
 */
#define KEPT 64

struct kept {
	uint32_t tid; /* atomic; of whose queue, 0: free */
	int sig;
	siginfo_t si;
};

TABLE static struct kept kept[KEPT];
static uint32_t kept_any; /* atomic */

#define MARK_AT 40 /* what a queued signal does not use of the kernel's 48 */

static struct kept *kept_of(uint32_t tid, int sig)
{
	int i;

	for (i = 0; i < KEPT; i++)
		if (__atomic_load_n(&kept[i].tid, __ATOMIC_RELAXED) == tid &&
		    kept[i].sig == sig)
			return &kept[i];
	return NULL;
}

static void keep_end(struct kept *k)
{
	__atomic_store_n(&k->tid, 0, __ATOMIC_RELEASE);
	__atomic_sub_fetch(&kept_any, 1, __ATOMIC_RELAXED);
}

static struct kept *keep(uint32_t tid, int sig, const siginfo_t *si)
{
	uint32_t none;
	int i;

	for (i = 0; i < KEPT; i++) {
		none = 0;
		if (!__atomic_compare_exchange_n(&kept[i].tid, &none, tid,
						 false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		__atomic_add_fetch(&kept_any, 1, __ATOMIC_RELAXED);
		kept[i].sig = sig;
		kept[i].si = *si;
		return &kept[i];
	}
	return NULL;
}

static bool is_mark(const siginfo_t *si, const struct kept *k)
{
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): the pointer is the mark */
	return !memcmp((const char *)si + MARK_AT, &k, sizeof(k));
}

static bool queue_mark(int sig, const siginfo_t *si, const struct kept *k)
{
	siginfo_t mark = *si;

	/* NOLINTNEXTLINE(bugprone-sizeof-expression) */
	memcpy((char *)&mark + MARK_AT, &k, sizeof(k));
	return queue(sig, &mark);
}

__attribute__((noinline)) static bool queue_real(int sig, const siginfo_t *si)
{
	uint32_t tid = (uint32_t)sys_gettid();
	struct kept *k = kept_of(tid, sig) ? NULL : keep(tid, sig, si);

	if (!k)
		return queue(sig, si);
	if (queue_mark(sig, si, k))
		return true;
	keep_end(k);
	return false;
}

/* Whose turn is it? *si is what came. */
static void turn_of(int sig, siginfo_t *si)
{
	struct kept *k = kept_of((uint32_t)sys_gettid(), sig);
	siginfo_t came = *si;

	if (!k)
		return;
	*si = k->si;
	if (is_mark(&came, k))
		keep_end(k);
	else
		k->si = came;
}

static uint64_t bit_of(int sig)
{
	return 1ull << (sig - 1);
}

static uint64_t *mask_of(ucontext_t *uc)
{
	return (uint64_t *)(void *)&uc->uc_sigmask;
}

static bool put_off(struct guard *g, int sig, const siginfo_t *si,
		    ucontext_t *uc)
{
	if (__atomic_load_n(&off, __ATOMIC_RELAXED))
		return false;
	if (!(sig >= REAL ? queue_real(sig, si) : queue(sig, si)))
		return false;
	*mask_of(uc) |= bit_of(sig);
	__atomic_or_fetch(&g->put_off, bit_of(sig), __ATOMIC_RELAXED);
	return true;
}

void sigdefer_let_in(struct guard *g, uint64_t set)
{
	__atomic_and_fetch(&g->put_off, ~set, __ATOMIC_RELAXED);
	sys_call6(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&set, 0, sizeof(set),
		  0, 0);
}

void guard_let_in(struct guard *g)
{
	sigdefer_let_in(g, g->put_off);
}

void sigdefer_forked(void)
{
	memset(kept, 0, sizeof(kept));
	kept_any = 0;
}

/* --- the entry ---------------------------------------------------------------- */

/* Raised by an instruction or a system call of the thread's own. */
static bool is_fault(int sig, const siginfo_t *si)
{
	switch (sig) {
	case SIGBUS:
		return si->si_code > 0 && si->si_code != BUS_MCEERR_AO;
	case SIGSEGV:
	case SIGFPE:
	case SIGILL:
	case SIGTRAP:
	case SIGSYS:
		return si->si_code > 0;
	}
	return false;
}

/*
 * As the kernel does with SA_RESETHAND, but only now. False: another thread was
 * first, and this one has what is set then.
 */
static bool reset(int sig, uint32_t seq, const struct sigdefer_action *a,
		  const siginfo_t *si)
{
	struct kernel_action dfl = {
		.flags = a->flags & ~(unsigned long)SA_SIGINFO, .mask = a->mask
	};

	if (__atomic_exchange_n(&table[sig].spent, seq + 1, __ATOMIC_ACQ_REL) ==
	    seq + 1) {
		queue(sig, si);
		return false;
	}
	if (sigdefer_default)
		sigdefer_default(sig, a);
	else
		sys_call6(SYS_rt_sigaction, sig, (long)&dfl, 0, 8, 0, 0);
	return true;
}

/*
 * What would have been without the entry, to the status, the siginfo and the
 * registers of the core. A fault comes again at the same instruction, and by a
 * signal that is blocked then the kernel ends the process. Anything else comes
 * again from the queue; the first process of a namespace is spared it.
 */
static void by_default(int sig, const siginfo_t *si, ucontext_t *uc, bool fault)
{
	struct kernel_action dfl = { .handler = SIG_DFL };

	if (fault)
		*mask_of(uc) |= bit_of(sig);
	if (fault || sys_getpid() == 1)
		return;
	sys_call6(SYS_rt_sigaction, sig, (long)&dfl, 0, 8, 0, 0);
	queue(sig, si);
}

static void run(int sig, siginfo_t *si, ucontext_t *uc, bool fault)
{
	struct sigdefer_action a;
	uint32_t seq = load(sig, &a);

	if (!a.handler) {
		by_default(sig, si, uc, fault);
		return;
	}
	if ((a.flags & SA_RESETHAND) && !reset(sig, seq, &a, si))
		return;
	if (!fault)
		sigdefer_awake(uc, a.flags & SA_RESTART);
	a.handler(sig, si, uc);
}

__attribute__((noinline)) static void run_real(int sig, const siginfo_t *came,
					       ucontext_t *uc)
{
	siginfo_t si = *came;

	turn_of(sig, &si);
	run(sig, &si, uc, false);
}

void sigdefer_entry(int sig, siginfo_t *si, void *context)
{
	bool fault = is_fault(sig, si);
	struct guard *g = guard_own;
	ucontext_t *uc = context;

	if (fault && ucopy_ends(sig, si, context))
		return;
	if (!fault && g && (g->epoch || sigdefer_back(uc)) &&
	    put_off(g, sig, si, uc))
		return;
	if (sig >= REAL && __atomic_load_n(&kept_any, __ATOMIC_RELAXED))
		run_real(sig, si, uc);
	else
		run(sig, si, uc, fault);
}
