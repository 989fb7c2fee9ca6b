/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls that a thread is inside of, counted, and that a signal handler may jump
 * out of (siglongjmp, the classic time-out), which unwinds nothing.
 *
 * A jump by libc's functions is announced (sock_jumping()): what lies below its
 * target is left. One that is not announced shows later: a thread that comes
 * here again from no deeper on the same stack has left, or from so little
 * deeper that no signal's frame lies in between, or that finds something else
 * where the frame was.
 */

#include <signal.h>

#include "base/mem.h"
#include "socket/transport/transport.h"

#define SIGNAL_FRAME 640 /* siginfo, registers and floating point at least */
#define STACK_MOST   (1ul << 26) /* between two frames of one stack */
#define PAGE	     4096 /* the smallest there is */

__thread struct tcp_inside tcp_inside
	__attribute__((tls_model("initial-exec")));

/* And the socks that it sleeps on in a poll() of the kernel. */
#define DOZES 8

static __thread struct {
	uint32_t number[DOZES];
	struct sock *s[DOZES];
	uintptr_t at;
	bool left;
} dozing __attribute__((tls_model("initial-exec")));

/* --- what is noted ------------------------------------------------------ */

/*
 * A handler may do the same in between, and ends what it began, or jumps: so
 * the place is taken first.
 */
struct inside *inside_begin(enum inside_kind kind, const void *at)
{
	struct inside *in;

	if (unlikely(tcp_inside.n == INSIDE_CALLS))
		return NULL;
	in = &tcp_inside.call[tcp_inside.n];
	in->s = NULL;
	__atomic_store_n(&tcp_inside.n, tcp_inside.n + 1, __ATOMIC_RELEASE);
	in->at = (uintptr_t)at;
	in->kind = (uint8_t)kind;
	in->left = in->parents = false;
	if (kind == INSIDE_RX)
		in->rx.held = NULL;
	return in;
}

struct inside *inside_of(const void *at)
{
	uint32_t i = tcp_inside.n;

	while (i-- > 0)
		if (tcp_inside.call[i].at == (uintptr_t)at)
			return &tcp_inside.call[i];
	return NULL;
}

/* What is over at the end of the row gives its places back. */
static void trim(void)
{
	while (tcp_inside.n && !tcp_inside.call[tcp_inside.n - 1].at)
		__atomic_store_n(&tcp_inside.n, tcp_inside.n - 1,
				 __ATOMIC_RELEASE);
}

bool inside_end(const void *at)
{
	struct inside *in = inside_of(at);
	bool own;

	if (unlikely(!in))
		return false;
	own = !in->parents; /* it comes back, too */
	inside_set(in, NULL);
	__atomic_store_n(&in->at, 0, __ATOMIC_RELEASE);
	trim();
	return own;
}

/* --- jumps -------------------------------------------------------------- */

static void doze_over(void)
{
	while (tcp_inside.dozes) {
		tcp_inside.dozes--;
		sock_awake(dozing.s[tcp_inside.dozes],
			   dozing.number[tcp_inside.dozes]);
	}
	dozing.left = false;
}

/* Does what began at `at`, with s in front, still lie there? */
static bool lies(uintptr_t at, const struct sock *s)
{
	return mem_there((const void *)at, false) &&
	       *(struct sock *const volatile *)at == s;
}

/* Counts out the i-th and all in its handlers. */
static void leave_from(uint32_t i)
{
	while (tcp_inside.n > i) {
		struct inside in = tcp_inside.call[tcp_inside.n - 1];
		struct sleep sleep = { in.s, in.sleeper };
		struct tcp_rx rx = { .s = in.s,
				     .d = in.rx.d,
				     .held = in.rx.held };
		struct tcp_tx tx = { in.s, false };

		__atomic_store_n(&tcp_inside.n, tcp_inside.n - 1,
				 __ATOMIC_RELEASE);
		if (!in.s || in.parents)
			continue;
		if (in.kind == INSIDE_RX)
			tcp_rx_leave(&rx);
		else if (in.kind == INSIDE_TX)
			tcp_tx_lost(&tx);
		else if (in.left && lies(in.at, in.s))
			reports.sleep_left(&sleep); /* else sleeper.c does */
	}
	trim();
}

/* sigaltstack(): is the thread on it? -1: not known. */
static int on_signal_stack(stack_t *ss)
{
	ss->ss_flags = 0;
	return sys_call3(SYS_sigaltstack, 0, (long)ss, 0) ?
		       -1 :
		       !!(ss->ss_flags & SS_ONSTACK);
}

/*
 * Seen from `frame`: is what began at `at`, with s in front, no more? It may
 * have been on another stack, of which nothing is left.
 */
static bool gone(uintptr_t at, const struct sock *s, uintptr_t frame)
{
	return at <= frame + SIGNAL_FRAME || !lies(at, s);
}

