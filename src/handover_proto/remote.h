/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_HANDOVER_PROTO_REMOTE_H
#define LIBSDP_HANDOVER_PROTO_REMOTE_H

/*
 * The words of the anchor machine between two hosts (anchor.md section 7).
 *
 * On one host the two ends share struct anc_page. Between hosts each has one of
 * its own, the mirror: what the peer would write is written into it when a
 * message of the peer says so, and what we write is told to the peer by a
 * message. The rest of the room works on the words as ever.
 *
 * A message is a snapshot of one half: what its sender says as the writer of
 * its own direction, or as the reader of the other. Snapshots replace each
 * other, so one that has not left yet may be overwritten. They travel in order
 * with the stream bytes of SDP: what a snapshot says is true behind all bytes
 * that came before it. Nothing orders them with the bytes on the anchor; where
 * that matters, the writer waits until the reader has seen its state
 * (remote_seen()): before the first byte after a lift, and before the first
 * after a stall. The reader in turn leaves DRAINING only when it was told that
 * the writer knows (anc_rx.unsure): an end that finds the queue pair broken
 * then knows what the other may have written (resume.h).
 *
 * The state word. Each move counts one in anc_dir.epoch, and each end tells
 * the epoch and the state it is in. In every state but those that both ends
 * may leave only one of them can move next, so that an end which is behind
 * simply takes over what it is told. Where both moved from the same epoch, the
 * writer's moves stand and the reader's is void (anchor.md rule 1). That x has
 * been passed is for the writer to say (anc_dir.far): from SWITCHING the reader
 * has but one move, to ask. Busy calls
 * of the reader count only when the writer says so (remote_held()): it may
 * have switched meanwhile.
 *
 * `taken` is told when the writer asks for it (anc_dir.wait, unless the
 * direction is LIFTED: then room is what counts, and the credits tell it), in
 * every snapshot of the reader's half, and when the connection is idle
 * (`idle`).
 *
 * Pure: no I/O, nothing waits. All calls under the lock of the sock, by the
 * process that has the fabric connection. The peer is not trusted: a snapshot
 * that cannot follow from what is known is -EPROTO and changes nothing.
 */

#include "handover_proto/anchor.h"

#define REMOTE_LEN 32 /* bytes of a snapshot */

enum remote_half {
	REMOTE_WRITER, /* of the sender's own direction */
	REMOTE_READER, /* of the other */
	REMOTE_HALVES
};

/* What a snapshot brought, or-ed. */
enum remote_news {
	REMOTE_STATE = 0x01, /* a direction changed hands, or `ready` came */
	REMOTE_SEEN = 0x02, /* the reader knows our present state */
	REMOTE_TAKEN = 0x04, /* the answer to anc_dir.wait */
	REMOTE_KICK = 0x08, /* the reader wants a kick */
	REMOTE_VOID =
		0x10, /* our busy calls on the receive direction are void */
	REMOTE_ASKS = 0x20, /* the writer waits for `taken` */
	REMOTE_BURN = 0x40, /* `burn` messages are to be sent */
};

struct remote {
	struct anc_dir *tx, *rx; /* of our mirror */
	struct anc_side *own, *peer;
	const struct anc_tx *at;
	struct anc_rx *ar;
	/* our transmit direction */
	uint32_t reader_epoch; /* where the reader is */
	uint8_t reader_state;
	bool reader_busy; /* its busy calls are in tx->state, as one */
	bool gone; /* it closed */
	bool given; /* in RESTORING: what it handed back it found on the anchor */
	uint32_t wait_no; /* questions after `taken` so far */
	uint32_t wait_done; /* the last one that was answered */
	uint32_t kicks_asked; /* kicks the reader asked for so far */
	/* our receive direction */
	uint32_t writer_epoch; /* where the writer was, as told last */
	uint8_t writer_state;
	uint32_t wait_seen; /* the writer's last question, */
	uint32_t wait_told; /* the last one we answered */
	uint32_t kick_no; /* kicks we asked for so far */
	uint32_t kicks; /* the writer's count as it was told last */
	bool held; /* the writer said that it will not switch, as we are busy; */
	bool busy; /* we told it that we are, */
	uint32_t busy_epoch; /* then */
	/* messages for the sake of the receives they use up, mod 256 */
	uint8_t burn_no; /* asked for by us so far, */
	uint8_t burn_seen; /* by the other end, */
	uint8_t burn; /* of those, with the last snapshot */
	uint8_t told[REMOTE_HALVES][REMOTE_LEN];
};

/* *r and the words of the mirror are zero; counts may be there already. */
void remote_init(struct remote *r, struct anc_page *mirror,
		 const struct anc_tx *at, struct anc_rx *ar);
/*
 * Is there something the peer has to know? Then the snapshot: true. It counts
 * as told: the caller sends it, or a later one of this half instead. `idle`:
 * counts that are not waited for are worth it, too.
 */
bool remote_make(struct remote *r, enum remote_half half, bool idle,
		 uint8_t out[REMOTE_LEN]);
/* A snapshot came: enum remote_news, or -EPROTO. */
int remote_take(struct remote *r, const uint8_t in[REMOTE_LEN]);

/*
 * Does the reader of our direction know that it is in the state it is in?
 * After the switch only then may anything be written to the anchor: it would
 * take it for stream bytes.
 */
bool remote_seen(const struct remote *r);
/* Taken so far, what its writer waits for is there: all, or x passed. */
static inline uint64_t remote_awaited(const struct anc_dir *rx)
{
	return __atomic_load_n(anc_state(rx) == ANC_TCP ? &rx->sent : &rx->x,
			       __ATOMIC_ACQUIRE);
}
/* Does the writer know that its reader is where it is? See resume.h. */
bool remote_sure(const struct remote *r);
/*
 * Are our busy calls on the receive direction in force? Not by an answer from
 * before they had ended once: what was told of them is not taken back, nor told
 * anew, before it was answered.
 */
static inline bool remote_held(const struct remote *r)
{
	return r->held && r->busy;
}
/* Kicks or other control bytes we took before they were announced. */
void remote_kicks_ahead(struct remote *r);

#endif
