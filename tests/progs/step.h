/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * step.h - a child that is carried through its work, instruction by instruction
 *
 * What another process does meanwhile, or does to it, then comes at any place
 * of the child's calls, however few instructions lie between two of them.
 *
 * A place is the address of an instruction that the child had not come to since
 * it was started: loops count once, so that places drawn at random are spread
 * over the code and not over the time. All calls are made by the thread that
 * has started the child.
 */
#ifndef TESTS_PROGS_STEP_H
#define TESTS_PROGS_STEP_H

#include "prog.h"

#include <netinet/in.h>

struct step {
	pid_t pid;
	size_t places; /* that it has come to */
	int sig; /* that it stands at, and gets when it goes on */
	bool over; /* it has ended, status says how */
	int status;
	unsigned char *seen;
};

/*
 * Forks a child that does prepare(arg), stands still, and then does work(arg)
 * again and again. Returns when it stands.
 */
void step_start(struct step *st, void (*prepare)(void *), void (*work)(void *),
		void *arg);

/*
 * Where the child is to connect to: a listener on a free port of STEP_HOST, by
 * default of this host. With STEP_ON, a command that takes a program to another
 * host, it has to be one of its own (step_exec()).
 */
int step_listen(struct sockaddr_in *at);
bool step_elsewhere(void);

/*
 * As step_start(), in this program executed anew; there main() begins with
 * step_asked(), and where that gives the `word`, it calls step_here().
 */
void step_exec(struct step *st, const char *word, const struct sockaddr_in *at);
const char *step_asked(int argc, char **argv, struct sockaddr_in *at);
void step_here(void (*prepare)(void *), void (*work)(void *), void *arg)
	__attribute__((noreturn));

/*
 * On to its place-th place; not so far if it ends, or comes to no new one any
 * more.
 */
void step_to(struct step *st, size_t place);

/* One signal, where it stands. */
void step_signal(struct step *st, int sig);

/* It goes on by itself from here; the status with which it ends. */
int step_free(struct step *st);

/* Killed where it stands, unless it is over, and gone when this returns. */
void step_kill(struct step *st);

/* --- a program's tests ---------------------------------------------------- */

/* Structs of `size` bytes, each of which begins with a pointer to its name. */
struct step_tests {
	const void *first;
	size_t size, n;
};
#define STEP_TESTS(table)                                    \
	{                                                    \
		table, sizeof((table)[0]), ARRAY_SIZE(table) \
	}

const void *step_test(const struct step_tests *t, const char *name);
/* Each is a case without a peer: run() finds it by e->name. */
int step_main(int argc, char **argv, const struct step_tests *t,
	      void (*run)(struct end *e));

#endif
