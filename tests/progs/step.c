/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* step - see step.h. */
#include "step.h"

#include <arpa/inet.h>
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

void step_here(void (*prepare)(void *), void (*work)(void *), void *arg)
{
	prepare(arg);
	CHECK(!raise(SIGSTOP));
	for (;;)
		work(arg);
}

/* In the child: false. */
static bool started(struct step *st)
{
	*st = (struct step){ .seen = calloc(SEEN_BITS / 8, 1) };
	CHECK(st->seen);
	st->pid = fork();
	CHECK(st->pid >= 0);
	if (!st->pid) {
		CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
		return false;
	}
	/* each program that it executes stops it, too */
	for (stands(st); !st->over && st->sig != SIGSTOP; stands(st))
		CHECK(!ptrace(PTRACE_CONT, st->pid, NULL,
			      (void *)(long)st->sig));
	CHECK(!st->over);
	st->sig = 0;
	return true;
}

void step_start(struct step *st, void (*prepare)(void *), void (*work)(void *),
		void *arg)
{
	if (!started(st))
		step_here(prepare, work, arg);
}

/* --- a program of its own ------------------------------------------------- */

#define ASKED "step" /* the first argument */

bool step_elsewhere(void)
{
	return getenv("STEP_ON");
}

int step_listen(struct sockaddr_in *at)
{
	const char *host = getenv("STEP_HOST");
	int lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){ .sin_family = AF_INET };
	CHECK(inet_pton(AF_INET, host ? host : "127.0.0.1", &at->sin_addr));
	CHECK(lfd >= 0 && !bind(lfd, (struct sockaddr *)at, len));
	CHECK(!listen(lfd, 4));
	CHECK(!getsockname(lfd, (struct sockaddr *)at, &len));
	return lfd;
}

void step_exec(struct step *st, const char *word, const struct sockaddr_in *at)
{
	char host[INET_ADDRSTRLEN], port[8];

	CHECK(inet_ntop(AF_INET, &at->sin_addr, host, sizeof(host)));
	snprintf(port, sizeof(port), "%u", ntohs(at->sin_port));
	if (started(st))
		return;
	execl("/bin/sh", "sh", "-c", "exec $STEP_ON \"$@\"", "sh", prog_self,
	      ASKED, word, host, port, (char *)NULL);
	prog_fail(__FILE__, __LINE__, "no shell");
}

const char *step_asked(int argc, char **argv, struct sockaddr_in *at)
{
	if (argc != 5 || strcmp(argv[1], ASKED))
		return NULL;
	*at = (struct sockaddr_in){ .sin_family = AF_INET };
	CHECK(inet_pton(AF_INET, argv[3], &at->sin_addr));
	at->sin_port = htons((uint16_t)atoi(argv[4]));
	return argv[2];
}

/* --- on it goes ----------------------------------------------------------- */

static void step(struct step *st)
{
	CHECK(!ptrace(PTRACE_SINGLESTEP, st->pid, NULL, (void *)(long)st->sig));
	stands(st);
}

void step_to(struct step *st, size_t place)
{
	unsigned int old = 0;

	while (!st->over && st->places < place && old < OLD_STEPS) {
		step(st);
		if (!st->over)
			old = is_new(st) ? 0 : old + 1;
	}
}

void step_signal(struct step *st, int sig)
{
	if (!st->over)
		st->sig = sig;
}

static void forget(struct step *st)
{
	free(st->seen);
	st->seen = NULL;
}

int step_free(struct step *st)
{
	if (!st->over) {
		CHECK(!ptrace(PTRACE_DETACH, st->pid, NULL,
			      (void *)(long)st->sig));
		CHECK(waitpid(st->pid, &st->status, 0) == st->pid);
		st->over = true;
	}
	forget(st);
	return st->status;
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
	forget(st);
}

/* --- a program's tests ---------------------------------------------------- */

static const char *const *name_of(const struct step_tests *t, size_t i)
{
	return (const void *)((const char *)t->first + i * t->size);
}

const void *step_test(const struct step_tests *t, const char *name)
{
	size_t i = 0;

	while (i < t->n && strcmp(*name_of(t, i), name))
		i++;
	CHECK(i < t->n);
	return name_of(t, i);
}

int step_main(int argc, char **argv, const struct step_tests *t,
	      void (*run)(struct end *e))
{
	struct prog_case *cases = calloc(t->n, sizeof(*cases));
	size_t i;
	int ret;

	CHECK(cases);
	for (i = 0; i < t->n; i++)
		cases[i] = (struct prog_case){ *name_of(t, i), run, NULL,
					       CASE_SOLO };
	ret = prog_main(argc, argv, cases, t->n);
	free(cases);
	return ret;
}
