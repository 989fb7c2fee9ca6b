/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SDP_PROTO_CONN_H
#define LIBSDP_SDP_PROTO_CONN_H

/*
 * The SDP machine: one connection of the Sockets Direct Protocol.
 *
 * It is told what happened (conn_on_*), is asked what to do next
 * (conn_next(), one operation at a time) and gets time as an argument. It
 * does no I/O, reads no clock, takes no lock and allocates nothing; the same
 * calls give the same answers. Callers serialise the calls of one conn.
 *
 * struct conn holds no pointer (but `fault`, to static text), so that it may
 * lie in memory shared between parent and child.
 *
 * Stream bytes never pass through the machine: conn_next() answers with a
 * message header and the number of stream bytes that follow it, the caller
 * copies them from the program's memory; conn_on_recv() says where in a
 * received message the stream bytes lie. Times are nanoseconds of any
 * monotonic clock. Functions return 0 or a negative errno; after an error
 * the conn is dead and conn_next() answers CONN_DISCONNECT once.
 *
 * reference/sdp-protocol.md is normative; sections are cited as [3.2].
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONN_HDR_MAX	   48 /* BSDH and the largest extension header [1.6] */
#define CONN_HELLO_MAX	   92
#define CONN_HELLO_ACK_LEN 196
#define CONN_ADVERTS	   4 /* advertisements held per half */
#define CONN_RDMA	   16 /* reads, and writes, under way */

enum conn_state { /* [5.3] */
		  CONN_NEW,
		  CONN_HELLO_SENT, /* active: Hello made, waiting for HelloAck */
		  CONN_HELLO_RCVD, /* passive: Hello accepted, HelloAck to be made */
		  CONN_EST,
		  CONN_RCVD, /* peer's DisConn came */
		  CONN_SEND1, /* own DisConn queued, not yet posted */
		  CONN_SENT1, /* own DisConn sent */
		  CONN_BOTH, /* simultaneous close, own DisConn not completed */
		  CONN_LAST, /* own DisConn after the peer's */
		  CONN_TW,
		  CONN_CLOSED,
};

/* Extension flags of the compact Hello; 0x02 (SuspComm) and 0x04 stay 0. */
#define CONN_EXT_SINKAVAIL 0x01 /* SinkAvail and ModeChange */
#define CONN_EXT_ANCHORED  0x08
#define CONN_EXT_WORDS	   0x10 /* the anchor's words travel as messages */
#define CONN_EXT_BARE	   0x20 /* Hello: `check` is about no bytes */
#define CONN_EXT_SIZES \
	0x40 /* ChRcvBufAck may come unasked: conn_say_rcvbuf() */

#define CONN_BURN_LEAVES 3 /* credits that conn_burn() does not take */
#define CONN_SPARE	 3 /* nor anything without bytes, after conn_spare(): */
#define CONN_SPARE_ROOM	 2048u /* and so many bytes of room */

#define CONN_WORDS	32 /* bytes of one half of them, opaque here */
#define CONN_WORDS_SETS 2

enum conn_op_type {
	CONN_NOTHING,
	CONN_SEND, /* hdr[0..hdr_len) then `payload` stream bytes */
	CONN_READ, /* by conn_read() only: RDMA Read of a source, zcopy.h */
	CONN_WRITE, /* RDMA Write of `len` stream bytes into a sink, zcopy.h */
	/*
	 * Tear the fabric connection down, after every message posted before
	 * has left (with DREQ, verbs drop what is still in the send queue).
	 * Messages that arrived and are not consumed yet stay readable.
	 */
	CONN_DISCONNECT,
};

enum conn_took { /* which memory of the offer a CONN_SEND advertises */
		 CONN_TOOK_NONE,
		 CONN_TOOK_SRC,
		 CONN_TOOK_SINK,
};

