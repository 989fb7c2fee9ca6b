/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_ANCHOR_WORLD_H
#define LIBSDP_TESTS_ANCHOR_WORLD_H

/*
 * A small world around the anchor machine: two ends of one connection, each
 * with a handful of program threads, a kernel TCP stream, wake-up sockets and
 * SDP rings between them. One real thread plays all of them: threads are
 * coroutines that can be stopped before every access to anything shared (the
 * atomics inside anchor.c and anchor.h included), and a seed decides which goes
 * on. Time passes only when nothing can move.
 *
 * Stream bytes carry their offset and kicks carry none, so that the world
 * knows the truth about every byte. The steps around the machine are those of
 * src/socket; each rule that makes them right can be removed (sim.without).
 *
 *  anchor_sched.c   threads, time, what went wrong
 *  anchor_kernel.c  TCP, wake-up sockets, death
 *  anchor_lib.c     the library: kicks, ring, waiting
 *  anchor_move.c    the library: receive, send, lift, close
 *  anchor_home.c    the library: fallback
 *  anchor_keep.c    the library: what R keeps, and its way back
 *  anchor_prog.c    programs
 *  anchor_atom.c    src/handover_proto/anchor.c with a step before each atomic
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

void sim_step(void);

#ifdef SIM_ATOMS
#define __atomic_load_n(...)	 (sim_step(), __atomic_load_n(__VA_ARGS__))
#define __atomic_store_n(...)	 (sim_step(), __atomic_store_n(__VA_ARGS__))
#define __atomic_exchange_n(...) (sim_step(), __atomic_exchange_n(__VA_ARGS__))
#define __atomic_add_fetch(...)	 (sim_step(), __atomic_add_fetch(__VA_ARGS__))
#define __atomic_sub_fetch(...)	 (sim_step(), __atomic_sub_fetch(__VA_ARGS__))
#define __atomic_or_fetch(...)	 (sim_step(), __atomic_or_fetch(__VA_ARGS__))
#define __atomic_compare_exchange_n(...) \
	(sim_step(), __atomic_compare_exchange_n(__VA_ARGS__))
#endif

#include "handover_proto/anchor.h"

#define SIM_THREADS 16
#define SIM_PIPE    64
#define SIM_RING    8
#define SIM_KEEP    256 /* stream bytes in a keep area */
#define SIM_BUF	    16 /* bytes a call of a program can move */
#define SIM_NEVER   UINT64_MAX

enum sim_rule {
	/* anchor.md section 9 */
	RULE_DRAINED, /* switch only when taken == sent */
	RULE_TCP_RX, /* no stall around a receive begun in TCP */
	RULE_PAUSED, /* TCP use only after the writer's word */
	RULE_KICKS, /* kicks stay while anything sleeps on the anchor */
	RULE_EAT_LAST, /* mark, arm, find nothing, and only then eat */
	/* and what the world asked for besides */
	RULE_TCP_TX, /* switching and a TCP send exclude each other */
	RULE_FIN, /* DRAINING ends only when no old receive is inside */
	RULE_STALE, /* what was written back is dropped from the ring */
	RULE_SEEN, /* sleep on the wake-up socket only while LIFTED */
	RULE_OTHERS, /* a byte is eaten when no other needs it */
	RULE_CHAIN, /* one that takes a kick asks for one for the others */
	RULE_ALONE, /* a fallback given up is ended by the next receive */
	RULE_UPWARDS, /* counts are never published backwards */
	RULE_SHUT, /* no FIN while the direction is falling back */
	RULE_SALVAGE, /* what a dead writer did not put back is in the ring */
	RULE_WIDOW, /* nothing waits for the word of a dead reader */
	RULE_FULL, /* a full wake-up socket is not emptied */
	/* W ahead of R, and home from behind a stall */
	RULE_AHEAD, /* no kick before R passed x */
	RULE_PASSED, /* one that passes x asks for a kick */
	RULE_BOUND, /* behind a stall no receive goes beyond x */
	RULE_INSIDE, /* no answer while a send of ours is inside */
	RULE_KEEP, /* while it waits R keeps what lies on the anchor */
	RULE_DUE, /* no FIN while R may still ask for bytes */
	/* R answers for W */
	RULE_PUT, /* W shows that it puts something, */
	RULE_PUT_FIRST, /* before it reads the state, */
	RULE_PUT_KICK, /* a kick, too, */
	RULE_PUT_ASLEEP, /* no reader sleeps that W's byte would bring out, */
	RULE_PUT_OVER, /* and R waits for its end before it counts kicks */
	RULES
};

