/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_FABRIC_SHM_FRAME_H
#define LIBSDP_FABRIC_SHM_FRAME_H

/* Frames, tags and jumps: what writer and reader share; not for others. */

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/stamp.h"
#include "fabric/shm/shm.h"

#define LINE	   64u
#define TAG	   8u /* bytes before a message in the lane, */
#define HEAD	   16u /* and in the ring: tag, stamp */
#define MSG_MIN	   16u /* a BSDH */
#define OPENER_KEY 0x6a09e667f3bcc908ull
/* Even, and keys are odd: no tag is 0, what fresh memory holds. */
#define TAG_STEP   0x3c6ef372fe94f82aull

/*
 * What lies where the message of a frame would; `len` is where BSDH.Len would
 * be.
 */
struct jump {
	uint32_t to, len, cap;
};

static inline struct shm_end *shm_of(struct end *e)
{
	return (struct shm_end *)e;
}

static inline uint32_t frame_of(uint32_t len)
{
	return (len + HEAD + LINE - 1) & ~(LINE - 1);
}

static inline uint64_t tag_load(const uint8_t *frame)
{
	return __atomic_load_n((const uint64_t *)(const void *)frame,
			       __ATOMIC_ACQUIRE);
}

static inline void tag_store(uint8_t *frame, uint64_t tag)
{
	__atomic_store_n((uint64_t *)(void *)frame, tag, __ATOMIC_RELEASE);
}

/* Of a frame in the ring; STAMP_MIXED in it as it was sent. */
static inline uint64_t stamp_load(const uint8_t *frame)
{
	return __atomic_load_n((const uint64_t *)(const void *)(frame + TAG),
			       __ATOMIC_RELAXED);
}

static inline void stamp_store(uint8_t *frame, uint64_t stamp)
{
	__atomic_store_n((uint64_t *)(void *)(frame + TAG), stamp,
			 __ATOMIC_RELAXED);
}

/* The length is in the message. */
static inline uint32_t len_load(const uint8_t *msg)
{
	const uint32_t *len = (const uint32_t *)(const void *)(msg + 4);

	return be32toh(__atomic_load_n(len, __ATOMIC_RELAXED));
}

static inline void len_store(uint8_t *msg, uint32_t len)
{
	*(uint32_t *)(void *)(msg + 4) = htobe32(len);
}

static inline uint32_t tail_off(const struct shm_end *e)
{
	return (uint32_t)e->tx_seen;
}

static inline uint32_t tail_seq(const struct shm_end *e)
{
	return (uint32_t)(e->tx_seen >> 32);
}

/* Frame bytes of a message of `len` bytes at `off`, 0: impossible. */
static inline uint32_t frame_sound(const struct shm_end *e, uint32_t off,
				   uint32_t len)
{
	uint32_t frame = frame_of(len);

	if (len < MSG_MIN || len > SHM_MSG_MAX ||
	    frame > e->seg.ring - LINE - off)
		return 0;
	return frame;
}

/*
 * Where the jump frame at `off` of a ring leads, or SHM_BUF_NONE; `cap` is
 * where its writer turns back at present.
 */
static inline uint32_t jump_sound(const struct shm_end *e, const uint8_t *ring,
				  uint32_t off, uint32_t *cap)
{
	struct jump j;

	memcpy(&j, ring + off + HEAD, sizeof(j));
	__asm__ volatile("" : "+m"(j)); /* checked is what is used */
	if (j.len || j.to % LINE || j.to > e->seg.ring - LINE)
		return SHM_BUF_NONE;
	*cap = j.cap < e->seg.ring ? j.cap : e->seg.ring;
	return j.to;
}

/* Look how far the reader is. */
void shm_tx_look(struct shm_end *e);
/*
 * pay.c: the ring up to `end` is used from now on. The writer was promised it,
 * so nothing is refused; behind the placing of the frame shm_settle() walls an
 * end whose account is overdrawn: from then on shm_raise() gives room that is
 * paid for, or none.
 */
void shm_pay(struct shm_end *e, uint32_t end);
void shm_settle(struct shm_end *e);
bool shm_affords(uint32_t more);
bool shm_raise(struct shm_end *e);
/* A new end, or one whose ring is empty and was given back. */
void shm_pay_begin(struct shm_end *e);
/* How far the next frames may reach. */
void shm_tx_limit(struct shm_end *e);
uint32_t shm_tx_room(struct end *end);
void *shm_tx_buf(struct end *end, uint32_t len);
void *shm_tx_ctrl(struct end *end);
int shm_tx_send(struct end *end, uint32_t len, bool solicited);
void shm_tx_trim(struct end *end);
void shm_tx_hold(struct end *end, bool on);
void shm_rx_unhold(struct end *end);
int shm_rx_poll(struct end *end, struct fab_msg *m);
bool shm_rx_pending(struct end *end);
int shm_rx_front(struct end *end, struct fab_msg *m);
void shm_rx_release(struct end *end);
const struct stamp_log *shm_rx_sends(struct end *end);
/* mem.c: fabric_ops of these names */
int shm_lend(struct end *end, const void *mem, uint32_t len, uint32_t *rkey);
int64_t shm_lent(struct end *end, bool back);
void shm_unlend(struct end *end);
bool shm_recalled(struct end *end);
int shm_read(struct end *end, void *to, uint64_t vaddr, uint32_t rkey,
	     size_t len, uint64_t id);
int shm_done(struct end *end, struct fab_done *d);
/* The process of the other end in our numbers, if it is of our user. */
int shm_peer_pid(const struct shm_end *e);
/* Has the process that had that number not ended yet? -ESRCH: it has. */
int shm_peer_lives(const struct shm_end *e);

#endif
