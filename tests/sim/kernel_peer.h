/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_KERNEL_PEER_H
#define LIBSDP_TESTS_KERNEL_PEER_H

/*
 * A kernel SDP socket, simulated: OFED's ib_sdp (1.5 to 3.x), FreeBSD's port
 * of it, and as much of the first Linux SDP ("gen1") as refuses a connection.
 * Written from reference/sdp-protocol.md alone. It shares no code with
 * src/sdp_proto, the codec included: what the two agree on, two readings of
 * the reference agree on.
 *
 * It is strict where a real one would suffer in silence: whatever a kernel
 * peer does not know, does not survive or reads stale bytes for is a fault.
 * Its own oddities (sections 2.2, 3.5 and 7) are as the reference says.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KP_MSG_MAX 36000 /* the largest message anything sends */
#define KP_URGENTS 3
#define KP_MS	   1000000ull
#define KP_S	   1000000000ull

enum kp_family {
	KP_OFED,
	KP_FREEBSD,
	KP_GEN1,
};

/* What its program does, and how odd the kernel is. Times are ns. */
struct kp_plan {
	uint64_t total; /* bytes it writes */
	uint64_t urgent[KP_URGENTS]; /* offsets of urgent bytes, rising */
	uint32_t urgents;
	uint32_t chunk, gulp; /* bytes of a write, a read, at most */
	uint64_t write_gap, read_gap; /* pauses, at most */
	uint64_t lazy_until; /* reads nothing before */
	uint32_t rcvbuf; /* SO_RCVBUF */
	uint32_t zcopy; /* writes so long go by SrcAvail; 0: none */
	uint64_t leave_at; /* closes for good; 0: never */
	bool nodelay;
	bool patient; /* closes its half only after the other end's */
	bool junk; /* in reserved fields and bits */
	uint32_t ask; /* ChRcvBuf of so many bytes; 0: no */
	uint32_t gaps, strangers; /* one message in so many; 0: none */
};

enum kp_state { /* as the kernel names them [5.3] */
		KP_SYN,
		KP_ESTABLISHED,
		KP_CLOSE_WAIT,
		KP_FIN_WAIT1,
		KP_CLOSING, /* both DisConns crossed, ours not completed */
		KP_LAST_ACK,
		KP_TIME_WAIT,
};

struct kp_names {
	uint8_t ipv;
	uint16_t port; /* of the active side */
	uint8_t src[16], dst[16]; /* seen from the active side */
};

struct kp_source { /* our SrcAvail */
	bool out;
	uint64_t vaddr, at; /* of the first byte to read, and in the stream */
	uint32_t rkey, left; /* bytes to be read */
	uint32_t mseq, cancel_mseq;
	uint64_t since, cancelled; /* 0: not */
	bool part; /* some were read */
};

struct kp {
	enum kp_family family;
	enum kp_state state;
	struct kp_plan plan;
	uint32_t rcv_size, posted, view; /* the other end's view of posted */
	uint32_t sent, rcvd, acked; /* MSeq */
	int32_t credits;
	uint32_t pay_max; /* stream bytes of one message */
	uint64_t written, tx, rx, read; /* stream bytes */
	uint64_t zc_from, zc_to; /* bytes that are to go by SrcAvail */
	uint64_t write_at, read_at, nagle_at;
	uint64_t fin_at, fin_sent_at; /* limit of closing; DisConn left */
	uint32_t last_data; /* MSeq of the last message with bytes */
	uint32_t urgents; /* urgent bytes received */
	const uint64_t *expect; /* where they are to be */
	uint32_t expected;
	struct kp_source src;
	uint32_t rkeys;
	bool rcvbuf_due, rcvbuf_asked;
	bool shut, closed; /* its program: for writing, for good */
	bool fin_due, fin_sent, fin_done, fin_rcvd; /* done: acknowledged */
	bool fin_waited; /* DisConn was held up by credits */
	bool dreq_due;
	bool odd; /* not every byte will arrive: a violent end */
	bool fin_late; /* it was the limit of closing */
	int error; /* what its program sees, negative */
	char fault[160]; /* what the other end did wrong; empty: nothing */
};

/* --- set-up ------------------------------------------------------------ */

void kp_start(struct kp *k, enum kp_family family, const struct kp_plan *p);
void kp_hello(struct kp *k, const struct kp_names *n, uint8_t buf[92]);
void kp_hello_ack(struct kp *k, uint8_t buf[196]);
/* The other end's. false: refused, REJ 28 (or a fault). */
bool kp_take_hello(struct kp *k, const struct kp_names *n, const uint8_t *buf,
		   size_t len);
bool kp_take_hello_ack(struct kp *k, const uint8_t *buf, size_t len);

/* --- life -------------------------------------------------------------- */

void kp_recv(struct kp *k, const uint8_t *msg, uint32_t len);
/* The next message, written to `buf`; its length, 0: none. */
uint32_t kp_send(struct kp *k, uint64_t now, uint8_t *buf);
/* Its message was acknowledged by the other end's adapter. */
void kp_completed(struct kp *k, const uint8_t *msg);
/* Its program and its timers; true: something happened. */
bool kp_step(struct kp *k, uint64_t now);
/* When it does something by itself next, after now; UINT64_MAX: never. */
uint64_t kp_deadline(const struct kp *k, uint64_t now);
/* A DREQ leaves, once. */
bool kp_dreq(struct kp *k);
void kp_on_dreq(struct kp *k);
void kp_on_lost(struct kp *k);
/*
 * The other end reads its memory: offset in the stream of the first byte.
 * Memory that is not advertised is a fault.
 */
