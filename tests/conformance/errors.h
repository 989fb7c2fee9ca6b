/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_CONFORMANCE_ERRORS_H
#define TESTS_CONFORMANCE_ERRORS_H

/*
 * Every call with each of its arguments bad, in every state of a connection: by
 * the names of libc, behind which the library is, and in the same process by
 * bare system calls on a twin that the library does not see.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARGS   6
#define UNREAD 64u /* bytes that some states have at hand */
#define SLOT   4096 /* bytes of a slot's page */

/* Memory for one argument: a page, and behind it one that is not there. */
struct slot {
	char *rw; /* the page */
	char *ro; /* the same, not to be written */
};

struct side {
	bool bare; /* system calls */
	int fd, peer; /* -1: there is none */
	int listener, queued; /* whatever else the state needs; -1 */
	struct sockaddr_in to; /* a server listens there */
	int file, pipe_in, pipe_out, ep, spare;
	struct slot slot[ARGS];
};

enum { FD_NEVER = 0x3ffffff, FD_CLOSED = 900 };

/* --- kinds.c ------------------------------------------------------------ */

/* How many values an argument of that kind is tried with; the first is good. */
int kind_variants(char kind);
long kind_number(char kind, int variant); /* 0: it is no plain number */
/* Value `variant` of it, its memory in slot `at` made anew. */
long kind_value(struct side *s, char kind, int variant, int at);
/*
 * Did the two calls, which returned ret, leave the same there? `before` is the
 * argument in front of it.
 */
bool kind_same(const struct side *a, const struct side *b, char kind, int at,
	       long before, long ret);
void kind_begin(struct side *s);

/* --- states.c ----------------------------------------------------------- */

struct state {
	const char *name;
	void (*make)(struct side *s);
	bool peek; /* connected: what is at hand can be compared */
};

extern const struct state states[];
extern const size_t nstates;

/* What a state has beside its connection: files, pipes, a set. */
void state_rest(struct side *s);
void state_end(struct side *s);
/* Everything that can be read at once, at most n bytes. */
size_t state_drain(struct side *s, uint8_t *buf, size_t n);
/*
 * Both are to be seen ready for the same, after a while: false, they are not.
 */
bool state_settled(struct side *a, struct side *b, int *left, int *right);
/* What FIONREAD says of fd, or a negative errno. */
long state_unread(const struct side *s);

/* As libc's, by the way of the side: a result or a negative errno. */
long side_call(const struct side *s, const char *name, long a, long b, long c,
	       long d, long e, long f);

void fail(const char *what) __attribute__((noreturn));
#define NEED(cond)                   \
	do {                         \
		if (!(cond))         \
			fail(#cond); \
	} while (0)

#endif
