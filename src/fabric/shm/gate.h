/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_FABRIC_SHM_GATE_H
#define LIBSDP_FABRIC_SHM_GATE_H

/*
 * When a sink may be written into, and when its owner may leave (D10).
 *
 * The writer enters: it reads where mark and gate are, marks the word BUSY, and
 * then makes one system call
 * (process_vm_writev) whose vector is, in the kernel's order,
 *	mark.in = op;  the gate;  the bytes;  mark.out = op;
 * all in the owner's memory. Then it leaves: BUSY goes, the count rises.
 *
 * The owner marks the word SHUT. If it was not BUSY, no thread enters any more.
 * If it was, the owner first takes the gate's page away, and only then looks
 * at the mark:
 *   in != op: the call has not written its first word. When it does, it finds
 *	no gate, and the kernel goes no further. The owner may leave, for
 *	ever, wherever the writer was stopped.
 *   out == op: every byte is there, the call is over. The owner counts them.
 *   else the writer is in the kernel and will be out after a bounded piece of
 *	copying, or it has left the kernel in front of a gate or of memory that
 *	was not there. A thread that is stopped, or dead, is not in the kernel.
 * The word is changed by compare and swap only, so both ends read the same
 * count from it at the end: its value is the truth, whichever end wrote it. It
 * stays until the writer's end has said, by a message, that it knows of the end
 * of the sink; then there may be another.
 *
 * These functions are the steps of it; each is one atomic access. tests/sim
 * goes through all orders of them.
 */

#include <stdbool.h>
#include <stdint.h>

#define GATE_COUNT 0x3fffffffu /* of the word: bytes written so far */
#define GATE_BUSY  0x40000000u /* a write is under way */
#define GATE_SHUT  0x80000000u /* no write may begin */

/* One in each direction, in the segment. Zero: there is no sink. */
struct shm_sink {
	uint64_t word; /* all three; number of the sink in the upper half */
	uint64_t mark; /* where struct gate_mark lies in the owner's memory */
	uint32_t len; /* writer's: of the write under way */
	int32_t pid, tid; /* of the thread that writes, in its own numbers */
};

/* In the owner's memory. Behind it, a page on, is the gate: 8 bytes. */
struct gate_mark {
	uint64_t in, out;
};

enum gate_way {
	GATE_WAIT, /* not yet */
	GATE_CLEAR, /* the writer has left; what the word says is final */
	GATE_TAKE, /* all of the write is there: count it */
	GATE_DROP, /* none of it counts, and the gate stays shut for good */
};

/* Writer: false: no. *op: what to write into the marks. */
static inline bool gate_enter(struct shm_sink *k, uint32_t id, uint64_t *op)
{
	uint64_t was = __atomic_load_n(&k->word, __ATOMIC_ACQUIRE);

	*op = was | GATE_BUSY;
	return was >> 32 == id && !(was & (GATE_SHUT | GATE_BUSY)) &&
	       __atomic_compare_exchange_n(&k->word, &was, *op, 0,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* One attempt to leave with `len` more bytes; *counted: how many count. */
static inline bool gate_leave(struct shm_sink *k, uint64_t op, uint32_t len,
			      uint32_t *counted)
{
	uint64_t was = __atomic_load_n(&k->word, __ATOMIC_ACQUIRE);
	uint64_t then = (was & ~(uint64_t)GATE_BUSY) + len;

	*counted = len;
	if ((was & ~(uint64_t)GATE_SHUT) == op)
		return __atomic_compare_exchange_n(&k->word, &was, then, 0,
						   __ATOMIC_SEQ_CST,
						   __ATOMIC_RELAXED);
	/* the owner decided: all of it or nothing */
	*counted = was >> 32 == op >> 32 ?
			   (uint32_t)((was & GATE_COUNT) - (op & GATE_COUNT)) :
			   0;
	if (*counted > len)
		*counted = 0;
	return true;
}

/* Owner: nothing begins any more. The word as it was. */
static inline uint64_t gate_shut(struct shm_sink *k)
{
	return __atomic_fetch_or(&k->word, GATE_SHUT, __ATOMIC_SEQ_CST);
}

/*
 * Owner, the word is SHUT and was BUSY as `op`, the gate's page is away: may
 * it leave? `out`: the writer's thread was seen outside of the kernel, or is
 * dead, after the page went.
 */
static inline enum gate_way gate_look(const struct shm_sink *k,
				      const struct gate_mark *m, uint64_t op,
				      bool out)
{
	if (!(__atomic_load_n(&k->word, __ATOMIC_ACQUIRE) & GATE_BUSY))
		return GATE_CLEAR;
	if (__atomic_load_n(&m->out, __ATOMIC_ACQUIRE) == op)
		return GATE_TAKE;
	if (out || __atomic_load_n(&m->in, __ATOMIC_ACQUIRE) != op)
		return GATE_DROP;
	return GATE_WAIT;
}

/*
 * Owner, as gate_look() said: with `len` bytes more (GATE_TAKE), or 0. False:
 * the writer was quicker, GATE_CLEAR.
 */
static inline bool gate_decide(struct shm_sink *k, uint64_t op, uint32_t len)
{
	uint64_t was = op | GATE_SHUT;

	return __atomic_compare_exchange_n(&k->word, &was,
					   (was & ~(uint64_t)GATE_BUSY) + len,
					   0, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

#endif
