/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * prog.h - what the acceptance programs share
 *
 * Every program is a table of cases. A case has two ends, main and peer, that
 * share one TCP connection (struct link) and one unix socket pair (ctl) that
 * only orders their steps. The peer is a forked process, a thread, or the same
 * program executed anew, with or without the environment's preload. A case
 * checks itself: what it prints on stdout depends on nothing but the kernel's
 * documented behaviour, so runs with and without a preload compare equal.
 *
 * Stream bytes are a function of offset and direction and never zero: a lost,
 * repeated, reordered or foreign byte is seen where it happens.
 */
#ifndef TESTS_PROGS_PROG_H
#define TESTS_PROGS_PROG_H

/*
 * Included before everything else. Distributions fortify what they build, so
 * __read_chk(), __poll_chk() and their like are called here as well.
 */
#if defined(__OPTIMIZE__) && !defined(_FORTIFY_SOURCE)
#define _FORTIFY_SOURCE 2
#endif

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* One direction of a stream: the next byte's offset, and which stream. */
struct flow {
	uint64_t off;
	uint32_t seed;
};

/* One end of a connection under test. */
struct link {
	int fd;
	struct flow tx;
	struct flow rx;
};

struct end {
	const char *name; /* of the case; NULL at the peer */
	struct link l; /* ready when a case starts, unless CASE_BARE */
	int ctl; /* steps: prog_sync(), prog_tell() */
	int lfd; /* listener, -1 at the connecting end */
	bool peer;
	pid_t pid; /* main: the peer's process, 0 if a thread */
	struct sockaddr_storage addr;
	socklen_t addrlen;
};

enum {
	CASE_BARE = 1, /* no connection is made before the case */
	CASE_SOLO = 2, /* no peer: one process, one thread to begin */
	CASE_PROCESS = 4, /* the peer must be a process of its own */
	CASE_DIES = 8, /* the peer may end by a signal */
};

struct prog_case {
	const char *name;
	void (*run)(struct end *e);
	void (*peer)(struct end *e);
	unsigned int flags;
};

/* What prog_mid() does. */
enum home_kind { HOME_NONE, HOME_PASS, HOME_EXEC, HOME_FORK };

/* Set from the command line before any case runs. */
extern unsigned int prog_scale; /* -n: multiplies amounts of data */
extern const char *prog_self; /* absolute path of the program */
extern enum home_kind prog_home;
extern bool prog_plain_peer; /* -p plain */
extern bool prog_far; /* -p node: the other end is on another node */

int prog_main(int argc, char **argv, const struct prog_case *cases, size_t n);

void prog_fail(const char *file, int line, const char *what)
	__attribute__((noreturn));
void prog_bits(const char *file, int line, const char *what, int got, int want);

/* Ends the process with a message on stderr when a promise is broken. */
#define CHECK(cond)                                           \
	do {                                                  \
		if (!(cond))                                  \
			prog_fail(__FILE__, __LINE__, #cond); \
	} while (0)

/* The call must fail, and with just this errno. */
#define FAILS(call, err)                                                  \
	do {                                                              \
		errno = 0;                                                \
		if ((call) != -1 || errno != (err))                       \
			prog_fail(__FILE__, __LINE__, #call " -> " #err); \
	} while (0)

/* Just these bits; what is there instead is shown. */
#define BITS(got, want) prog_bits(__FILE__, __LINE__, #got, got, want)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * -p node: the peer is on node 2 of tests/vm. Main listens for the peer's ctl
 * and gives the option (-P) that makes the peer call there.
 */
void node_address(struct sockaddr_storage *ss, bool v6);
int node_listen(char *where, size_t size);
int node_accept(int lfd);
int node_call(const char *where);
void node_exec(char **argv) __attribute__((noreturn));

/* Both ends call these in the same order. */
void prog_sync(struct end *e);
void prog_link(struct end *e, struct link *l);
void link_bare(struct end *e); /* e->l by e->lfd or to e->addr, not warmed */
void prog_warm(struct link *l, bool leader, unsigned int rounds);

/* One value across ctl, to the other end and from it. */
void prog_tell(struct end *e, uint64_t v);
uint64_t prog_hear(struct end *e);
/* prog_feed() sends as many bytes as prog_ask() says, until it says 0. */
void prog_feed(struct end *e);
void prog_ask(struct end *e, size_t n);

/*
 * Does something to the descriptor that user space cannot follow, chosen by
 * -H: passes it to itself, executes a program that inherits it, or lets a
 * forked child look at it. Without -H: nothing.
 */
void prog_mid(int fd);

/* Pattern bytes; both advance the flow. flow_check() ends on a wrong byte. */
void flow_fill(struct flow *f, void *buf, size_t n);
void flow_check(struct flow *f, const void *buf, size_t n);

/* Exactly n bytes by write() or read(), retrying after EINTR. */
void link_put(struct link *l, size_t n);
void link_get(struct link *l, size_t n);
void link_eof(struct link *l);
void link_close(struct link *l);

/* Which MSG_ZEROCOPY sends were told to be done, first to last; none: false. */
bool link_told(int fd, uint32_t *first, uint32_t *last);

/* Sends n bytes, and the other end, which calls it too, sends n back. */
void link_turn(struct link *l, size_t n, bool leader);

/*
 * Visits, where e->l goes from process to process: the peer is told a number,
 * sends that many bytes and then receives as many; 0 ends it.
 */
void prog_host(struct end *e);
void prog_visit(struct end *e, size_t n);

/* Reads n bytes and writes each back: false if that did not work. */
bool fd_echo(int fd, size_t n);

/* A descriptor across a unix socket, with a number; -1: there is no more. */
void fd_give(int via, int fd, size_t n);
ssize_t fd_send(int via, int fd, size_t n); /* the same, as sendmsg() */
int fd_take(int via, size_t *n);

/* Both ends in the calling process and thread, warmed up by itself. */
void link_self(struct link *a, struct link *b, unsigned int rounds);

uint32_t prog_rand(uint32_t *state);
int64_t prog_now_ms(void);
void prog_nap_ms(unsigned int ms);
char prog_state(pid_t pid); /* as in /proc: R, S, T ... */
/*
 * A signal of the process is another thread's: with the peer as a thread it
 * might come here while that one has it blocked for a moment.
 */
void prog_not_here(int sig);

/*
 * Until that thread of this process was found asleep at every look for so long:
 * in the call that it was to make, and not on its way there, however busy the
 * machine is.
 */
void prog_asleep(pid_t tid, unsigned int ms);

void prog_nonblock(int fd, bool on);
int prog_port(const struct sockaddr_storage *ss);

/* Absolute path of a program in the directory of this one. */
const char *prog_sibling(const char *name, char *buf, size_t size);

/* So many instead of n, which is more than a ring, does the kernel hold. */
size_t prog_held(size_t n);

/* Forks a child that ends at once, and waits for it. */
void prog_child(void);

/* Waits for a child and checks that it ended with this status. */
void prog_reap(pid_t pid, int status);

#endif