void tcp_jumped_look(uintptr_t frame)
{
	stack_t ss;
	bool apart = on_signal_stack(&ss) != 0;
	uint32_t i;

	if (tcp_inside.dozes &&
	    (dozing.left || (!apart && gone(dozing.at, dozing.s[0], frame))))
		doze_over();
	for (i = 0; i < tcp_inside.n; i++) {
		const struct inside *in = &tcp_inside.call[i];

		if (in->left || (!apart && in->s && gone(in->at, in->s, frame)))
			leave_from(i);
	}
}

bool sock_within(void)
{
	return tcp_inside.n || tcp_inside.dozes;
}

/* Two stacks have something between them that cannot be read. */
static bool one_stack(uintptr_t at, uintptr_t to)
{
	if (to - at >= STACK_MOST)
		return false;
	for (; at < to; at += PAGE)
		if (!mem_there((const void *)at, false))
			return false;
	return true;
}

/*
 * Is `at` left by a jump to `to`? Stacks grow down. On another stack than that
 * nothing is left: the program may come back to it (threads of its own, which a
 * handler changes).
 */
static bool below(uintptr_t at, uintptr_t to, const stack_t *apart)
{
	uintptr_t stack = apart ? (uintptr_t)apart->ss_sp : 0;
	bool out;

	if (apart) {
		out = to - stack > apart->ss_size;
		if (out != (at - stack > apart->ss_size))
			return out;
	}
	return at < to && one_stack(at, to);
}

/*
 * What is left is counted out at once, as a call of the handler would do it,
 * but for one on a stack of its own, which may be small: there it is noted for
 * this thread's next call.
 */
void sock_jumping(uintptr_t to)
{
	stack_t ss;
	int on = on_signal_stack(&ss);
	const stack_t *apart = on > 0 ? &ss : NULL;
	uint32_t i, first = tcp_inside.n;

	if (on < 0)
		return;
	dozing.left = dozing.left ||
		      (tcp_inside.dozes && below(dozing.at, to, apart));
	for (i = tcp_inside.n; i-- > 0;)
		if (below(tcp_inside.call[i].at, to, apart))
			first = i;
	for (i = first; i < tcp_inside.n; i++)
		tcp_inside.call[i].left = true;
	if (!apart) {
		if (dozing.left)
			doze_over();
		leave_from(first);
	}
}

void tcp_forked(void)
{
	uint32_t i;

	tcp_inside.dozes = 0; /* the parent's */
	for (i = 0; i < tcp_inside.n; i++)
		tcp_inside.call[i].parents = true;
}

/* --- asleep in a poll() of the kernel ------------------------------------- */

bool sock_doze(struct sock_doze *in, struct sock *s)
{
	uint32_t number;

	if (!in->s)
		tcp_jumped((uintptr_t)in);
	/* or a handler's, in the middle of another */
	if (tcp_inside.dozes == DOZES || (!in->s && tcp_inside.dozes))
		return false;
	number = sock_sleep(s);
	if (!in->s)
		in->s = s;
	dozing.at = (uintptr_t)in;
	dozing.s[tcp_inside.dozes] = s;
	dozing.number[tcp_inside.dozes] = number;
	tcp_inside.dozes++;
	return true;
}

void sock_dozed(struct sock_doze *in)
{
	if (in->s && dozing.at == (uintptr_t)in)
		doze_over();
	in->s = NULL;
}

/* One more, of whichever generation it is now. */
static uint32_t gen_in(uint64_t *word)
{
	return (uint32_t)(__atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST) >>
			  GEN_SHIFT);
}

static void gen_out(uint64_t *word, uint32_t gen)
{
	uint64_t seen = __atomic_load_n(word, __ATOMIC_SEQ_CST);

	while (seen >> GEN_SHIFT == gen && (uint32_t)seen &&
	       !__atomic_compare_exchange_n(word, &seen, seen - 1, 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

uint32_t sock_sleep(struct sock *s)
{
	uint32_t gen = gen_in(&s->waits.asleep_anchor_word);
	uint32_t next = gen_in(&s->waits.watched_word);

	if (unlikely(next != gen)) /* used anew just now */
		gen_out(&s->waits.watched_word, next);
	holder_in(s, HOLDS_SLEEP);
	spin_to_sleep(s);
	return gen;
}

void sock_awake(struct sock *s, uint32_t number)
{
	if (likely(number == s->waits.asleep_anchor_gen))
		holder_out(s, HOLDS_SLEEP);
	sock_awoken(s, number);
	spin_awake(s);
}

void sock_awoken(struct sock *s, uint32_t number)
{
	gen_out(&s->waits.watched_word, number);
	gen_out(&s->waits.asleep_anchor_word, number);
}

static __thread uint32_t wait_no __attribute__((tls_model("initial-exec")));

void sock_wait_begins(void)
{
	wait_no++;
	tcp_jumped((uintptr_t)__builtin_frame_address(0));
}

uint64_t ready_wait(void)
{
	return (uint64_t)lock_tid() << 32 | wait_no;
}
