/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SDP_PROTO_WIRE_H
#define LIBSDP_SDP_PROTO_WIRE_H

/*
 * The codec: SDP messages as bytes and as fields [1]. Integers on the wire
 * are big-endian without padding; offsets count from the BSDH. Decoders read
 * nothing beyond the length they are given and check every length of [1.7],
 * but no rule that depends on a connection's state: those are conn's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIRE_BSDH	   16
#define WIRE_VERSION	   0x22
#define WIRE_HELLO_LEN	   92
#define WIRE_HELLO_MIN	   64
#define WIRE_COMPACT_LEN   56
#define WIRE_HELLO_ACK_LEN 196
#define WIRE_HELLO_ACK_MIN 24
#define WIRE_EXT_AT	   32 /* extension block of compact Hello and HelloAck */
#define WIRE_EXT_END	   56
#define WIRE_EXT_MAGIC	   0x75534450u /* "uSDP" */
#define WIRE_EXT_VERSION   2 /* 1 had neither port nor check */
#define WIRE_WORDS_LEN	   32
#define WIRE_HDR_MAX	   48 /* BSDH and the largest extension header */

/* Flags [1.2]; bits 3..7 are ignored. */
#define WIRE_OOB_PRES 0x01
#define WIRE_OOB_PEND 0x02
#define WIRE_REQ_PIPE 0x04

/* Capabilities of the Hello [1.4]. */
#define WIRE_CAP_INVALIDATE  0x1
#define WIRE_CAP_EXT_ADVERTS 0x2

/* All messages: name, MID, bytes before the payload, may have payload. */
#define WIRE_MESSAGES(X)                               \
	X(HELLO, "Hello", 0x00, 64, 0)                 \
	X(HELLO_ACK, "HelloAck", 0x01, 24, 0)          \
	X(DISCONN, "DisConn", 0x02, 16, 0)             \
	X(ABORT, "AbortConn", 0x03, 16, 0)             \
	X(SENDSM, "SendSm", 0x04, 16, 0)               \
	X(WR_COMPL, "RdmaWrCompl", 0x05, 20, 0)        \
	X(RD_COMPL, "RdmaRdCompl", 0x06, 20, 0)        \
	X(MODE, "ModeChange", 0x07, 20, 0)             \
	X(SRC_CANCEL, "SrcAvailCancel", 0x08, 16, 0)   \
	X(SINK_CANCEL, "SinkAvailCancel", 0x09, 16, 0) \
	X(SINK_ACK, "SinkCancelAck", 0x0a, 16, 0)      \
	X(RCVBUF, "ChRcvBuf", 0x0b, 20, 0)             \
	X(RCVBUF_ACK, "ChRcvBufAck", 0x0c, 20, 0)      \
	X(SUSP, "SuspComm", 0x0d, 24, 0)               \
	X(SUSP_ACK, "SuspCommAck", 0x0e, 16, 0)        \
	X(WORDS, "Words", 0x40, 48, 0)                 \
	X(BACK, "Back", 0x41, 16, 1)                   \
	X(SINK_AVAIL, "SinkAvail", 0xfd, 36, 1)        \
	X(SRC_AVAIL, "SrcAvail", 0xfe, 32, 1)          \
	X(DATA, "Data", 0xff, 16, 1)

enum wire_mid {
#define WIRE_MID(name, text, mid, len, payload) WIRE_##name = mid,
	WIRE_MESSAGES(WIRE_MID)
#undef WIRE_MID
};

enum wire_mode {
	WIRE_BUFFERED,
	WIRE_COMBINED,
	WIRE_PIPELINED,
};

/* ModeChange codes: S/R bit and mode, bits 7:4 of byte 16 [4.6]. */
#define WIRE_MODE_SEND 0x8 /* the receiver's send half, else receive half */