struct conn_op {
	enum conn_op_type type;
	uint8_t hdr[CONN_HDR_MAX];
	uint32_t hdr_len;
	uint32_t payload;
	bool solicited;
	enum conn_took took; /* CONN_SEND */
	uint64_t vaddr; /* CONN_READ, CONN_WRITE: remote memory */
	uint32_t rkey;
	uint64_t len; /* the same, and CONN_TOOK_*: bytes advertised */
};

/*
 * Memory of the program that the peer may be let at, one piece. `vaddr` and
 * `rkey` go to the peer and mean what the fabric says; `key` is the caller's
 * and comes back in conn_freed().
 */
struct conn_mem {
	uint64_t vaddr;
	uint64_t key;
	uint32_t rkey;
	uint32_t len; /* 0: none */
};

/* Zero copy in an offer; see zcopy.h. */
struct conn_zc {
	struct conn_mem src; /* the first src.len of the bytes lie here */
	struct conn_mem sink; /* the program waits for bytes to come here */
	uint32_t inl; /* in Combined mode a source goes with so many bytes
		       * of it inside the message, 1 at least */
	uint64_t write; /* so many of the bytes may be written by RDMA */
};

/* What the program would like to send now: bytes from conn_tx_at() on. */
struct conn_offer {
	uint64_t bytes; /* stream bytes at hand; 0: only control messages */
	bool oob_last; /* the last of them is urgent [5.1] */
	bool more; /* others wait that are not offered: DisConn must not go */
	const struct conn_zc *zc; /* NULL: by copy only */
	uint64_t back; /* `bytes` 0: the peer's, unread, to be handed back */
};

/* What a received message means for the stream. */
struct conn_in {
	uint32_t off, len; /* stream bytes inside the message */
	bool oob; /* the last of them is urgent */
	bool oob_pending; /* urgent data announced */
	bool eof; /* DisConn: nothing follows */
	bool reset; /* AbortConn: ECONNRESET */
	bool credits; /* transmit credits or room grew: wake writers */
	const uint8_t *words; /* Words: CONN_WORDS bytes of `msg`, or NULL */
	uint32_t back_off, back; /* Back: bytes that we sent, handed back */
	bool source; /* the peer let us at a source: see conn_source() */
	bool sink; /* at a sink: see conn_write_room() */
	bool freed; /* memory of ours came free: see conn_freed() */
};

struct conn_params {
	bool native; /* towards kernel SDP peers: leniency of [6], [7] */
	uint32_t rcv_size; /* bytes of one receive buffer, BSDH included */
	uint16_t posted; /* receives at birth, >= 4 (D1), native >= 5 */
	uint16_t max_adverts; /* we accept; cut to 1..CONN_ADVERTS */
	uint8_t ext_flags; /* extension flags of anchor.md section 7 */
	/*
	 * The caller reads the peer's sources, or gives them back (zcopy.h).
	 * Without it every SrcAvail is answered by SendSm at once.
	 */
	bool reads;
	/*
	 * Bytes written into the peer's sink lie in the program's memory
	 * alone: nothing of the stream passes their RdmaWrCompl before the
	 * peer is known to have heard of it (conn_write_heard()).
	 */
	bool writes_wait;
};

/*
 * Names of the connection as the Hello carries them, seen from the end that
 * sends it: `src` and `local_port` are the sender's own. A HelloAck carries
 * remote_port, token and check only, the compact Hello no addresses.
 */
struct conn_names {
	uint8_t ipv; /* 4 or 6 */
	uint16_t local_port, remote_port;
	uint8_t src[16], dst[16]; /* [1.4]: IPv4 in the last four bytes */
	uint64_t token; /* extension block */
	uint32_t check;
	uint16_t window; /* what `check` is about; the caller's */
};

