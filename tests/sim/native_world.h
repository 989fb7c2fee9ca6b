/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_NATIVE_WORLD_H
#define LIBSDP_TESTS_NATIVE_WORLD_H

/*
 * A native world: our machine in native mode and a simulated kernel socket,
 * joined by a reliable connection with delays, as a queue pair without
 * receiver-not-ready retries is one. A judge that knows what our machine has
 * been told checks every message it sends against the rules of the last
 * credits. Nothing happens by chance but what the seed says; time passes only
 * when nothing can do anything.
 */

#include <stdio.h>

#include "kernel_peer.h"
#include "sdp_proto/zcopy.h"

#define NATIVE_PIPE 160 /* messages under way, one direction */

/* What our program does. */
struct native_plan {
	uint64_t total, urgent[KP_URGENTS];
	uint32_t urgents;
	uint32_t chunk, gulp;
	uint64_t write_gap, read_gap, lazy_until;
	uint64_t close_gap; /* pause between the last byte and closing */
	bool patient; /* closes its half only after the kernel's */
	bool close; /* close() in place of shutdown(), if nothing can come */
	uint64_t leave_at, abort_at; /* for good; 0: never */
	uint32_t refuse, read_max; /* sources: one in so many given back */
	bool offers; /* zero copy, again and again */
	uint32_t tricks; /* one step in so many asks for the impossible */
};

struct native_setup {
	enum kp_family family;
	bool active; /* we are */
	bool hello_lost; /* gen1 answers our Hello all the same */
	uint8_t ipv;
	struct conn_params conn;
	struct native_plan plan;
	struct kp_plan kernel;
	uint64_t delay, stall, rtu; /* ns: link, our polling, RTU; at most */
	uint64_t cut_at;
};

struct native_msg {
	uint64_t at; /* arrives */
	uint32_t len; /* 0: DREQ */
	uint8_t mem[KP_MSG_MAX];
};

struct native_pipe {
	uint32_t first, arrived, last; /* counting */
	uint64_t at; /* of the last */
	struct native_msg m[NATIVE_PIPE];
};

struct native_world {
	uint64_t now;
	struct native_setup set;
	struct kp k;
	struct conn c;
	bool up, kernel_up; /* established: may send */
	uint64_t rtu_at; /* 0: came */
	/* our program and our adapter */
	uint64_t written, got, write_at, read_at, poll_at, shut_at;
	uint32_t posted; /* receives in the queue */
	uint32_t held[NATIVE_PIPE]; /* stream bytes of messages not released */
	uint32_t held_first, held_last, held_at;
	uint32_t urgents;
	struct conn_op read; /* under way until read_done, 0: none */
	uint64_t read_done;
	bool shut, left, eof, down, odd;
	int error;
	/* the judge */
	uint32_t bufs, ack; /* as the kernel last told us */
	uint32_t told; /* Bufs + MSeqAck of ours */
	bool fin_first; /* the kernel's DisConn came before we wanted one */
	uint64_t fin_at, fin_rcvd_at; /* our DisConn left, its came */
	uint64_t steps;
	FILE *trace;
	char fault[240];
	/* last, and not cleared between worlds but for the counters */
	struct native_pipe to_kernel, to_us;
};

/* Everything but `set` and `trace` as new. */
void native_reset(struct native_world *w);
/* false: refused as it should be, or `fault`. */
bool native_start(struct native_world *w);
/* Until both ends are done: true, or false and `fault`. */
bool native_run(struct native_world *w);
void native_fault(struct native_world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* native_judge.c: a message of ours is about to leave, one came. */
void native_judge_sent(struct native_world *w, const uint8_t *msg,
		       uint32_t len);
void native_judge_took(struct native_world *w, const uint8_t *msg,
		       uint32_t len);
/* The kernel has ended the connection, and our machine says so. */
void native_judge_disconnected(struct native_world *w, int error);
/* Our machine ends the connection. */
void native_judge_dreq(struct native_world *w);
void native_judge_end(struct native_world *w);

#endif
