/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * mixed.h - mixed traffic for hours, every byte checked
 *
 * One program: a server process with a pool of threads, workers that connect to
 * it in rounds, and the watch (mixed.c) above them. It is an ordinary sockets
 * program that knows nothing of the library; what it takes for right is what
 * Linux promises of TCP, and it is run on plain TCP as well.
 *
 * All that the two ends of a connection do is a function of its key, which the
 * client says first (struct hello): steps, in each of which each direction moves
 * so many bytes; what an end does to its descriptor before a step (enum deed);
 * and how the connection ends. A byte of a direction is a function of key,
 * direction and offset.
 *
 * An end is struct side. It may go on in another process: what that needs is in
 * the struct itself, which is copied, sent or given as words (hands.c).
 */
#ifndef TESTS_SOAK_MIXED_H
#define TESTS_SOAK_MIXED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum {
	MAX_WORKERS = 16,
	CONNS = 3, /* of a worker at a time, at most */
	/* The server's threads; none of them waits for another. */
	POOL = (MAX_WORKERS + 1) * CONNS,
	SLOTS = POOL + MAX_WORKERS * CONNS,
	LIVES = 2 * MAX_WORKERS + 2, /* processes that stay */
	PIECE_BITS = 19, /* a call has this power of two of bytes at most */
	BUFFER = 1 << PIECE_BITS,
};

/* What an end does right now, for reports: doing_names[]. */
enum doing {
	IDLE,
	CONNECTING,
	ACCEPTED,
	SENDING,
	RECEIVING,
	BOTH_WAYS,
	WAITING,
	FOR_END,
	CLOSING,
	FOR_CHILD,
	FOR_AIDE,
	RUNNING,
	DOINGS
};
extern const char *const doing_names[DOINGS];

/* One end as the watch sees it. Written by the end, read by the watch. */
struct slot {
	int32_t pid, tid;
	uint32_t worker, round, conn, step;
	uint32_t doing; /* enum doing */
	uint32_t how; /* struct step's way, wait and deed of this end */
	uint64_t key, tx, rx;
	uint64_t since; /* last progress, monotonic ns; 0: not in use */
};

/* clang-format off */
#define COUNTS(X)                                                     \
	X(rounds) X(conns) X(bytes) X(turns) X(forks) X(execs)        \
	X(passes) X(holds) X(commands) X(dups) X(options) X(kills)    \
	X(stops) X(aborts) X(nameless) X(refused)
/* clang-format on */

/* Shared by all processes, also those that were executed anew. */
struct board {
	uint32_t stop; /* 1: no more rounds; 2: all ends */
	uint32_t pause, failed;
	uint32_t idle[MAX_WORKERS]; /* a worker waits for the end of `pause` */
	uint32_t workers, lives;
	uint32_t without; /* bits: enum deed, WITHOUT_KILLS, WITHOUT_STOPS */
	uint64_t seed;
	struct life {
		char name[16];
		int32_t pid; /* 0: not yet there */
	} life[LIVES];
	struct {
#define X(name) uint64_t name;
		COUNTS(X)
#undef X
	} count;
	struct slot slot[SLOTS];
};
extern struct board *board;
extern int board_fd;
extern const char *self; /* path of this program */

#define COUNT(name, n) \
	__atomic_fetch_add(&board->count.name, (n), __ATOMIC_RELAXED)

/* --- plan.c: what is drawn ------------------------------------------------ */

enum dies { NEITHER, CLIENT_DIES, SERVER_DIES };
enum order { CLIENT_FIRST, SERVER_FIRST, TOGETHER, ORDERS };
/* READ_WRITE is the first of them, SPLICE the last. */
enum way {
	READ_WRITE,
	SEND_RECV,
	PEEKS,
	ALL,
	VECTOR,
	MESSAGE,
	FILES,
	SPLICE,
	WAYS
};
enum waits { BLOCKS, POLLS, POLLS_TIMED, SELECTS, EPOLLS, EPOLL_EDGE, WAITS };
enum deed {
	NOTHING,
	DUPS, /* another descriptor, the first is closed */
	OPTIONS, /* some of which only the kernel's TCP can do */
	DELAYS, /* longer than a writer of the other end may like */
	COMMAND, /* popen() or system() */
	HOLDS, /* a child has it for a while, and is killed */
	FORKS, /* a child does the rest */
	EXECS, /* a program does the rest */
	PASSES, /* another process does the rest */
	DEEDS
};
enum ending {
	HALF, /* the first shuts down, the other sends more, and does so, too */
	PLAIN, /* the first closes when all was read */
	UNREAD, /* the first closes though there is more to read */
	RESETS, /* the first closes with SO_LINGER 0 */
	ENDINGS
};

/* To see which of them it is (-x). */
#define WITHOUT_KILLS (1u << DEEDS)
#define WITHOUT_STOPS (2u << DEEDS)