struct conn_advert { /* an advertisement, ours or the peer's */
	uint64_t vaddr;
	uint64_t key; /* ours: conn_mem's */
	uint32_t rkey, mseq;
	uint32_t len; /* without bytes that came along in the message */
	uint32_t done; /* carried: reported, read, or written */
	uint32_t told; /* the peer's source: of those, reported */
	uint32_t asked; /* the peer's source: reads begun for so many */
};

/* Memory that the peer will not touch any more. */
struct conn_freed {
	uint64_t key;
	uint64_t at; /* stream offset of the first byte carried */
	uint32_t bytes; /* carried, from the start of the memory on */
	bool sink; /* it was a sink, else a source */
};

/* What is due, in struct conn's `want`. The order is that of sending. */
enum conn_want {
	CONN_WANT_ABORT = 0x0001, /* AbortConn, then END */
	CONN_WANT_END = 0x0002, /* CONN_DISCONNECT */
	CONN_WANT_RD_COMPL = 0x0008, /* RdmaRdCompl of peer_src[0] */
	CONN_WANT_SENDSM = 0x0010,
	CONN_WANT_WR_COMPL = 0x0020, /* RdmaWrCompl of peer_sink[0] */
	CONN_WANT_SINK_ACK = 0x0040, /* SinkCancelAck */
	CONN_WANT_SRC_CANCEL = 0x0080, /* SrcAvailCancel */
	CONN_WANT_SINK_CANCEL = 0x0100, /* SinkAvailCancel */
	CONN_WANT_MODE = 0x0200, /* ModeChange of mode_due */
	CONN_WANT_RCVACK = 0x0800, /* ChRcvBufAck of rcv_said bytes */
	CONN_WANT_DISC = 0x2000, /* DisConn, once all stream bytes are out */
	CONN_WANT_WORDS = 0x8000, /* Words; nothing passes them */
};

struct conn {
	/* hot, transmit */
	uint32_t mseq_sent; /* of the last message sent */
	uint32_t credits; /* messages we may send */
	uint32_t peer_rcv_size; /* largest message, BSDH included */
	uint32_t bufs_told; /* our Bufs as last sent */
	uint32_t ack_told; /* our MSeqAck as last sent */
	/* hot, receive */
	uint32_t mseq_rcvd; /* of the last message received: our MSeqAck */
	uint32_t posted; /* receives posted now */
	uint32_t rcv_size; /* bytes of one of them, BSDH included */
	uint16_t want; /* CONN_WANT_* */
	uint8_t state; /* enum conn_state */
	bool tx_fast; /* stream bytes may go; nothing odd about them */
	bool rx_fast; /* stream bytes may come; nothing odd about them */
	bool update_late; /* a credit update waits for update_at */
	uint8_t update_tries; /* late updates in a row */
	bool ctl_held; /* ctl_bufs is not 0 */
	uint8_t burn; /* messages to be sent for their credits' sake */
	bool spare; /* conn_spare() */
	uint64_t rx_stream, tx_stream; /* stream bytes carried so far */
	uint32_t nond_sent, nond_recv; /* [4.5] */
	/* the rest is the machine's own: sdp_proto/ */
	uint32_t ctl_bufs; /* receives held by messages without payload */
	uint8_t tx_mode, rx_mode; /* [4.1], enum wire_mode */
	bool native, rd_shut;
	bool pend_told, pend_heard; /* OOB_PEND of the present urgent byte */
	bool shut_asked, app_closed, dis_sent, dis_rcvd;
	bool cancel_tx; /* our SrcAvailCancel is out */
	bool cancel_rx; /* peer's SrcAvailCancel is being processed */
	bool sink_cancel; /* our SinkAvailCancel is out */
	bool sendsm_sent; /* sendsm_mseq is valid */
	bool rcv_told; /* our ChRcvBufAck rcv_mseq is out and not heard of */
	bool may_read; /* conn_params.reads */
	bool writes_wait; /* conn_params.writes_wait */
	bool wr_told; /* our RdmaWrCompl wr_mseq is out and not heard of */
	bool refuse; /* the peer's sources are to be given back */
	bool read_failed; /* what is still under way does not count */
	bool sink_end; /* nothing more is written into peer_sink[0] */
	bool write_fresh; /* no conn_next() since the last CONN_WRITE */
	uint16_t reads, writes; /* RDMA operations under way */
	uint32_t read_len[CONN_RDMA], write_len[CONN_RDMA]; /* oldest first */
	uint8_t own_ext_flags, peer_ext_flags;
	uint8_t mode_due; /* code of the ModeChange */
	uint16_t max_adverts, peer_max_adverts;
	uint32_t rcv_said; /* what the peer is told of rcv_size */
	uint32_t rcv_least, peer_rcv_least; /* sizes of the Hellos */
	uint32_t src_mseq, cancel_mseq, mode_mseq, sendsm_mseq, wr_mseq,
		rcv_mseq;
	uint32_t mode_nond; /* nond_sent when mode_mseq went out; that is the
			     * last ModeChange(Combined), 0 once the peer has it */
	/* Advertisements, oldest first: ours, then the peer's. */
	uint32_t src_count, sink_count, peer_src_count, peer_sink_count;
	struct conn_advert src[CONN_ADVERTS], sink[CONN_ADVERTS];
	struct conn_advert peer_src[CONN_ADVERTS], peer_sink[CONN_ADVERTS];
	uint32_t freed_count;
	struct conn_freed freed[2 * CONN_ADVERTS]; /* oldest first */
	uint8_t words_due; /* sets that have not left yet, bits */
	uint8_t words[CONN_WORDS_SETS][CONN_WORDS];
	uint64_t update_at, timer_at;
	int error; /* negative errno once dead */
	const char *fault; /* static text: the last rule the peer broke, also
			    * one that is only worth a line in the log */
};