struct sim_item {
	uint32_t off;
	bool kick;
};

/* One direction of the kernel's TCP: what lies in the reader's queue. */
struct sim_pipe {
	struct sim_item q[SIM_PIPE];
	unsigned int n, cap, drawn;
	bool fin, rst; /* behind the queue */
	bool shut; /* the writer's side was shut down */
	bool gone; /* the reader's socket is closed */
};

struct sim_msg {
	uint32_t off, len;
	bool eof;
};

struct sim_ring {
	struct sim_msg m[SIM_RING];
	unsigned int depth;
	uint32_t pushed, freed;
};

/* The truth about a direction. */
struct sim_truth {
	uint32_t wrote; /* accepted from the program */
	uint32_t expect; /* the next byte R takes from anywhere */
};

struct sim_end {
	int id;
	bool dead, closed;
	struct anc_dir *tx, *rx;
	struct anc_side *own, *peer;
	struct anc_tx at;
	struct anc_rx ar;
	/* struct sock */
	bool locked, peer_gone, shut_wr, left, full, rx_eof, switching;
	uint32_t tcp_tx, watched, asleep_anchor, falling_back;
	uint32_t sleepers, writers; /* asleep on the wake-up socket */
	uint32_t rung_eaten, stalls;
	uint64_t full_since, taken_seen;
	uint64_t resume_at, resume_from, resume_kept;
	/* ring: reader's half */
	uint32_t parsed, front, front_at, rx_avail, owed, stale_to;
	bool stale, salvage;
	/* taken off the anchor before their turn: shared, ar.kept of them */
	struct sim_item keep[SIM_KEEP];
	uint32_t kept_at;
	bool fin_due, fin_told;
	struct anc_dir local[2]; /* when the peer has gone */
	uint32_t pinned; /* calls that keep it on the anchor */
	/* kernel */
	unsigned int wake; /* bytes to be read from the wake-up socket */
	bool hup; /* the other end of it is closed */
	bool poked; /* the service thread has a datagram */
	/* what the programs of this end do */
	unsigned int live; /* threads that have not ended */
	unsigned int writing; /* writers that have not ended */
	bool reading; /* has readers at all */
};

enum sim_kind {
	KIND_NONE,
	KIND_WRITER,
	KIND_WRITER_NB,
	KIND_RECV,
	KIND_PEEK,
	KIND_WAITALL,
	KIND_NONBLOCK,
	KIND_POLL,
	KIND_HOME, /* brings the descriptor back to TCP, reads TCP, lets go */
	KIND_SERVICE,
};

enum sim_sleep { SLEEP_LOCK, SLEEP_LIB, SLEEP_DATA, SLEEP_ROOM, SLEEP_PAUSE };

struct sim_thread {
	enum sim_kind kind;
	struct sim_end *e;
	bool done, started, timed_out;
	bool (*ready)(struct sim_thread *t);
	uint64_t deadline;
	enum sim_sleep why;
	uint32_t bytes; /* to write */
	uint32_t piece; /* size of calls */
	uint32_t at; /* fallback: when so many bytes were taken */
	uint32_t pause; /* one in so many calls is followed by a pause */
	uint32_t last; /* offset behind the last byte delivered */
};

/* What a world is made of; all small numbers. */
struct sim_plan {
	uint64_t seed;
	unsigned int sticky; /* percent: the same thread goes on */
	unsigned int pipe_cap, ring_depth, msg_max, wake_cap;
	unsigned int lift_at[2]; /* not before offset; UINT32_MAX: never */
	bool stalls; /* full rings stall */
	bool ahead; /* both ends counted every byte */
	bool insist; /* a fallback is not given up */
	unsigned int kill_step; /* 0: no end dies */
	int kill_end;
	unsigned int threads;
	struct {
		enum sim_kind kind;
		int end;
		uint32_t bytes, piece, at, pause;
	} t[SIM_THREADS];
};

struct sim {
	struct anc_page page;
	struct sim_plan plan;
	struct sim_end end[2];
	struct sim_pipe pipe[2]; /* [i]: written by end i */
	struct sim_ring ring[2];
	struct sim_truth truth[2];
	struct sim_thread th[SIM_THREADS];
	struct sim_thread *cur;
	unsigned int threads;
	uint64_t rnd, now, steps;
	uint32_t without; /* bit per rule removed */
	bool killed;
	/* what happened, to see that the worlds are not empty */
	uint64_t lifts, rises, stalled, homes, resumes, eofs;
	uint64_t kept, back; /* bytes put into keep areas, and back by W */
	uint64_t known; /* answers that R gave for W */
	const char *fault; /* first fault, NULL: sound */
	char where[512];
};

