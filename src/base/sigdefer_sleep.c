/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sleep that lets in what was put off; see sigdefer.h. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include "base/foreign.h"
#include "base/guard.h"
#include "base/pollmany.h"
#include "base/sigdefer.h"
#include "base/sigdefer_int.h"
#include "base/mem.h"
#include "base/sys.h"

#define LET_IN (-512) /* the kernel's own for "again": no call returns it */

/*
 * What the instructions below are given. They go outside, look whether a signal
 * that counts was put off, and if not, call the kernel; then they are inside
 * again, or else stay outside and say LET_IN.
 *
 * From sigdefer_window, where the thread is outside, to sigdefer_asleep, behind
 * the system call, nothing tells the kernel's sleep of a handler that has just
 * run. So the entry moves a thread that it finds there to sigdefer_moved, or to
 * sigdefer_again if the call is one that is made again. Where the kernel
 * restarts a call, a thread that sleeps is found there, too.
 */
struct asleep {
	uint64_t *epoch, *put_off;
	uint64_t counts; /* signals, bit number - 1 */
	uint64_t outside, inside; /* what *epoch becomes */
	long nr, arg[6];
	uint64_t restarts;
};
long sigdefer_stub(const struct asleep *a);
extern const char sigdefer_moved[], sigdefer_again[];

_Static_assert(SIGDEFER_AGAIN == -513 &&
		       offsetof(struct asleep, put_off) == 8 &&
		       offsetof(struct asleep, counts) == 16 &&
		       offsetof(struct asleep, outside) == 24 &&
		       offsetof(struct asleep, inside) == 32 &&
		       offsetof(struct asleep, nr) == 40 &&
		       offsetof(struct asleep, arg) == 48,
	       "as the instructions below have them");

#if defined(__x86_64__)
#define PC(uc)	   ((uc)->uc_mcontext.gregs[REG_RIP])
#define RESULT(uc) ((uc)->uc_mcontext.gregs[REG_RAX])
#define ARGS(uc)   ((uc)->uc_mcontext.gregs[REG_RBX])
/* rcx and r11 are the kernel's to change, and until then ours. */
__asm__(".text\n"
	".globl sigdefer_stub, sigdefer_window, sigdefer_asleep\n"
	".globl sigdefer_moved, sigdefer_again\n"
	".hidden sigdefer_stub, sigdefer_window, sigdefer_asleep\n"
	".hidden sigdefer_moved, sigdefer_again\n"
	".type sigdefer_stub, @function\n"
	".p2align 4\n"
	"sigdefer_stub:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %rbx, 0\n"
	"	pushq %r12\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %r12, 0\n"
	"	movq %rdi, %rbx\n"
	"	movq (%rbx), %r12\n"
	"	movq 40(%rbx), %rax\n"
	"	movq 48(%rbx), %rdi\n"
	"	movq 56(%rbx), %rsi\n"
	"	movq 64(%rbx), %rdx\n"
	"	movq 72(%rbx), %r10\n"
	"	movq 80(%rbx), %r8\n"
	"	movq 88(%rbx), %r9\n"
	"	movq 24(%rbx), %r11\n"
	"	movq 8(%rbx), %rcx\n"
	"	movq %r11, (%r12)\n" /* outside */
	"sigdefer_window:\n"
	"	movq 16(%rbx), %r11\n"
	"	testq %r11, (%rcx)\n"
	"	jnz 1f\n"
	"	syscall\n"
	"sigdefer_asleep:\n"
	"	movq 32(%rbx), %r11\n"
	"	movq %r11, (%r12)\n" /* inside */
	"2:	popq %r12\n"
	"	.cfi_remember_state\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore %r12\n"
	"	popq %rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore %rbx\n"
	"	ret\n"
	"	.cfi_restore_state\n"
	"1:	movq $-512, %rax\n"
	"	jmp 2b\n"
	"sigdefer_moved:\n"
	"	movq $-4, %rax\n"
	"	jmp sigdefer_asleep\n"
	"sigdefer_again:\n"
	"	movq $-513, %rax\n"
	"	jmp sigdefer_asleep\n"
	"	.cfi_endproc\n"
	".size sigdefer_stub, .-sigdefer_stub\n");
#elif defined(__aarch64__)
#define PC(uc)	   ((uc)->uc_mcontext.pc)
#define RESULT(uc) ((long)(uc)->uc_mcontext.regs[0])
#define ARGS(uc)   ((uc)->uc_mcontext.regs[9])
/* The kernel keeps all but x0. */
__asm__(".text\n"
	".globl sigdefer_stub, sigdefer_window, sigdefer_asleep\n"
	".globl sigdefer_moved, sigdefer_again\n"
	".hidden sigdefer_stub, sigdefer_window, sigdefer_asleep\n"
	".hidden sigdefer_moved, sigdefer_again\n"
	".type sigdefer_stub, %function\n"
	".p2align 4\n"
	"sigdefer_stub:\n"
	"	.cfi_startproc\n"
	"	hint 34\n" /* bti c */
	"	mov x9, x0\n"
	"	ldp x10, x11, [x9]\n"
	"	ldp x12, x13, [x9, 16]\n"
	"	ldr x14, [x9, 32]\n"
	"	ldr x8, [x9, 40]\n"
	"	ldp x0, x1, [x9, 48]\n"
	"	ldp x2, x3, [x9, 64]\n"
	"	ldp x4, x5, [x9, 80]\n"
	"	str x13, [x10]\n" /* outside */
	"sigdefer_window:\n"
	"	ldr x15, [x11]\n"
	"	tst x15, x12\n"
	"	b.ne 1f\n"
	"	svc 0\n"
	"sigdefer_asleep:\n"
	"	str x14, [x10]\n" /* inside */
	"	ret\n"
	"1:	mov x0, -512\n"
	"	ret\n"
	"sigdefer_moved:\n"
	"	mov x0, -4\n"
	"	b sigdefer_asleep\n"
	"sigdefer_again:\n"
	"	mov x0, -513\n"
	"	b sigdefer_asleep\n"
	"	.cfi_endproc\n"
	".size sigdefer_stub, .-sigdefer_stub\n");