struct hello {
	uint64_t magic, key;
	uint32_t worker, round, conn, dies; /* CLIENT_DIES or 0 */
};
#define HELLO 0x6d6978656421ull

struct plan {
	uint32_t dies, ending, first; /* enum; 1: the server ends it */
	uint32_t steps;
	uint32_t tail[2]; /* bytes behind the steps, by direction */
};

struct step {
	enum order order;
	uint32_t bytes[2]; /* [0] to the server, [1] to the client */
	/* of the client, of the server: */
	enum way way[2];
	enum waits wait[2];
	enum deed deed[2];
	uint32_t piece[2], what[2];
};

uint64_t draw(uint64_t *state);
uint64_t mix(uint64_t a, uint64_t b);
uint32_t draw_size(uint64_t *state, unsigned int bits);
void plan_of(const struct hello *h, struct plan *p);
void step_of(const struct hello *h, const struct plan *p, uint32_t i,
	     struct step *s);
/* Pieces big enough: millions of single bytes say nothing more. */
void step_fits(struct step *st, const uint32_t *bytes);
void pattern(uint64_t key, int dir, uint64_t off, void *buf, size_t n);
/* The first wrong byte, or n. */
size_t pattern_differs(uint64_t key, int dir, uint64_t off, const void *buf,
		       size_t n);
/* Where in the first `end` bytes of the stream the 16 bytes of buf belong. */
bool pattern_find(uint64_t key, int dir, uint64_t end, const void *buf,
		  uint64_t *off);

/* --- io.c: bytes ---------------------------------------------------------- */

/* Memory and pipes of a thread. */
struct tools {
	uint8_t *out, *in;
	int out_pipe[2], in_pipe[2];
};

struct side {
	struct hello h;
	int fd;
	uint32_t server; /* 1: this is the server's end */
	uint32_t at; /* index of the slot */
	uint32_t step; /* the next */
	uint32_t moved; /* not in the process where it began */
	uint32_t forked; /* in a child of a process that has threads */
	uint64_t tx, rx;
	/* of the process that it is in: */
	int aide; /* -1: none */
	pid_t held; /* a child that has the descriptor as well, or 0 */
	uint32_t piped; /* bytes in out_pipe that were not sent */
	bool nonblock;
	struct tools *tools;
};

void tools_make(struct tools *t);
/* Anew, in a child that has closed them. */
void tools_pipes(struct tools *t);
/* What was not sent of a connection that broke. */
void piped_forget(struct side *s);
void tools_free(struct tools *t);
uint64_t now_ns(void);
void doing(struct side *s, enum doing what);
void progress(struct side *s);
/*
 * Both do it till so many bytes were sent and received, or return a negative
 * errno; -ENODATA is the end of the stream. A wrong byte ends all.
 */
int move(struct side *s, const struct step *st, uint64_t tx, uint64_t rx);
/* The end of the stream is next: 0, or a negative errno. */
int at_end(struct side *s);
/*
 * errno: what needs the stream on TCP is not done where the other end is
 * stopped (doc/limits.md), and can be done later.
 */
bool refused(void);
/* Reports what is wrong and does not return. */
void wrong(struct side *s, const char *what, long value)
	__attribute__((noreturn));

/* --- end.c: an end from its first step to the last ------------------------ */

/* Closes it, or leaves that to where it went. */
void side_run(struct side *s);

/* --- hands.c: descriptors in other hands ---------------------------------- */

/* True: the rest was done elsewhere, and the descriptor is closed here. */
bool hand_over(struct side *s, enum deed deed);
/* A child has it as well, until release(). */
void hold(struct side *s);
void release(struct side *s);
void run_command(struct side *s, uint32_t what);
/* A process with a thread for each via[], which goes on with what it is sent. */
pid_t aide_start(const char *name, int n, int *via);
/* The program of EXECS. */
int go_on(const char *fd, const char *board, const char *side);
/*
 * In a forked child: no descriptor above 2 but the board and `keep` (-1: none),
 * and it dies with its parent.
 */
void child_only(int keep);
void nap_ms(unsigned int ms);
/* A process that stays; its use of memory is looked at. */
void stays(const char *name);
bool board_map(int fd);

/* --- sides.c: server and workers ------------------------------------------ */

/* Till the board says stop. */
int serve(int lfd);
struct where {
	const char *host; /* NULL: this machine, by either family */
	uint16_t port;
};
int work(uint32_t worker, const struct where *w, uint32_t round);

/* --- account.c: what processes use ---------------------------------------- */

/* Names in there are counted as well, if not NULL. */
extern const char *files_dir;
/*
 * All is quiet. The first times it takes what is used for the measure; then it
 * waits a while until no more than that is used. False: it still is.
 */
bool account_flat(void);
void account_show(void);

#endif