/* --- birth: CM exchange ------------------------------------------------ */

void conn_init(struct conn *c, const struct conn_params *p);
/* Active: the Hello [1.4, 2.6]; returns its length (56 or 92 native). */
size_t conn_hello(struct conn *c, const struct conn_names *n,
		  uint8_t buf[CONN_HELLO_MAX]);
/* Passive: 0, or -EPROTO: answer REJ 28. *n receives the peer's names. */
int conn_on_hello(struct conn *c, const void *msg, size_t len,
		  struct conn_names *n);
/* Passive: the HelloAck, always CONN_HELLO_ACK_LEN bytes; state -> EST. */
void conn_hello_ack(struct conn *c, const struct conn_names *n,
		    uint8_t buf[CONN_HELLO_ACK_LEN]);
/* Active: 0 (state EST) or -EPROTO / -ECONNREFUSED [6, 38]. */
int conn_on_hello_ack(struct conn *c, const void *msg, size_t len,
		      struct conn_names *n);

/* --- life -------------------------------------------------------------- */

/*
 * What to do next, given what the program offers and the largest message
 * (bytes, 0: none) the fabric can take now. A CONN_SEND that was answered
 * must be posted. CONN_NOTHING with bytes offered means: no credit, no room
 * or not allowed; conn_on_recv() says `credits` when that changes.
 */
void conn_next(struct conn *c, uint64_t now, const struct conn_offer *offer,
	       uint32_t room, struct conn_op *op);

/*
 * The stream bytes of a Data that was just answered, none of them urgent, are
 * not to be had: it goes without them, as a credit update does.
 */
void conn_bare(struct conn *c, struct conn_op *op);

/* Largest payload one Data message may carry now, by credits and size. */
uint32_t conn_tx_room(const struct conn *c);

/*
 * Messages the peer may still send by what it knows: our Bufs as last told,
 * less what came since [3.4].
 */
static inline uint32_t conn_peer_view(const struct conn *c)
{
	uint32_t since = c->mseq_rcvd - c->ack_told;

	return since < c->bufs_told ? c->bufs_told - since : 0;
}