/* A message after set-up: BSDH and extension header. */
struct wire_msg {
	uint8_t mid, flags;
	uint16_t bufs;
	uint32_t len; /* of the whole message */
	uint32_t mseq, ack;
	uint32_t hdr_len; /* BSDH and extension header; the payload follows */
	uint32_t bytes; /* completions, ChRcvBuf*: the number they carry */
	uint8_t mode; /* ModeChange: code in 0..15 */
	uint64_t service; /* SuspComm */
	uint32_t buf_len, rkey; /* SrcAvail, SinkAvail */
	uint64_t vaddr;
	uint32_t nond; /* SinkAvail: NonDiscards */
	const uint8_t *words; /* Words: WIRE_WORDS_LEN bytes */
};

struct wire_ext { /* extension block, [2.6] and anchor.md section 7 */
	uint8_t version; /* 0: no block */
	uint8_t flags;
	uint16_t max_adverts;
	uint16_t remote_port;
	uint16_t window; /* what `check` is about */
	uint64_t token;
	uint32_t check;
};

struct wire_hello {
	uint16_t bufs;
	uint8_t version, ipv, cap;
	uint8_t max_adverts;
	uint16_t ext_max_adverts; /* native, with WIRE_CAP_EXT_ADVERTS */
	uint32_t des_rcv_size, rcv_size;
	uint16_t local_port;
	uint8_t src[16], dst[16]; /* native only */
	struct wire_ext ext; /* compact only */
};

struct wire_hello_ack {
	uint16_t bufs;
	uint8_t version, ipv, cap;
	uint8_t max_adverts;
	uint32_t rcv_size;
	struct wire_ext ext;
};

static inline uint16_t wire_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t wire_get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	return v;
}

static inline uint64_t wire_get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

static inline void wire_put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void wire_put32(uint8_t *p, uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	memcpy(p, &v, sizeof(v));
}

static inline void wire_put64(uint8_t *p, uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	memcpy(p, &v, sizeof(v));
}

/* The BSDH as two words: MID, Flags, Bufs, Len; MSeq, MSeqAck. */
static inline uint64_t wire_word0(uint32_t mid, uint32_t flags, uint32_t bufs,
				  uint32_t len)
{
	return (uint64_t)(mid << 24 | flags << 16 | bufs) << 32 | len;
}

static inline uint64_t wire_word1(uint32_t mseq, uint32_t ack)
{
	return (uint64_t)mseq << 32 | ack;
}

/* Bytes of a message before its payload; 0 for a reserved MID. */
uint32_t wire_hdr_len(unsigned int mid);
bool wire_has_payload(unsigned int mid);

/*
 * Write BSDH and extension header of `m` (hdr_len is not looked at, len is
 * written as it is); returns their length. Not for Hello and HelloAck.
 */
size_t wire_encode(const struct wire_msg *m, uint8_t *buf);

enum wire_fault {
	WIRE_OK,
	WIRE_SHORT, /* byte_len < 16 [6, 1] */
	WIRE_BAD_LEN, /* Len is not byte_len [6, 2] */
	WIRE_BAD_HDR, /* Len is not what the MID asks for [6, 3 and 11] */
	WIRE_UNKNOWN, /* reserved MID [6, 4]; BSDH fields are valid */
};

/*
 * Read a message of byte_len bytes, of which at least the first
 * min(byte_len, WIRE_HDR_MAX) are at `buf`. *m is whole only with WIRE_OK.
 */
enum wire_fault wire_decode(const uint8_t *buf, uint32_t byte_len,
			    struct wire_msg *m);

/*
 * The set-up messages. Encoders return the length written. Decoders take the
 * private data area of `len` bytes, possibly longer than the message, and
 * return 0 or -EBADMSG: MID, lengths, magic. With ext.version 0 the native
 * Hello is written, else the compact one.
 */
size_t wire_hello_encode(const struct wire_hello *h, uint8_t *buf);
int wire_hello_decode(const uint8_t *buf, size_t len, struct wire_hello *h);
size_t wire_hello_ack_encode(const struct wire_hello_ack *h, uint8_t *buf);
int wire_hello_ack_decode(const uint8_t *buf, size_t len,
			  struct wire_hello_ack *h);

#endif
