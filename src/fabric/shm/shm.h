/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_FABRIC_SHM_SHM_H
#define LIBSDP_FABRIC_SHM_SHM_H

/*
 * The shared-memory fabric: two processes of one host share a sealed memfd
 * that holds, for each direction, a ring of messages, and a page of words
 * for the socket room.
 *
 * Layout of a segment (bytes):
 *   0      header: magic, size, version, ring size
 *   256    progress of the reader of the maker's ring (its own line)
 *   320    what the maker lends of its memory (its own line)
 *   384    not used (its own line)
 *   512    progress of the reader of the opener's ring (its own line)
 *   576    what the opener lends
 *   640    not used
 *   768    number of messages the maker put into its lane
 *   776    tag of the first message that the maker holds back, or 0
 *   832    what the maker's process sent through the kernel (stamp.h)
 *   896    number of messages of the opener's lane
 *   960    what the opener's process sent through the kernel
 *   1024   SHM_WORDS_LEN bytes that belong to the socket room
 *   2048   ring of the maker's messages to the opener, `ring` bytes
 *   2048+R ring of the opener's messages to the maker, `ring` bytes
 *   2048+2R lane of the maker's control messages, SHM_LANE lines
 *   3072+2R lane of the opener's control messages
 *
 * The first half page of each ring shares a page with what is touched anyway,
 * and the lanes are seldom needed: a connection whose messages are small
 * costs two pages.
 *
 * The ring. A message is a frame of whole 64-byte lines, starting at a line: an
 * 8-byte tag, an 8-byte stamp of when it was sent, then the message (BSDH
 * first, so the first line carries 32 bytes of payload). The tag is a keyed
 * value of the frame's number: neither stale bytes of an earlier lap nor
 * anything a program sends can look like it, so the reader polls the frame
 * itself and a small message costs one cache line. The frame's length is
 * BSDH.Len (message bytes 4..7), copied once and checked against the ring
 * before use.
 *
 * Only the writer decides where frames go: a jump frame (Len 0) sends the
 * reader to another offset. The writer begins with SHM_RING_BIRTH bytes,
 * doubles when it finds no room and falls back to SHM_RING_MIN when it finds
 * the ring empty, so no page is touched before it is needed. The reader
 * publishes how far it has released (number and offset of the next frame in
 * one word, in its own line), lazily.
 *
 * A message that is held back is a whole frame without its tag: it and all
 * behind it arrive when that is written. The header has the tag meanwhile, so
 * that the reader can write it if the writer is no more.
 *
 * The lane. Frames are released in order, so a control message behind stream
 * bytes that the program does not read would keep its line. When the ring has
 * no room, control messages travel in the lane: SHM_LANE frames of one line,
 * without a stamp, numbered together with the ring's, copied out and released
 * when they are polled. With it a credit update gets through however long the
 * ring is full, as long as the other side polls.
 */

#include "base/stamp.h"
#include <sys/types.h>

#include "fabric/fabric.h"

#define SHM_MAGIC	0x7364702d73686d31ull /* "sdp-shm1" */
#define SHM_VERSION	6
#define SHM_HEAD_LEN	2048
#define SHM_LANES_LEN	2048
#define SHM_PROGRESS_AT 256 /* and one more, 256 bytes on */
#define SHM_SRC_AT	320 /* and one more, 256 bytes on */
#define SHM_LANED_AT	768 /* and one more, 128 bytes on */
#define SHM_HELD_AT	776 /* and one more, 128 bytes on */
#define SHM_SENDS_AT	832 /* and one more, 128 bytes on */
#define SHM_LANE	16 /* lines */
#define SHM_WORDS_AT	1024
#define SHM_WORDS_LEN	1024
#define SHM_RING_BIRTH	2048 /* bytes of a ring in use at first, */
#define SHM_RING_MIN	4096 /* and at least once that was too little */
#define SHM_RING_LOW	65536 /* smallest and largest ring of a segment */
#define SHM_RING_HIGH	4194304
#define SHM_MSG_MAX	32784 /* 32 KiB payload and the BSDH */
#define SHM_DEPTH	8192 /* receives each end keeps posted */

#define SHM_KEEP (64u << 20) /* bytes of a keep area */

/*
 * One piece of memory that the end's process lets the other end's read. Only
 * one is lent at a time. Mixed versions: zero says that nothing is.
 */
#define SHM_SRC_MAX  0x7fffffffu /* of `word`: bytes read so far */
#define SHM_SRC_BACK 0x80000000u /* taken back: no more may be read */

struct shm_src {
	uint64_t word; /* both; number of the source in the upper half; 0: none */
	uint64_t seal_at, seal; /* lender: in its memory, at this address,
				 * lies this value (mem.c) */
};

struct shm_seg {
	void *mem;
	size_t len;
	uint32_t ring; /* bytes per direction */
};

/*
 * What this process has of segments, and what it may have. The socket room sets
 * the limits (budget.h); here they are kept. All but `look` is atomic.
 */
struct shm_account {
	uint64_t maps, space; /* segments mapped, their bytes */
	uint64_t rings; /* bytes of rings that writers here may have touched, */
	uint64_t most; /* and how many that should be at most */
	uint64_t look_at; /* so many bytes of rings: look() at the limits anew */
	void (*look)(void);
	bool strict; /* the kernel may refuse a page when it is touched */
	bool locks; /* mappings are born locked: mlockall(MCL_FUTURE) */
};
extern struct shm_account shm_account;