/* Has the peer's view sunk so low that a credit update is worth it [3.4]? */
static inline bool conn_view_low(const struct conn *c)
{
	uint32_t view = conn_peer_view(c);

	return (view > 2 ? view + view / 2 : view) < c->posted;
}

/*
 * May a message without payload use the last credit [3.3]? It has to tell of
 * new receives. A kernel that has our DisConn tells us of its own only with
 * bytes, and needs three for those: ours have to be that many, whatever is
 * under way, or both ends could wait for the other for ever.
 */
static inline bool conn_last_credit(const struct conn *c)
{
	uint32_t news = c->native && c->dis_sent ? 3 : 1;

	return c->posted >= conn_peer_view(c) + news;
}

/*
 * The program was told that it can send: nothing else takes the credits and the
 * room that a message with bytes needs, before it did. What is due from then on
 * follows that message, but for words, which pass none: they are not given
 * while conn_spared(). The caller takes it back after a while, or the peer
 * could wait for ever.
 */
static inline void conn_spare(struct conn *c, bool on)
{
	c->spare = on;
}

/* Is what there is just enough? */
static inline bool conn_spared(const struct conn *c, uint32_t room)
{
	return c->spare && (c->credits <= CONN_SPARE || room < CONN_SPARE_ROOM);
}

/*
 * The last credits are left to bytes, which a program may send at any time,
 * while the peer can send bytes without another update: those give credits. A
 * peer that is about to lift its direction needs one more than bytes do: with
 * that left, too, both ends waited for the other's update.
 */
static inline bool conn_may_update(const struct conn *c)
{
	return c->credits > CONN_SPARE || conn_peer_view(c) <= CONN_SPARE;
}

/*
 * Is a credit update due now? Only with fewer than 4 receives could two ends
 * answer each other's updates for ever; then one that answers an empty Data
 * waits until update_at, unless the peer has nothing left.
 */
static inline bool conn_update_due(const struct conn *c)
{
	if (c->state >= CONN_TW)
		return false;
	if (c->burn && c->credits > CONN_BURN_LEAVES)
		return true;
	if (c->spare && c->credits <= CONN_SPARE)
		return false;
	return conn_view_low(c) && c->credits && conn_may_update(c) &&
	       (c->credits > 1 || conn_last_credit(c)) &&
	       (!c->update_late || c->posted > 3 || !conn_peer_view(c));
}

/*
 * The peer wants rid of receives, and one that is posted can only be used up:
 * `n` messages without anything in them will go (255 at most), as long as
 * credits for more than those are left that bytes and answers need.
 */
static inline void conn_burn(struct conn *c, uint32_t n)
{
	uint32_t room = (uint32_t)(UINT8_MAX - c->burn);

	c->burn = (uint8_t)(c->burn + (n < room ? n : room));
}

/*
 * Is a message due besides the program's bytes (credit update included), or
 * another op? Cheap. Ask conn_next() until it answers CONN_NOTHING: a due
 * message may have to wait for credits, room, or stream bytes before it.
 */
static inline bool conn_wants_send(const struct conn *c)
{
	return c->want || conn_update_due(c);
}

/*
 * Is all that is due an update with which there is no hurry? The peer can still
 * send bytes, and knows of more than half of the receives; what the program
 * sends next says the same.
 */
static inline bool conn_can_wait(const struct conn *c)
{
	uint32_t view = conn_peer_view(c);

	return !c->want && !c->burn && view >= 3 && view > c->posted / 2;
}

/*
 * A message of `byte_len` bytes arrived; `msg` holds at least its first
 * min(byte_len, CONN_HDR_MAX) bytes in memory the peer cannot change. The
 * receive buffer counts as taken until conn_reposted().
 */
int conn_on_recv(struct conn *c, uint64_t now, const void *msg,
		 uint32_t byte_len, struct conn_in *in);
