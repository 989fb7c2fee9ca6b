/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "socket/core/frame.h"

#include <netinet/in.h>
#include <string.h>

#include "base/siphash.h"
#include "sdp_proto/wire.h"

#define ETH	  14
#define UDP	  8
#define BTH	  12
#define DETH	  8
#define MAD	  256
#define MAD_HEAD  24
#define REQ_AT	  140 /* of the private data, behind the MAD's head */
#define REP_AT	  36
#define ICRC	  4
#define ROCE_PORT 4791
#define FREE_PORT 0xc000 /* RoCE's own ports are above */
#define SEND_ONLY 0x04 /* reliable connection */
#define DATAGRAM  0x64
#define CM_QP	  1
#define CM_QKEY	  0x80010000u
#define SERVICE	  0x10000u /* SDP's services [1.5]: and the port */
#define PSN	  0xffffffu

_Static_assert(PCAPNG_BEFORE + ETH + 40 + UDP + BTH + DETH + MAD == FRAME_HEAD,
	       "the longest head");
_Static_assert(4 + ICRC + PCAPNG_BEHIND <= FRAME_TAIL, "the longest tail");
_Static_assert(48 + UDP + BTH + WIRE_HDR_MAX + FRAME_MOST <= 65535,
	       "the longest packet");

struct conn_names frame_flip(const struct conn_names *n)
{
	struct conn_names to = { .ipv = n->ipv,
				 .local_port = n->remote_port,
				 .remote_port = n->local_port };

	memcpy(to.src, n->dst, sizeof(to.src));
	memcpy(to.dst, n->src, sizeof(to.dst));
	return to;
}

uint64_t frame_end(const struct conn_names *n)
{
	uint8_t key[36];

	memcpy(key, n->src, 16);
	memcpy(key + 16, n->dst, 16);
	wire_put16(key + 32, n->local_port);
	wire_put16(key + 34, n->remote_port);
	return siphash(0, 0, key, sizeof(key));
}

/* 0 and 1 have a meaning of their own. */
static uint32_t queue_pair(uint64_t end)
{
	return (uint32_t)(end & 0x7fffff) | 0x800000;
}

/* --- Ethernet, IP, UDP --------------------------------------------------- */

static uint32_t sum(const uint8_t *p, size_t n)
{
	uint32_t s = 0;

	for (; n > 1; n -= 2, p += 2)
		s += wire_get16(p);
	return n ? s + ((uint32_t)*p << 8) : s;
}

static uint16_t fold(uint32_t s)
{
	s = (s >> 16) + (s & 0xffff);
	return (uint16_t) ~(s + (s >> 16));
}

static uint8_t *ip(uint8_t *p, const struct conn_names *from, uint16_t len)
{
	memset(p, 0, 40);
	if (from->ipv == 4) {
		p[0] = 0x45;
		wire_put16(p + 2, (uint16_t)(20 + len));
		p[6] = 0x40; /* do not fragment */
		p[8] = 64;
		p[9] = IPPROTO_UDP;
		memcpy(p + 12, from->src + 12, 4);
		memcpy(p + 16, from->dst + 12, 4);
		wire_put16(p + 10, fold(sum(p, 20)));
		return p + 20;
	}
	p[0] = 0x60;
	wire_put16(p + 4, len);
	p[6] = IPPROTO_UDP;
	p[7] = 64;
	memcpy(p + 8, from->src, 16);
	memcpy(p + 24, from->dst, 16);
	return p + 40;
}

/* Up to the BTH; `len` bytes follow the UDP header. */
static uint8_t *ethernet(uint8_t *p, const struct conn_names *from,
			 uint16_t len)
{
	uint16_t port = from->local_port | FREE_PORT;

	memset(p, 0, 12);
	p[0] = p[6] = 2; /* locally administered */
	memcpy(p + 2, from->dst + 12, 4);
	memcpy(p + 8, from->src + 12, 4);
	wire_put16(p + 12, from->ipv == 4 ? 0x0800 : 0x86dd);
	p = ip(p + ETH, from, (uint16_t)(UDP + len));
	wire_put16(p, port);
	wire_put16(p + 2, ROCE_PORT);
	wire_put16(p + 4, (uint16_t)(UDP + len));
	wire_put16(p + 6, 0);
	return p + UDP;
}

static void bth(uint8_t *p, uint8_t op, uint32_t pad, uint32_t qp, uint32_t psn)
{
	p[0] = op;
	p[1] = (uint8_t)(0x40 | pad << 4); /* a path that has not migrated */
	wire_put16(p + 2, 0xffff); /* the default partition */
	wire_put32(p + 4, qp);
	wire_put32(p + 8, psn & PSN);
}

/*
 * IPv6 has no UDP without a checksum. What is in the tail is zero, and so is
 * what is left of the check of InfiniBand.
 */
static void checksum(const uint8_t *udp, uint8_t *to,
		     const struct conn_names *from, const uint8_t *end,
		     const struct iovec *msg)
{
	uint32_t s = IPPROTO_UDP + wire_get16(udp + 4);

	if (from->ipv == 4)
		return;
	s += sum(from->src, 16) + sum(from->dst, 16);
	s += sum(udp, (size_t)(end - udp)) + sum(msg->iov_base, msg->iov_len);
	s = fold(s);
	wire_put16(to, s ? (uint16_t)s : 0xffff);
}

/* --- the frame ------------------------------------------------------------ */

/*
 * The head ends at `end`, its UDP header is at `udp`; `zeros` bytes follow the
 * message, of which `more` are missing.
 */