extern struct sim sim;

/* Plays one world to its end; NULL or what was wrong with it. */
const char *sim_run(const struct sim_plan *p, uint32_t without);

/* --- anchor_sched.c ---------------------------------------------------- */
uint32_t sim_rand(uint32_t n); /* below n */
static inline bool sim_on(enum sim_rule r)
{
	return !(sim.without & (1u << r));
}
static inline struct sim_end *sim_peer(const struct sim_end *e)
{
	return &sim.end[!e->id];
}
/* True: the deadline passed first. */
bool sim_block(bool (*ready)(struct sim_thread *t), uint64_t deadline,
	       enum sim_sleep why);
void sim_fault(const char *what);

/* --- anchor_kernel.c --------------------------------------------------- */
enum { K_PEEK = 1, K_DONTWAIT = 2, K_KEEP = 4 /* its turn comes later */ };
int k_recv(struct sim_end *e, struct sim_item *to, uint32_t n, int flags);
/* n bytes in their turn leave the kernel, or a place where they were kept. */
void k_leaves(struct sim_end *e, const struct sim_item *it, uint32_t n);
/* Stream bytes from offset `off`. */
int k_send(struct sim_end *e, uint32_t off, uint32_t n, int flags);
int k_stream(struct sim_end *e, uint32_t n, int flags); /* the next ones */
int k_kick(struct sim_end *e);
void k_shutdown(struct sim_end *e);
void k_close(struct sim_end *e);
bool k_readable(const struct sim_end *e);
bool k_wake_send(struct sim_end *e);
int k_wake_eat(struct sim_end *e, uint32_t n);
/* 1 rung, 0 hung up, -EAGAIN: the deadline. */
int k_wake_sleep(struct sim_end *e, uint64_t deadline, enum sim_sleep why);
void k_nap(uint64_t span);

/* --- anchor_lib.c ------------------------------------------------------ */
void lib_lock(struct sim_end *e);
void lib_unlock(struct sim_end *e);
bool lib_put_begin(struct sim_end *e); /* false: nothing may be put */
void lib_put_end(struct sim_end *e);
bool lib_kick(struct sim_end *e);
void lib_ring_reader(struct sim_end *e);
void lib_ring_writer(struct sim_end *e);
void lib_note(struct sim_end *e);
void lib_service(struct sim_end *e);
uint32_t lib_mark(struct sim_end *e);
void lib_eat(struct sim_end *e, uint32_t mark);
void lib_ring_kicks(struct sim_end *e);
int lib_take_kicks(struct sim_end *e, uint64_t n);
void lib_taken(struct sim_end *e, uint32_t n);
void lib_sent(struct sim_end *e, uint32_t n);
bool lib_pending(struct sim_end *e);
void lib_poll(struct sim_end *e);
bool lib_room(struct sim_end *e);
uint32_t lib_push(struct sim_end *e, uint32_t n, bool eof);
uint32_t lib_pop(struct sim_end *e, struct sim_item *to, uint32_t n, bool peek);
void lib_wait_rx(struct sim_end *e, enum anc_state was);
int lib_wait_tx(struct sim_end *e);
bool lib_may_eat(struct sim_end *e);
void lib_peer_gone(struct sim_end *e);

/* --- anchor_move.c, anchor_home.c -------------------------------------- */
enum { M_PEEK = 1, M_ALL = 2, M_DONTWAIT = 4 };
int lib_recv(struct sim_end *e, struct sim_item *to, uint32_t n, int flags);
int lib_send(struct sim_end *e, uint32_t n, bool nonblock);
int lib_spill(struct sim_end *e, bool fin);
void lib_serve(struct sim_end *e); /* W's part of a fallback */
/*
 * 0 or -EAGAIN; what it pinned has to be let go in any case. `insist`: never
 * gives up.
 */
int lib_home(struct sim_end *e, bool insist, uint32_t *pins);
void lib_unpin(struct sim_end *e, uint32_t pins);
void lib_shutdown(struct sim_end *e);
void lib_close(struct sim_end *e);
/* poll(): sleeps until lib_recv() would have something. */
void lib_poll_in(struct sim_end *e);

/* --- anchor_prog.c ----------------------------------------------------- */
void prog_run(struct sim_thread *t);

#endif
