/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* step - see step.h. */
#include "step.h"

#include "prog.h"

#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEN_BITS (1u << 22)
#define OLD_STEPS 8000u /* without a new place: there is none */

/* The address of the next instruction. */
static size_t next_at(pid_t pid)
{
	struct user_regs_struct regs;
	struct iovec iov = { &regs, sizeof(regs) };

	CHECK(!ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &iov));
#if defined(__x86_64__)
	return regs.rip;
#elif defined(__aarch64__) || defined(__riscv)
	return regs.pc;
#else
#error "which register holds the address of the next instruction?"
#endif
}

static bool is_new(struct step *st)
{
	size_t at = next_at(st->pid) % SEEN_BITS;
	unsigned char bit = (unsigned char)(1 << at % 8);

	if (st->seen[at / 8] & bit)
		return false;
	st->seen[at / 8] |= bit;
	st->places++;
	return true;
}

/* Until it stands again, or is gone. */
static void stands(struct step *st)
{
	CHECK(waitpid(st->pid, &st->status, 0) == st->pid);
	st->over = !WIFSTOPPED(st->status);
	st->sig = 0;
	if (!st->over && WSTOPSIG(st->status) != SIGTRAP)
		st->sig = WSTOPSIG(st->status);
}

void step_start(struct step *st, void (*prepare)(void *), void (*work)(void *),
		void *arg)
{
	*st = (struct step){ .seen = calloc(SEEN_BITS / 8, 1) };
	CHECK(st->seen);
	st->pid = fork();
	CHECK(st->pid >= 0);
	if (!st->pid) {
		prepare(arg);
		CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
		CHECK(!raise(SIGSTOP));
		for (;;)
			work(arg);
	}
	stands(st);
	CHECK(!st->over && st->sig == SIGSTOP);
	st->sig = 0;
}

static void step(struct step *st)
{
	CHECK(!ptrace(PTRACE_SINGLESTEP, st->pid, NULL, (void *)(long)st->sig));
	stands(st);
}

bool step_to(struct step *st, size_t place)
{
	unsigned int old = 0;

	while (!st->over && st->places < place && old < OLD_STEPS) {
		step(st);
		if (!st->over)
			old = is_new(st) ? 0 : old + 1;
	}
	return !st->over && st->places >= place;
}

void step_signal(struct step *st, int sig)
{
	if (!st->over)
		st->sig = sig;
}

void step_free(struct step *st)
{
	if (!st->over)
		CHECK(!ptrace(PTRACE_DETACH, st->pid, NULL,
			      (void *)(long)st->sig));
}

void step_kill(struct step *st)
{
	if (!st->over) {
		CHECK(!kill(st->pid, SIGKILL));
		do
			CHECK(waitpid(st->pid, &st->status, 0) == st->pid);
		while (WIFSTOPPED(st->status));
		CHECK(WIFSIGNALED(st->status));
		st->over = true;
	}
	free(st->seen);
	st->seen = NULL;
}
