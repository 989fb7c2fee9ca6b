/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_WORLD_H
#define LIBSDP_TESTS_WORLD_H

/*
 * A world: two SDP machines joined over the simulated fabric, with a program
 * at each end that writes, reads and closes as its plan says. The driver does
 * what the pump of the socket room does. Nothing happens by chance but what
 * the seed says, and time passes only when nobody can do anything.
 */

#include <stdio.h>

#include "fabric/sim/sim.h"
#include "sdp_proto/state.h"

#define WORLD_HELD    1024 /* messages parsed and not released */
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
};

struct held {
	uint32_t off, len;
	bool oob;
};

struct side {
	struct conn c;
	struct end *e;
	struct plan plan;
	unsigned int which;
	uint64_t written, sent; /* by the program; in messages */
	uint64_t arrived, got; /* stream bytes parsed; read by the program */
	uint64_t write_at, read_at;
	struct held held[WORLD_HELD];
	uint32_t first, last; /* of held, counting */
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
/* One step of whoever can do something; false: nobody can at this time. */
bool world_step(struct world *w);
/* Let time pass to the next event; false: there will be none. */
bool world_wait(struct world *w);
uint8_t world_byte(unsigned int which, uint64_t at);
void world_fault(struct world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void world_tape(struct world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* tricks.c: a message the machine may legally send, now and then. */
void world_trick(struct world *w, struct side *s);
/* One of them: SrcAvail for what the program has written, if it may. */
void trick_src_avail(struct world *w, struct side *s);
/* The pump's part of a message made by hand; m->len etc. are filled in. */
bool world_send(struct world *w, struct side *s, struct wire_msg *m,
		uint32_t payload);

#endif