uint64_t kp_memory(struct kp *k, uint64_t vaddr, uint32_t rkey, uint64_t len);

void kp_fault(struct kp *k, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Is there more to do for this end? */
static inline bool kp_over(const struct kp *k)
{
	return k->state == KP_TIME_WAIT && !k->dreq_due &&
	       (k->read == k->rx || k->closed);
}

/* --- between the files of the peer ------------------------------------- */

/* Ends violently: DREQ without orderly DisConns. */
void kp_reset(struct kp *k, int error);
/* Posts receives again, as far as SO_RCVBUF lets it [3.5]. */
void kp_repost(struct kp *k);
void kp_put16(uint8_t *p, uint32_t v);
void kp_put32(uint8_t *p, uint32_t v);
/* Bytes written and not carried. */
static inline uint64_t kp_unsent(const struct kp *k)
{
	return k->written - k->tx;
}

/* --- what the world lends ---------------------------------------------- */

uint32_t native_rnd(uint32_t n); /* 0..n-1 */
uint64_t native_pause(uint64_t most); /* 0..most ns */
uint8_t native_byte(bool kernel, uint64_t at); /* of the stream it sends */

/* Cases that have to occur. */
#define NATIVE_SEEN(X)                                                      \
	X(OFED_ACTIVE, "OFED connects")                                     \
	X(OFED_PASSIVE, "OFED accepts")                                     \
	X(BSD_ACTIVE, "FreeBSD connects")                                   \
	X(BSD_PASSIVE, "FreeBSD accepts")                                   \
	X(IPV6, "IPv6, OFED")                                               \
	X(IPV6_BSD, "IPv6 refused by FreeBSD")                              \
	X(GEN1_HELLO, "a Hello of version 1 refused by us")                 \
	X(GEN1_ACK, "a HelloAck of version 1 refused by us")                \
	X(GEN1_REJ, "our Hello refused by gen1")                            \
	X(JUNK, "reserved fields filled, ExtMaxAdverts in the Hello")       \
	X(EARLY, "first message before the RTU")                            \
	X(RTU, "RTU before the first message")                              \
	X(CREDITS_2, "ours: on two credits, without bytes")                 \
	X(CREDITS_1, "ours: on the last credit, giving new ones")           \
	X(BLOCKED, "ours: bytes waited for the third credit")               \
	X(DISC_HELD, "ours: DisConn waited for credits")                    \
	X(PEER_MIN, "kernel: down to two receives")                         \
	X(PEER_LAST, "kernel: update on the last credit")                   \
	X(UPDATE_IN, "kernel: credit update")                               \
	X(UPDATE_OUT, "ours: credit update")                                \
	X(DISC_WAIT, "kernel: DisConn waited for the second credit")        \
	X(DISC_2, "kernel: DisConn on exactly two credits")                 \
	X(NAGLE_ACK, "kernel: segment held, let go by MSeqAck")             \
	X(NAGLE_TIME, "kernel: segment held, let go by the timer")          \
	X(URGENT_IN, "kernel: urgent byte")                                 \
	X(URGENT_OUT, "ours: urgent byte, both flags in one message")       \
	X(SRC_BACK, "SrcAvail given back untouched")                        \
	X(SRC_READ, "SrcAvail read whole")                                  \
	X(SRC_PART, "SrcAvail read in part, then given back")               \
	X(SRC_ZERO, "SrcAvail of an address below a page")                  \
	X(SRC_CANCEL, "SrcAvailCancel after a second")                      \
	X(CANCEL_CROSS, "SrcAvailCancel crossed the answer")                \
	X(RCVBUF_AS_IS, "ChRcvBuf: present size acknowledged")              \
	X(GAP, "kernel: RDMA counted in MSeq")                              \
	X(STRANGER, "kernel: a message nobody knows")                       \
	X(HALF_OURS, "we closed our half, the kernel sent on")              \
	X(HALF_THEIRS, "the kernel closed its half, we sent on")            \
	X(HALF_LONG, "our half-close outlived a minute")                    \
	X(FIN_WAIT, "a half-closed kernel ended after its minute")          \
	X(IN_TIME, "our DisConn within that minute, after seconds")         \
	X(CROSSED, "DisConns crossed")                                      \
	X(DREQ_OURS, "DREQ by us, orderly")                                 \
	X(DREQ_THEIRS, "DREQ by the kernel, orderly")                       \
	X(ABORT_OURS, "reset by us behind our DisConn: DREQ, no AbortConn") \
	X(ABORT_THEIRS, "reset by the kernel")                              \
	X(CLOSED_DATA, "bytes for a closed kernel socket: reset")           \
	X(CUT, "the link was lost")                                         \
	X(FULL_BSD, "a message of 32768 bytes for FreeBSD")                 \
	X(FULL_OFED, "a message of 32784 bytes for OFED")                   \
	X(FULL_OURS, "a message as long as our receives")                   \
	X(OFFERED, "zero copy offered to our machine, and not taken")       \
	X(TRICKS, "what kernels do not know was asked of our machine")

enum native_seen {
#define NATIVE_ENUM(name, text) SEEN_##name,
	NATIVE_SEEN(NATIVE_ENUM)
#undef NATIVE_ENUM
		SEEN_COUNT
};

void native_saw(enum native_seen what, bool really);

#endif
