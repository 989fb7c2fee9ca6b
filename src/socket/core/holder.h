/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_HOLDER_H
#define LIBSDP_SOCKET_CORE_HOLDER_H

/*
 * The processes that have a sock open, and the part of each in its counts of
 * calls: one that is killed inside is counted out by the others (holder.c).
 */

#include <stdbool.h>
#include <stdint.h>

struct sock;
struct rdma;
struct page_row;

#define SOCK_HOLDERS 32
#define HOLDERS_HERE 2 /* of them in the sock itself */

/* What a thread is counted in. */
enum holder_part {
	HOLDS_OLD_RX, /* TCP receives, by the words of before the pairing */
	HOLDS_RX, /* and by those since */
	HOLDS_TX, /* TCP sends */
	HOLDS_SLEEP, /* asleep in poll on the anchor */
	HOLDS_STAY, /* in a call that may take a while: sock_stays() */
	HOLDS_PARTS,
};

struct holder {
	int32_t pid; /* 0: free; below: a child about to be born */
	/* numbers that point to it there; 0: closed, with threads inside */
	uint32_t fds : 31;
	uint32_t leaves : 1; /* it is about to exec, and keeps none of them */
	int32_t fd; /* one of them, as last known */
	uint16_t inside[HOLDS_PARTS]; /* atomic */
};

/* The place of that process, or of a child (sock_birth()), or NULL. */
struct holder *holder_of(struct sock *s, int32_t pid);
/* Lock held: one for it, which has it open once; or NULL, of 32 that live. */
struct holder *holder_new(struct sock *s, int32_t pid, int32_t fd);
/* Lock held: the i-th place that was used, which may be free; or NULL. */
const struct holder *holder_at(const struct sock *s, uint32_t i);
/*
 * A thread of this process, behind its being counted and in front of its being
 * counted out: one killed in between leaves a count, and never takes one
 * that is another's.
 */
void holder_in(struct sock *s, enum holder_part part);
void holder_out(struct sock *s, enum holder_part part);
bool holder_inside(const struct holder *h);
/* Lock not held: is a thread of this process, which may have closed it? */
bool holders_own_inside(const struct sock *s);
/*
 * Lock held. Living processes; the dead are struck off, and counted out by a
 * process that has it itself.
 */
int sock_holders(struct sock *s);
/* Lock not held: is there one? */
bool sock_held(const struct sock *s);
/* Lock held: it has several, as far as was looked; some may be dead. */
bool holders_several(const struct sock *s);
/* If threads are counted in: those of the dead are counted out, lock held or */
void holders_sweep(struct sock *s);
/* not. */
void holders_visit(struct sock *s);
/*
 * Lock held: is a thread counted in that is not ours? One that is just
 * coming or going, or was killed so.
 */
bool holders_lost(struct sock *s);
/*
 * Lock held: receives at the anchor (HOLDS_OLD_RX, HOLDS_RX) that no living
 * process says are its own. One that is just coming is among them for a moment.
 */
uint32_t holders_miss(struct sock *s, enum holder_part part);

#endif