/*
 * `n` receive buffers were posted again. Buffers of messages without payload
 * are to be reposted at once, whether the program reads or not [3.3].
 */
static inline void conn_reposted(struct conn *c, uint32_t n)
{
	c->posted += n;
	if (c->ctl_held) {
		if (n <= c->ctl_bufs) {
			c->ctl_bufs -= n;
			c->ctl_held = c->ctl_bufs != 0;
			return;
		}
		c->ctl_bufs = 0;
		c->ctl_held = false;
	}
	c->update_late = false; /* the program read */
	c->update_tries = 0;
}

/* `n` of those without payload were not, and will not be, posted again. */
static inline void conn_shed(struct conn *c, uint32_t n)
{
	c->ctl_bufs = n < c->ctl_bufs ? c->ctl_bufs - n : 0;
	c->ctl_held = c->ctl_bufs != 0;
}
/*
 * An RDMA operation ended with `len` bytes (zcopy.h says more). -EINVAL: none
 * is under way. Every answered CONN_READ and CONN_WRITE ends here, also after
 * death.
 */
int conn_on_done(struct conn *c, enum conn_op_type what, uint64_t len);
/* Timers [5.3, 3.4]. conn_deadline(): next time, or UINT64_MAX. */
int conn_on_timer(struct conn *c, uint64_t now);
uint64_t conn_deadline(const struct conn *c);

/* --- the end ----------------------------------------------------------- */

/*
 * No more stream bytes from us: DisConn follows when allowed, once an offer
 * comes without bytes (given back by the peer, too; see conn_offer.more).
 * `closed`: for good, and the program reads no more (conn_shut_read()); from
 * then on waiting for the peer has a limit [5.3].
 */
void conn_shutdown(struct conn *c, uint64_t now, bool closed);
/* The program reads no more; arriving stream bytes are then an error [29]. */
void conn_shut_read(struct conn *c);
/* Reset: AbortConn if [5.2] allows, then CONN_DISCONNECT. */
void conn_abort(struct conn *c);
/*
 * The fabric connection ended (DREQ), and every message that came before it
 * went through conn_on_recv(). 0 when both DisConns were through.
 */
int conn_on_disconnected(struct conn *c, uint64_t now);
/* The fabric broke; the conn is dead with -error (`error` of either sign). */
void conn_on_lost(struct conn *c, int error);

/* --- the rest ---------------------------------------------------------- */

/*
 * Between two ends with CONN_EXT_SIZES: from now on every posted receive has
 * `bytes` (BSDH included) [5.6]. Or it is to have no more: what is posted stays as large as
 * it was until conn_rcvbuf_heard(), what is posted then may have `bytes`. Never
 * less than in the Hello (-EINVAL). -EOPNOTSUPP, -ENOTCONN: it cannot be said.
 */
int conn_say_rcvbuf(struct conn *c, uint32_t bytes);
static inline bool conn_sizes(const struct conn *c)
{
	return c->own_ext_flags & c->peer_ext_flags & CONN_EXT_SIZES;
}
/* Does the peer know what we said last? Nothing larger will come then. */
static inline bool conn_rcvbuf_heard(const struct conn *c)
{
	return !(c->want & CONN_WANT_RCVACK) && !c->rcv_told;
}
/*
 * Change our transmit half's mode (ModeChange) [4.6] to enum wire_mode;
 * -EINVAL if illegal, -EOPNOTSUPP without the peer's capability.
 */
int conn_set_mode(struct conn *c, unsigned int mode);

/*
 * Tell the peer one set of words (handover_proto/remote.h), before any stream
 * bytes offered later. A set that has not left yet is replaced. -EOPNOTSUPP
 * without the capability of both, or where the peer's receives are too small;
 * -EINVAL: no such set; lost when the connection is about to end.
 */
int conn_words(struct conn *c, unsigned int set, const uint8_t w[CONN_WORDS]);

#endif
