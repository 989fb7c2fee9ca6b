/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_WORLD_H
#define LIBSDP_TESTS_WORLD_H

/*
 * A world: two SDP machines joined over the simulated fabric, with a program
 * at each end that writes, reads and closes as its plan says. The driver does
 * what the pump of the socket room does. Nothing happens by chance but what
 * the seed says, and time passes only when nothing can do anything.
 */

#include <stdio.h>

#include "fabric/sim/sim.h"
#include "sdp_proto/state.h"

#define WORLD_HELD    1024 /* messages parsed and not released */
#define WORLD_RECVS   1024 /* receives posted, at most */
#define WORLD_URGENTS 4
#define WORLD_MS      1000000ull

/* What one program does. */
struct plan {
	uint64_t total; /* bytes it writes */
	uint64_t urgent[WORLD_URGENTS]; /* offsets of urgent bytes, rising */
	uint32_t urgents;
	uint32_t chunk; /* bytes of a write, at most */
	uint64_t write_gap; /* pause before a write, at most (ns) */
	uint32_t gulp; /* bytes of a read, at most */
	uint64_t read_gap;
	uint64_t lazy_until; /* reads nothing before */
	bool close; /* close() instead of shutdown(SHUT_WR) at the end */
	bool patient; /* closes only after the peer's end */
	uint64_t leave_at; /* closes for good whatever is under way; 0: no */
	uint64_t abort_at; /* 0: never */
	uint32_t tricks; /* one step in so many plays an optional message */
	struct {
		uint32_t src; /* one offer in so many has a source; 0: none */
		uint32_t src_max, inl; /* bytes of a piece, at most; inside */
		bool overlap; /* writes on while sources are out */
		uint64_t patience; /* cancels what is out so long */
		uint32_t sink, sink_max, sinks; /* the same; so many at once */
		uint32_t write; /* one offer in so many may be written */
		uint32_t read_max, reads; /* bytes of a read; under way */
		uint32_t refuse; /* one source in so many is given back */
		bool pipelined; /* asks for that mode at the start */
	} zc;
};

struct held {
	uint32_t off, len;
	uint64_t at; /* stream offset */
};

struct side {
	struct conn c;
	struct end *e;
	struct plan plan;
	unsigned int which;
	uint64_t written; /* by the program */
	uint64_t got; /* stream bytes the program has */
	uint64_t copy_until; /* given back: bytes before go by copy */
	uint64_t src_since, sink_since; /* oldest that is out; 0: none */
	uint64_t sink_rest; /* offers no sink before */
	uint32_t vain; /* sinks in a row that got nothing */
	uint64_t zc_bytes; /* the program had by RDMA */
	uint32_t reads, writes; /* under way */
	bool fenced;
	uint64_t write_at, read_at;
	struct held held[WORLD_HELD];
	uint32_t first, last; /* of held, counting */
	uint32_t size[WORLD_RECVS]; /* of receives, oldest first, */
	uint32_t recv_first, recv_last;
	uint32_t size_now; /* and of one that is posted now */
	uint32_t at; /* bytes read of the front */
	uint32_t urgents; /* urgent bytes that arrived */
	uint32_t tricks; /* played */
	bool pending, eof, shut, left, down;
	int error; /* what the machine ended with */
};

struct world {
	struct sim *sim;
	uint64_t now, cut_at; /* 0: never cut */
	struct side s[2];
	uint64_t steps;
	bool clean; /* everything must arrive */
	bool sync; /* sim_params.sync */
	FILE *trace; /* NULL: none */
	char fault[256]; /* what went wrong, empty: nothing */
	/*
	 * The first messages as they were sent, "a>Data:5 b>DisConn ", with
	 * flags behind a slash, and "a.0 " when an end is down.
	 */
	char tape[2048];
};

/* Join both machines; plans are set by the caller before world_run(). */
void world_start(struct world *w, const struct sim_params *fab,
		 const struct conn_params *a, const struct conn_params *b);
/* Until both ends are down and all is read: true, or false and `fault`. */
bool world_run(struct world *w);
/* One step of an end that can do something; false: none can at this time. */
bool world_step(struct world *w);
/* Let time pass to the next event; false: there will be none. */
bool world_wait(struct world *w);
uint8_t world_byte(unsigned int which, uint64_t at);
void world_fault(struct world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void world_tape(struct world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Stream bytes not yet sent, written or advertised. */
uint64_t world_unsent(const struct side *s);

/* seen.c: a message of this kind was received; with stream bytes? */
void seen_recv(const struct conn *was, const struct conn *is, uint8_t mid,
	       bool bytes);
/* The connection is about to be torn down. */
void seen_end(const struct conn *c);
/* Print crossings that were never met, or all; how many were not. */
unsigned int seen_report(bool all);

/* One more receive is posted, and the machine told. */
void world_repost(struct side *s);

/* tricks.c: something the machine may be asked for, now and then. */
void world_trick(struct world *w, struct side *s);

/*
 * zcopy.c: the program's memory that the other end is let at. What is at
 * memory that was not, or no longer, let at trespasses, which fails the world.
 */
#define ZC_MAX 16384 /* bytes of one piece */

void zc_start(struct world *w, struct side *s);
/* What conn_next() may be offered besides bytes; NULL: nothing. */
const struct conn_zc *zc_offer(struct world *w, struct side *s, uint64_t bytes);
/* It answered so. */
void zc_took(struct world *w, struct side *s, const struct conn_op *op);
bool zc_write(struct world *w, struct side *s, const struct conn_op *op);
/* The program reads from a source, or has it given back. */
bool zc_read(struct world *w, struct side *s);
/* RDMA that ended, memory that came free, patience that ran out. */
bool zc_step(struct world *w, struct side *s);
/* When the program will do something by itself. */
uint64_t zc_next(const struct world *w, const struct side *s);
/* The fabric lets nothing at this end's memory any more, if so. */
void zc_fence(struct world *w, struct side *s);
void zc_check_end(struct world *w, struct side *s);

#endif
