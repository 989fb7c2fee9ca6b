/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_FABRIC_SHM_SHM_H
#define LIBSDP_FABRIC_SHM_SHM_H

/*
 * The shared-memory fabric: two processes of one host share a sealed memfd
 * that holds, for each direction, a ring of messages, and a page of words
 * for the socket room.
 *
 * Layout of a segment (bytes):
 *   0      header page: magic, version, size, ring size; from SHM_WORDS_AT
 *          on SHM_WORDS_LEN bytes that belong to the socket room; ring
 *          control lines (one cache line per writer and ring)
 *   4096   ring of the maker's messages to the opener, `ring` bytes
 *   4096+R ring of the opener's messages to the maker, `ring` bytes
 *
 * The ring. A message is a frame of whole 64-byte lines, starting at a line:
 * an 8-byte tag, then the message (BSDH first, so the first line carries 40
 * bytes of payload). The tag is a keyed value of the frame's sequence number:
 * neither stale bytes of an earlier lap nor anything a program sends can look
 * like it, so the reader polls the frame itself and a small message costs one
 * cache line. The frame's length is BSDH.Len (bytes 4..7), copied once and
 * checked against the ring before use.
 *
 * Only the writer decides where the ring ends: a wrap frame sends the reader
 * back to offset 0. It begins with SHM_RING_MIN bytes, doubles when it finds
 * no room and falls back when the ring runs empty, so an idle connection
 * keeps a page per direction and no page is touched before it is needed.
 * The reader publishes how far it has released (sequence number and offset
 * in one 64-bit word, in its own line), lazily.
 *
 * Room is kept back for control messages: with the credits of SDP a message
 * of at most 64 bytes always finds room as long as the peer granted credits.
 */

#include "fabric/fabric.h"

#define SHM_MAGIC 0x7364702d73686d31ull /* "sdp-shm1" */
#define SHM_WORDS_AT 1024
#define SHM_WORDS_LEN 1024
#define SHM_RING_MIN 4096
#define SHM_MSG_MAX 32784 /* 32 KiB payload and the BSDH */
#define SHM_DEPTH 8192 /* receives each end keeps posted */

struct shm_seg {
	void *mem;
	size_t len;
	uint32_t ring; /* bytes per direction */
};

/*
 * Make a segment with rings of `ring` bytes (a power of two, 64 KiB..4 MiB):
 * a memfd, sparse, sealed SHRINK|GROW|SEAL, mapped. Returns the memfd (high,
 * close-on-exec; the caller passes it on and closes it) or negative errno.
 */
int shm_make(struct shm_seg *s, uint32_t ring);
/*
 * Map a segment somebody else made, after checking: seals, regular file on
 * tmpfs, size equal to `stated` and sound. `memfd` is not consumed.
 */
int shm_open_seg(struct shm_seg *s, int memfd, size_t stated);
void shm_unmap(struct shm_seg *s);

/* The socket room's words, SHM_WORDS_LEN bytes, zero at birth. */
static inline void *shm_words(const struct shm_seg *s)
{
	return (uint8_t *)s->mem + SHM_WORDS_AT;
}

/*
 * One end of the connection. Plain data that may lie in memory shared
 * between parent and child. Everything here is private to our side; what the
 * peer can write is only read through `seg`.
 */
struct shm_end {
	struct end end;
	struct shm_seg seg;
	uint64_t key;
	/* writer */
	uint8_t *tx;
	uint32_t tx_head; /* offset of the next frame */
	uint32_t tx_cap; /* where the writer wraps at present */
	uint32_t tx_seq; /* number of the next frame */
	uint64_t tx_seen; /* reader's progress word as last validated */
	uint32_t tx_buf; /* offset handed out by buf(), or UINT32_MAX */
	/* reader */
	const uint8_t *rx;
	uint32_t rx_parse, rx_parse_seq; /* next frame to poll() */
	uint32_t rx_front, rx_front_seq; /* next frame to release() */
	uint32_t rx_told; /* sequence number last published */
	uint32_t rx_owed; /* bytes released and not yet published */
	int error;
};

/* `maker`: this side made the segment. `key`: from both token halves. */
void shm_end_init(struct shm_end *e, const struct shm_seg *s, bool maker,
		  uint64_t key);
/*
 * Publish what was released so far (the reader does it by itself every
 * quarter of the ring). True when something new was published: then the
 * caller looks whether the writer waits for room.
 */
bool shm_publish(struct shm_end *e);
/* Does the writer have frames that the reader has not released? */
bool shm_tx_empty(struct shm_end *e);

#endif