static void finish(struct frame *f, uint64_t ns, const struct conn_names *from,
		   uint8_t *udp, const uint8_t *end, uint32_t zeros,
		   uint32_t more)
{
	uint32_t head = (uint32_t)(end - f->head) - PCAPNG_BEFORE;
	uint32_t have = head + (uint32_t)f->part[1].iov_len + zeros;

	checksum(udp, udp + 6, from, end, &f->part[1]);
	pcapng_before(f->head, ns, have, have + more);
	memset(f->tail, 0, zeros);
	f->part[0] = (struct iovec){ f->head, PCAPNG_BEFORE + head };
	f->part[2] = (struct iovec){ f->tail, zeros };
	f->part[2].iov_len += pcapng_behind(f->tail + zeros, have);
	f->len = f->part[0].iov_len + f->part[1].iov_len + f->part[2].iov_len;
}

/*
 * Wireshark wants at least a byte in Data: behind one without, four follow
 * that do not count in its length.
 */
void frame_message(struct frame *f, uint64_t ns, const struct conn_names *from,
		   const uint8_t *msg, uint32_t len, uint32_t most)
{
	struct conn_names to = frame_flip(from);
	uint32_t cut = len ? wire_hdr_len(msg[0]) : 0, have = len, zeros;
	uint8_t *p;

	if (most > FRAME_MOST)
		most = FRAME_MOST;
	cut = ((cut ? cut : WIRE_HDR_MAX) + most) & ~3u;
	if (have > cut)
		have = cut;
	zeros = -have & 3;
	if (len == WIRE_BSDH && msg[0] == WIRE_DATA)
		zeros = 4;
	p = ethernet(f->head + PCAPNG_BEFORE, from,
		     (uint16_t)(BTH + have + zeros + ICRC));
	bth(p, SEND_ONLY, zeros & 3, queue_pair(frame_end(&to)),
	    len < WIRE_BSDH ? 0 : wire_get32(msg + 8));
	f->part[1] = (struct iovec){ (void *)(uintptr_t)msg, have };
	finish(f, ns, from, p - UDP, p + BTH, zeros + ICRC,
	       ((len + 3) & ~3u) - ((have + 3) & ~3u));
}

/* The head of a datagram of connection management, and of its MAD. */
static uint8_t *datagram(struct frame *f, const struct conn_names *from,
			 uint64_t transaction, uint16_t attribute)
{
	uint8_t *p = ethernet(f->head + PCAPNG_BEFORE, from,
			      BTH + DETH + MAD + ICRC);

	bth(p, DATAGRAM, 0, CM_QP, 0);
	p += BTH;
	wire_put32(p, CM_QKEY);
	wire_put32(p + 4, CM_QP);
	p += DETH;
	memset(p, 0, MAD);
	p[0] = 1;
	p[1] = 7; /* communication management, */
	p[2] = 2;
	p[3] = 3; /* sent */
	wire_put64(p + 8, transaction);
	wire_put16(p + 16, attribute);
	return p + MAD_HEAD;
}

static void gid(uint8_t *to, const uint8_t *addr, bool v4)
{
	memcpy(to, addr, 16);
	if (v4)
		to[10] = to[11] = 0xff;
}

/* The Hello in its long form, with addresses. */
static void long_hello(uint8_t *to, const struct conn_names *from,
		       const uint8_t *hello)
{
	memcpy(to, hello, WIRE_EXT_AT);
	wire_put32(to + 4, WIRE_HELLO_LEN);
	memcpy(to + 32, from->src, 16);
	memcpy(to + 48, from->dst, 16);
}

static void request(uint8_t *p, const struct conn_names *from,
		    const uint8_t *hello)
{
	uint64_t id = frame_end(from);

	wire_put32(p, (uint32_t)id); /* communication id */
	wire_put64(p + 8, SERVICE + from->remote_port);
	wire_put64(p + 16, id);
	wire_put32(p + 32, queue_pair(id) << 8 | CONN_RDMA);
	wire_put32(p + 36, CONN_RDMA);
	wire_put32(p + 44, ((wire_get32(hello + 8) + 1) & PSN) << 8 | 6);
	wire_put16(p + 48, 0xffff);
	p[50] = 5 << 4 | 7; /* MTU 4096; retries without end, RNR */
	wire_put16(p + 52, 0xffff);
	wire_put16(p + 54, 0xffff);
	gid(p + 56, from->src, from->ipv == 4);
	gid(p + 72, from->dst, from->ipv == 4);
	p[93] = 64;
	long_hello(p + REQ_AT, from, hello);
}

static void reply(uint8_t *p, const struct conn_names *from,
		  const struct conn_names *to, const uint8_t *ack)
{
	uint64_t id = frame_end(from);

	wire_put32(p, (uint32_t)id);
	wire_put32(p + 4, (uint32_t)frame_end(to));
	wire_put32(p + 12, queue_pair(id) << 8);
	wire_put32(p + 20, ((wire_get32(ack + 8) + 1) & PSN) << 8);
	p[24] = p[25] = CONN_RDMA;
	p[27] = 7 << 5;
	wire_put64(p + 28, id);
	memcpy(p + REP_AT, ack, CONN_HELLO_ACK_LEN);
}

void frame_setup(struct frame *f, uint64_t ns, const struct conn_names *from,
		 const uint8_t *msg)
{
	struct conn_names to = frame_flip(from);
	uint8_t *p;

	if (msg[0] == WIRE_HELLO) {
		p = datagram(f, from, frame_end(from), 0x10);
		request(p, from, msg);
	} else {
		p = datagram(f, from, frame_end(&to), 0x13);
		reply(p, from, &to, msg);
	}
	f->part[1] = (struct iovec){ f->tail, 0 };
	finish(f, ns, from, p - MAD_HEAD - DETH - BTH - UDP, p - MAD_HEAD + MAD,
	       ICRC, 0);
}