/*
 * Make a segment with rings of `ring` bytes (a power of two, 64 KiB..4 MiB):
 * a memfd, sparse, sealed SHRINK|GROW|SEAL, mapped. Returns the memfd
 * (close-on-exec; the caller passes it on and closes it) or negative errno:
 * -EINVAL for a bad size, -EFBIG past RLIMIT_FSIZE, else what the kernel
 * refused. No mapping of a segment is part of a core dump.
 */
int shm_make(struct shm_seg *s, uint32_t ring);
/*
 * Map a segment that another process made, after checking: seals, regular file
 * on tmpfs, size equal to `stated` and sound. `memfd` is not consumed. 0,
 * -EPROTO when it is unsound, or what the kernel answered to mmap().
 */
int shm_open_seg(struct shm_seg *s, int memfd, size_t stated);
void shm_unmap(struct shm_seg *s);

/*
 * The keep areas: behind the rings the file goes on, one keep area for each
 * direction, where the direction's reader may put what its writer shall take
 * back. The pages are not there until they are touched, and not mapped until
 * asked for.
 */
struct shm_keep { /* a window into one; zero: nothing is mapped */
	uint8_t *map;
	size_t len;
	uint64_t at; /* its offset in the keep area; may begin in front of it, */
	uint32_t lead; /* by so many bytes */
	bool tx;
};

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
	int error; /* -EPROTO once the peer wrote nonsense */
	/* writer; offsets are bytes from `tx` */
	uint8_t *tx, *tx_lane;
	const uint64_t *tx_progress; /* the reader's words: ring, lane */
	uint32_t *tx_laned; /* our count of lane frames, for the reader */
	uint64_t *tx_held; /* our word: the tag that is missing, or 0 */
	uint8_t *tx_held_at; /* where, NULL: none; */
	uint8_t *tx_held_msg; /* its message, or that behind the jump */
	uint64_t tx_held_tag;
	bool tx_holds;
	uint64_t tx_tag; /* of the next frame, ring or lane */
	uint64_t tx_seen; /* reader's progress word as last validated */
	uint32_t tx_head; /* offset of the next frame */
	uint32_t tx_cap; /* where the writer turns back at present */
	uint32_t tx_lim; /* where it must: no frame reaches further */
	uint32_t tx_seq; /* ring frames written so far, jumps included */
	uint32_t tx_buf; /* offset handed out by buf(), or a SHM_BUF_* */
	uint32_t tx_buf_len; /* bytes of message it may hold */
	uint32_t tx_mark; /* number of the first frame after the last jump */
	uint32_t tx_wrap; /* end of the frames before the jump to 0 */
	uint32_t tx_paid; /* the ring up to here is in the account */
	bool tx_walled; /* and no frame reaches further, see tx.c */
	uint32_t tx_lane_seq, tx_lane_seen;
	struct stamp_log *tx_sends; /* our process's, for the reader, */
	uint64_t tx_sends_last; /* as of this stamp_logged */
	uint8_t tx_run; /* enum shm_run */
	/* reader */
	const uint8_t *rx, *rx_lane;
	uint64_t *rx_progress; /* our words: ring, lane */
	const uint32_t *rx_laned; /* the writer's count of lane frames */
	const struct stamp_log *rx_sends; /* of the writer's process */
	const uint64_t *rx_held; /* what the writer holds back */
	uint64_t rx_tag; /* of the next frame, ring or lane */
	uint32_t rx_parse, rx_parse_seq; /* next ring frame to poll() */
	uint32_t rx_front, rx_front_seq; /* next ring frame to release() */
	uint32_t rx_told; /* frame number last published */
	uint32_t rx_owed; /* bytes released and not yet published */
	uint32_t rx_lap; /* how far the writer's laps go, as far as known */
	uint32_t rx_lane_seq;
	uint8_t rx_ctrl[FAB_CTRL]; /* the last message of the lane */
	/* sources */
	struct shm_src *src, *peer_src;
	uint32_t src_id;
	int32_t peer; /* the caller's: a unix socket whose credentials are
		       * those of the peer's process, -1: none, read nothing */
	bool rdma_due;
	struct fab_done rdma; /* the read that ended last */
};

/* How the frames that are not yet released lie in the ring. */
enum shm_run {
	SHM_RUN_ONE, /* [tail, head) */
	SHM_RUN_TWO, /* [tail, wrap) and [0, head) */
	SHM_RUN_THREE, /* the same and a jump from there to [wrap, head) */
};

#define SHM_BUF_NONE UINT32_MAX
#define SHM_BUF_LANE (UINT32_MAX - 1)

extern const struct fabric_ops shm_ops;

/* `maker`: this side made the segment. `key`: from both token halves. */
void shm_end_init(struct shm_end *e, const struct shm_seg *s, bool maker,
		  uint64_t key);
/*
 * A window into the keep area of the direction we write (`tx`) or read: *mem is
 * its byte `at`. Returns how many bytes can be used from there, at least one,
 * until the next call; or what the kernel refused. Little address space gives
 * small windows.
 */
ssize_t shm_keep_at(struct shm_keep *a, const struct shm_end *e, bool tx,
		    uint64_t at, uint8_t **mem);
void shm_keep_close(struct shm_keep *a);
/* Address space for a window is set aside, once; with the first segment. */
void shm_keep_spare(void);
/* The pages of the first `to` bytes are given back, if they can be. */
void shm_keep_drop(const struct shm_end *e, bool tx, uint64_t to);
/*
 * fabric_ops.publish: the reader publishes by itself every quarter of the
 * ring.
 */
bool shm_publish(struct shm_end *e);
/* The end is not used any more by this process: its ring leaves the account. */
void shm_forgo(struct shm_end *e);
/* Has the reader released (and published) every frame written so far? */
bool shm_tx_empty(struct shm_end *e);

#endif