#else
#error "libsdp: add the sleep's instructions of this processor here"
#endif

void sigdefer_awake(ucontext_t *uc, bool restarts)
{
	uintptr_t pc = (uintptr_t)PC(uc);
	const struct asleep *a;

	sigdefer_ran++;
	if (!restarts)
		sigdefer_ended++;
	if (pc < (uintptr_t)sigdefer_window || pc >= (uintptr_t)sigdefer_asleep)
		return;
	a = (const struct asleep *)(uintptr_t)ARGS(uc);
	PC(uc) = (__typeof__(PC(uc)))(uintptr_t)(restarts && a->restarts ?
							 sigdefer_again :
							 sigdefer_moved);
}

uint32_t sigdefer_handlers(void)
{
	return sigdefer_ran;
}

uint32_t sigdefer_no_restart(void)
{
	return sigdefer_ended;
}

bool sigdefer_back(const ucontext_t *uc)
{
	return (uintptr_t)PC(uc) == (uintptr_t)sigdefer_asleep &&
	       RESULT(uc) != -EINTR;
}

/*
 * As libc does it: for the time of the call a thread may be cancelled anywhere.
 * Nothing here is cleaned up, and the caller has a call here to unwind from.
 */
static int cancellable(void)
{
	int was = PTHREAD_CANCEL_ASYNCHRONOUS;

#if __has_include(<sys/single_threaded.h>)
	if (&__libc_single_threaded && __libc_single_threaded)
		return was;
#endif
	/* NOLINTNEXTLINE(cert-pos47-c): around one system call, as libc does */
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &was);
	return was;
}

static void cancellable_no_more(int was)
{
	if (was != PTHREAD_CANCEL_ASYNCHRONOUS)
		pthread_setcanceltype(was, NULL);
}

static long sleep_once(const struct asleep *a)
{
	int was = cancellable();
	long ret = sigdefer_stub(a);

	cancellable_no_more(was);
	return ret;
}

static uint64_t let_in_by(const void *mask)
{
	if (!mask)
		return UINT64_MAX;
	/* else the kernel says so, and nothing is let in */
	return mem_good(mask, sizeof(uint64_t), false) ?
		       ~*(const uint64_t *)mask :
		       0;
}

/*
 * Inside again, in a new epoch: the one from before the sleep would keep what
 * was retired meanwhile. One that is cancelled is cleaned up inside, too.
 */
struct back {
	struct guard *g; /* NULL: it was outside, or is in another call */
	uintptr_t frame;
};

static void come_back(struct back *b)
{
	if (b->g)
		guard_in(b->g, b->frame);
}

long sigdefer_sleep(const struct sigdefer_sleep *how)
{
	struct guard *g = guard_own ? guard_own : guard_slot();
	struct asleep a = { .epoch = &g->epoch,
			    .put_off = &g->put_off,
			    .outside = g->nested ? g->epoch : 0,
			    .inside = g->epoch,
			    .nr = how->nr,
			    .restarts = how->restarts };
	struct back back __attribute__((cleanup(come_back))) = { NULL, 0 };
	uint32_t ran = sigdefer_ran, ended = sigdefer_ended;
	long ret;
	int i;

	for (i = 0; i < 6; i++)
		a.arg[i] = how->arg[i];
	if (a.inside && !a.outside) {
		/* NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores): come_back() */
		back = (struct back){ g, g->frame };
		__atomic_store_n(&g->frame, 0, __ATOMIC_RELAXED);
	}
	if (!a.outside)
		a.counts = let_in_by(how->mask);
	while ((ret = sleep_once(&a)) == LET_IN) {
		sigdefer_let_in(g, g->put_off & a.counts);
		if (ended != sigdefer_ended ||
		    (ran != sigdefer_ran && !how->restarts))
			return -EINTR;
		if (ran != sigdefer_ran)
			return SIGDEFER_AGAIN;
	}
	return ret;
}

static long sleep_in(long nr, const long arg[6], const void *mask)
{
	struct sigdefer_sleep how = { .nr = nr, .mask = mask };

	memcpy(how.arg, arg, sizeof(how.arg));
	return sigdefer_sleep(&how);
}

int sigdefer_ppoll(struct pollfd *fds, size_t n, size_t theirs,
		   const struct timespec *ts, const void *mask)
{
	struct timespec left = ts ? *ts : (struct timespec){ 0 };
	struct sigdefer_sleep how = {
		.nr = SYS_ppoll,
		.arg = { (long)fds, (long)n, ts ? (long)&left : 0, (long)mask,
			 8 },
		.mask = mask,
	};
	int ret;

	ret = (int)sigdefer_sleep(&how);
	if (__builtin_expect(ret == -EINVAL && n, 0) &&
	    !pollmany_refused(theirs))
		return pollmany(fds, n, ts, mask, sleep_in);
	return ret;
}

long sigdefer_await(int fd, char *byte, bool restarts)
{
	struct sigdefer_sleep how = {
		.nr = SYS_recvfrom,
		.arg = { fd, (long)byte, 1, MSG_PEEK },
		.restarts = restarts,
	};

	return sigdefer_sleep(&how);
}
