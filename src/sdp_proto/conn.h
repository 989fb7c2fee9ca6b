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

#define CONN_HDR_MAX 36 /* BSDH and the largest extension header [1.6] */
#define CONN_HELLO_MAX 92
#define CONN_HELLO_ACK_LEN 196
#define CONN_ADVERTS 8 /* advertisements held per half */

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

enum conn_op_type {
	CONN_NOTHING,
	CONN_SEND, /* hdr[0..hdr_len) then `payload` stream bytes */
	CONN_READ, /* RDMA Read of an advertisement */
	CONN_WRITE, /* RDMA Write into an advertisement */
	CONN_PROBE, /* zero-length RDMA Write, keep-alive [5.4] */
	CONN_DISCONNECT, /* tear the fabric connection down */
};

struct conn_op {
	enum conn_op_type type;
	uint8_t hdr[CONN_HDR_MAX];
	uint32_t hdr_len;
	uint32_t payload;
	bool solicited;
	uint64_t vaddr; /* CONN_READ, CONN_WRITE: remote memory */
	uint32_t rkey;
	uint64_t len;
};

/* What the program would like to send now. */
struct conn_offer {
	uint64_t bytes; /* stream bytes at hand; 0: only control messages */
	bool oob_last; /* the last of them is urgent [5.1] */
};

/* What a received message means for the stream. */
struct conn_in {
	uint32_t off, len; /* stream bytes inside the message */
	bool oob; /* the last of them is urgent */
	bool oob_pending; /* urgent data announced */
	bool eof; /* DisConn: nothing follows */
	bool reset; /* AbortConn: ECONNRESET */
	bool credits; /* transmit credits or room grew: wake writers */
	bool suspend; /* SuspComm (see conn_suspend_service) */
	bool suspended; /* SuspCommAck */
};

struct conn_params {
	bool active;
	bool native; /* towards kernel SDP peers: strictness of [6], [7] */
	uint32_t rcv_size; /* bytes of one receive buffer, BSDH included */
	uint32_t rcv_max; /* may grow to this by ChRcvBuf; 0: never */
	uint16_t posted; /* receives posted at birth, >= 4 (D1) */
	uint16_t max_adverts;
	uint8_t ext_flags; /* extension flags of anchor.md section 7 */
	uint64_t keepalive_ns; /* 0: off */
};

/* Names of the connection as the Hello carries them. */
struct conn_names {
	uint8_t ipv; /* 4 or 6 */
	uint16_t local_port, remote_port;
	uint8_t src[16], dst[16]; /* [1.4]: IPv4 in the last four bytes */
	uint64_t token; /* extension block */
	uint32_t check;
};

struct conn_advert { /* an advertisement, ours or the peer's */
	uint64_t vaddr;
	uint32_t rkey, len, done, mseq;
};

struct conn {
	/* hot, transmit */
	uint32_t mseq_sent; /* of the last message sent */
	uint32_t credits; /* messages we may send */
	uint32_t peer_rcv_size; /* largest message, BSDH included */
	uint32_t bufs_told; /* our Bufs as last sent */
	/* hot, receive */
	uint32_t mseq_rcvd; /* of the last message received: our MSeqAck */
	uint32_t rcvd_since; /* messages received since we last sent Bufs */
	uint32_t posted; /* receives posted now */
	uint32_t rcv_size;
	uint8_t state; /* enum conn_state */
	uint8_t want; /* bits of control messages due, CONN_WANT_* */
	uint8_t tx_mode, rx_mode; /* [4.1] */
	bool native, active, rd_shut, update_late;
	/* the rest is the machine's own: sdp_proto/*.c */
	bool oob_pend_due, aborted, disc_asked, app_closed;
	bool dis_sent, dis_done, dis_rcvd, cancel_rx, cancel_tx, sink_cancel;
	bool suspend_due, suspend_ack_due, suspended, peer_suspends;
	uint8_t peer_ext_flags, own_ext_flags;
	uint16_t max_adverts, peer_max_adverts;
	uint32_t rcv_max, rcv_want, rcv_ack_due, peer_size_asked;
	uint32_t nond_sent, nond_recv, src_mseq, cancel_mseq, mode_mseq;
	uint32_t rd_compl_due, mode_due, src_count, sink_count;
	struct conn_advert src[CONN_ADVERTS]; /* ours or theirs, see rows */
	struct conn_advert peer_src[CONN_ADVERTS], peer_sink[CONN_ADVERTS];
	struct conn_advert sink[CONN_ADVERTS];
	uint32_t peer_src_count, peer_sink_count;
	uint64_t suspend_service, peer_suspend_service;
	uint64_t update_at, timer_at, idle_since, keepalive_ns;
	uint64_t rx_stream, tx_stream; /* stream bytes carried so far */
	int error; /* negative errno once dead */
	const char *fault; /* static text: which rule the peer broke */
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

/* Largest payload one Data message may carry now, by credits and size. */
uint32_t conn_tx_room(const struct conn *c);

/* Is a control message due (credit update included)? Cheap. */
bool conn_wants_send(const struct conn *c);

/*
 * A message of `byte_len` bytes arrived; `msg` holds at least its first
 * min(byte_len, CONN_HDR_MAX) bytes in memory the peer cannot change. The
 * receive buffer counts as taken until conn_reposted().
 */
int conn_on_recv(struct conn *c, uint64_t now, const void *msg,
		 uint32_t byte_len, struct conn_in *in);
/* `n` receive buffers were posted again. */
void conn_reposted(struct conn *c, uint32_t n);

/* An RDMA operation of CONN_READ/CONN_WRITE completed with `len` bytes. */
int conn_on_done(struct conn *c, uint64_t now, enum conn_op_type what,
		 uint64_t len);
/* Timers [5.3, 5.4, 3.4]. conn_deadline(): next time, or UINT64_MAX. */
int conn_on_timer(struct conn *c, uint64_t now);
uint64_t conn_deadline(const struct conn *c);

/* --- the end ----------------------------------------------------------- */

/* No more stream bytes from us: DisConn when allowed. `closed`: for good. */
void conn_shutdown(struct conn *c, uint64_t now, bool closed);
/* The program reads no more; arriving stream bytes are then an error [29]. */
void conn_shut_read(struct conn *c);
/* Reset: AbortConn if [5.2] allows, then CONN_DISCONNECT. */
void conn_abort(struct conn *c);
/* The fabric connection ended (DREQ); 0 when both DisConns were through. */
int conn_on_disconnected(struct conn *c, uint64_t now);
/* The fabric broke; the conn is dead with -error. */
void conn_on_lost(struct conn *c, int error);

/* --- the rest ---------------------------------------------------------- */

/* Ask the peer for receive buffers of `bytes` (BSDH included) [5.6]. */
int conn_ask_rcvbuf(struct conn *c, uint32_t bytes);
/* Our larger buffers are in place: the ack may go. */
void conn_rcvbuf_ready(struct conn *c, uint32_t bytes);
/* Change our transmit half's mode (ModeChange) [4.6]; -EINVAL if illegal. */
int conn_set_mode(struct conn *c, unsigned int mode);
/* SuspComm [5.7]: 0 or -EOPNOTSUPP without the peer's capability. */
int conn_suspend(struct conn *c, uint64_t service_id);
/* Stop sending and answer SuspCommAck as our last message. */
void conn_suspend_ack(struct conn *c);

const char *conn_state_name(enum conn_state s);

#endif
