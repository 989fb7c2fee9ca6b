/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_SIGDEFER_H
#define LIBSDP_BASE_SIGDEFER_H

/*
 * Handlers of the program run between, not inside (guard.h).
 *
 * In the kernel each handler of the program is sigdefer_entry(). A signal that
 * finds its thread inside is put off: the entry blocks it in the interrupted
 * context, queues it to the own thread again and returns. guard_leave() lets it
 * in, and so does a sleep, which it then ends as it would have ended the
 * kernel's. So a handler may call whatever is async-signal-safe.
 *
 * Not put off: what an instruction of the thread's own raised (the handler has
 * to see it there), and what the kernel takes no copy of (the queue is full).
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pollfd;
struct timespec;

/* --- what the program has set ------------------------------------------- */

/*
 * A handler of the program, as it gave it to sigaction(); SIG_DFL: the entry
 * does what the kernel would have done by default, which ends the process.
 */
struct sigdefer_action {
	void (*handler)(int sig, siginfo_t *si, void *context);
	unsigned long flags;
	uint64_t mask;
};

/* In the kernel: SA_SIGINFO, without SA_RESETHAND, which it carries out. */
void sigdefer_entry(int sig, siginfo_t *si, void *context);

/*
 * The entry's action for a signal, 1 to 64. One that sets has all signals
 * blocked and keeps out other threads; those that get are never held up.
 */
void sigdefer_set(int sig, const struct sigdefer_action *a);
void sigdefer_get(int sig, struct sigdefer_action *a);

/* A handler with SA_RESETHAND has run: set the default; NULL: the kernel's. */
extern void (*sigdefer_default)(int sig, const struct sigdefer_action *was);

/*
 * From here on handlers run where they come: the program is about to lose
 * system calls that putting off needs, and nothing is inside any more.
 */
void sigdefer_end(void);

/* In a child: what its parent put off is not the child's. */
void sigdefer_forked(void);

/* --- sleeping --------------------------------------------------------------- */

/*
 * The thread is inside, and sleeps outside in the system call `nr`. A signal
 * that was put off, and `mask` lets in (NULL: all), ends the sleep, also one
 * that came between the last test and the system call: -EINTR; `restarts`: as
 * the kernel restarts that call after a handler with SA_RESTART, the caller
 * does: SIGDEFER_AGAIN. A cancellation point. Inside again when it returns.
 */
#define SIGDEFER_AGAIN (-513)
struct sigdefer_sleep {
	long nr;
	long arg[6];
	const void *mask; /* that the call will have; 8 bytes */
	bool restarts;
};
long sigdefer_sleep(const struct sigdefer_sleep *how);

/* `theirs` of the entries are the program's: for too many of them -EINVAL. */
int sigdefer_ppoll(struct pollfd *fds, size_t n, size_t theirs,
		   const struct timespec *ts, const void *mask);
/*
 * recv() of one byte with MSG_PEEK, to wait for it. As the kernel has it, it
 * `restarts` where the socket has no SO_RCVTIMEO; else a handler, and a stop
 * and SIGCONT without one, end it.
 */
long sigdefer_await(int fd, char *byte, bool restarts);

/* Handlers of the program that have run in this thread. */
uint32_t sigdefer_handlers(void);
/* Those of them without SA_RESTART: they end a call. */
uint32_t sigdefer_no_restart(void);

/* --- for tests ---------------------------------------------------------------- */

extern const char sigdefer_window[], sigdefer_asleep[];

#endif
