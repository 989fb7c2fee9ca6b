/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The simulated kernel socket: set-up, and what it receives. Sections in
 * brackets are those of reference/sdp-protocol.md.
 */
#include "kernel_peer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RING 64 /* receives, and Bufs of the Hello [2.2, 3.5] */

static uint32_t get16(const uint8_t *p)
{
	return (uint32_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return get16(p) << 16 | get16(p + 2);
}

void kp_put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

void kp_put32(uint8_t *p, uint32_t v)
{
	kp_put16(p, v >> 16);
	kp_put16(p + 2, v);
}

void kp_fault(struct kp *k, const char *fmt, ...)
{
	va_list ap;

	if (k->fault[0])
		return;
	va_start(ap, fmt);
	vsnprintf(k->fault, sizeof(k->fault), fmt, ap);
	va_end(ap);
}

void kp_reset(struct kp *k, int error)
{
	if (k->state == KP_TIME_WAIT)
		return;
	k->state = KP_TIME_WAIT;
	k->error = error;
	k->odd = k->dreq_due = true;
}

/* --- set-up [1.4, 1.5, 2.2] -------------------------------------------- */

static uint8_t version(const struct kp *k)
{
	return k->family == KP_GEN1 ? 0x11 : 0x22;
}

void kp_start(struct kp *k, enum kp_family family, const struct kp_plan *p)
{
	static const uint32_t sizes[] = { 0x8010, 0x8000, 0x1000 };

	memset(k, 0, sizeof(*k));
	k->family = family;
	k->plan = *p;
	k->rcv_size = sizes[family];
	k->posted = k->view = RING;
	k->rcvbuf_due = p->ask;
}

static void fill(uint8_t *p, size_t len)
{
	while (len--)
		*p++ = (uint8_t)native_rnd(256);
}

void kp_hello(struct kp *k, const struct kp_names *n, uint8_t buf[92])
{
	memset(buf, 0, 92);
	if (k->plan.junk) { /* what is reserved is not looked at */
		fill(buf + 64, 28);
		buf[18] = 0xa5;
	}
	buf[2] = 0;
	buf[3] = RING;
	kp_put32(buf + 4, 92);
	buf[16] = version(k);
	buf[17] = (uint8_t)(n->ipv << 4 | (k->plan.junk ? 0xf : 0));
	buf[19] = 1;
	kp_put32(buf + 20, k->rcv_size);
	kp_put32(buf + 24, k->rcv_size);
	kp_put16(buf + 28, n->port);
	memcpy(buf + 32, n->src, 16);
	memcpy(buf + 48, n->dst, 16);
	native_saw(SEEN_JUNK, k->plan.junk);
}

void kp_hello_ack(struct kp *k, uint8_t buf[196])
{
	memset(buf, 0, 196);
	if (k->plan.junk)
		fill(buf + 24, 172);
	buf[0] = 1;
	buf[3] = RING;
	kp_put32(buf + 4, 196);
	buf[16] = version(k);
	buf[19] = 1;
	kp_put32(buf + 20, k->rcv_size);
	k->state = KP_ESTABLISHED;
}

/* What Hello and HelloAck have in common. */
static bool check_set_up(struct kp *k, const uint8_t *buf, size_t len,
			 size_t want)
{
	size_t i;

	if (len != want || get32(buf + 4) != want)
		kp_fault(k, "set-up of %zu bytes, not %zu", len, want);
	for (i = 8; i < 16; i++)
		if (buf[i])
			kp_fault(k, "set-up counts messages");
	if (buf[1] || buf[18] || (buf[17] & 0xf))
		kp_fault(k, "set-up: flags, capabilities or reserved byte");
	if (buf[16] != 0x22 || buf[19] != 1)
		kp_fault(k, "set-up: version %x, MaxAdverts %u", buf[16],
			 buf[19]);
	if (get16(buf + 2) < 3)
		kp_fault(k, "set-up: too few receives for any data");
	k->credits = (int32_t)get16(buf + 2);
	return !k->fault[0] && k->family != KP_GEN1;
}

static bool all_zero(const uint8_t *p, size_t len)
{
	while (len--)
		if (*p++)
			return false;
	return true;
}

bool kp_take_hello(struct kp *k, const struct kp_names *n, const uint8_t *buf,
		   size_t len)
{
	bool fine = check_set_up(k, buf, len, 92);

	if (buf[0] != 0 || buf[17] >> 4 != n->ipv ||
	    get16(buf + 28) != n->port || memcmp(buf + 32, n->src, 16) ||
	    memcmp(buf + 48, n->dst, 16))
		kp_fault(k, "Hello: MID or names");
	if (!all_zero(buf + 30, 2) || !all_zero(buf + 64, 28))
		kp_fault(k, "Hello: reserved bytes");
	if (get32(buf + 24) <= 16 || get32(buf + 20) <= 16)
		kp_fault(k, "Hello: sizes");
	k->pay_max = get32(buf + 24) - 16;
	if (n->ipv == 6 && k->family == KP_FREEBSD)
		return false; /* [7] */
	return fine && !k->fault[0];
}

bool kp_take_hello_ack(struct kp *k, const uint8_t *buf, size_t len)
{
	bool fine = check_set_up(k, buf, len, 196);

	if (buf[0] != 1 || get32(buf + 20) <= 16)
		kp_fault(k, "HelloAck: MID or size");
	if (!all_zero(buf + 24, 172))
		kp_fault(k, "HelloAck: reserved bytes");
	k->pay_max = get32(buf + 20) - 16;
	k->state = KP_ESTABLISHED;
	return fine && !k->fault[0];
}

/* --- receiving --------------------------------------------------------- */

/* [3.5]: posts while there is room for what may come, two at the least. */
void kp_repost(struct kp *k)
{
	uint64_t unread = k->closed ? 0 : k->rx - k->read;

	while (k->posted < RING &&
	       (k->posted < 2 ||
		unread + (k->posted - 2ull) * k->rcv_size < k->plan.rcvbuf))
		k->posted++;
	native_saw(SEEN_PEER_MIN, k->posted == 2);
}

static void check_urgent(struct kp *k, uint8_t flags, uint32_t len)
{
	if (flags == 3 && len) {
		if (k->urgents == k->expected ||
		    k->expect[k->urgents] != k->rx - 1)
			kp_fault(k, "urgent byte at the wrong place");
		k->urgents++;
		native_saw(SEEN_URGENT_OUT, true);
	} else if (flags) {
		/* A kernel signals on PEND: it must not come alone [7, 11]. */
		kp_fault(k, "flags %x on %u bytes", flags, len);
	}
	if (k->urgents < k->expected && k->expect[k->urgents] < k->rx)
		kp_fault(k, "urgent byte not marked");
}

static void on_data(struct kp *k, uint8_t flags, const uint8_t *p, uint32_t len)
{
	uint32_t i;

	if (k->fin_rcvd && len)
		kp_fault(k, "bytes after DisConn");
	for (i = 0; i < len; i++)
		if (p[i] != native_byte(false, k->rx + i))
			kp_fault(k, "byte %llu is wrong",
				 (unsigned long long)(k->rx + i));
	k->rx += len;
	check_urgent(k, flags, len);
	native_saw(SEEN_UPDATE_OUT, !len);
	native_saw(SEEN_HALF_THEIRS, len && k->fin_sent && !k->closed);
	if (len && k->closed) { /* [5.3], row 29 */
		native_saw(SEEN_CLOSED_DATA, true);
		kp_reset(k, -ECONNRESET);
	}
}

static void on_disconn(struct kp *k)
{
	if (k->fin_rcvd)
		kp_fault(k, "second DisConn");
	k->fin_rcvd = true;
	if (k->state == KP_ESTABLISHED) {
		k->state = KP_CLOSE_WAIT;
	} else if (k->state == KP_FIN_WAIT1 && k->fin_done) {
		k->state = KP_TIME_WAIT;
		k->dreq_due = true;
		native_saw(SEEN_DREQ_THEIRS, true);
	} else if (k->state == KP_FIN_WAIT1) {
		k->state = KP_CLOSING;
		native_saw(SEEN_CROSSED, true);
	}
}

/* RdmaRdCompl and SendSm: one answer to each SrcAvail [4.3, 4.4]. */
static void on_answer(struct kp *k, uint8_t mid, const uint8_t *msg)
{
	struct kp_source *s = &k->src;
	uint32_t n = mid == 6 ? get32(msg + 16) : 0, ack = get32(msg + 12);

	if (!s->out || (int32_t)(ack - s->mseq) < 0) {
		kp_fault(k, "answer to no SrcAvail");
		return;
	}
	if (mid == 4) {
		native_saw(SEEN_SRC_BACK, !s->part);
		native_saw(SEEN_SRC_PART, s->part);
		s->out = false;
	} else if (!n || n > s->left) {
		kp_fault(k, "RdmaRdCompl of %u, %u are left", n, s->left);
	} else {
		s->part = true;
		s->left -= n;
		s->at += n;
		s->vaddr += n;
		k->tx += n;
		s->out = s->left != 0;
		native_saw(SEEN_SRC_READ, !s->out);
	}
	/* OFED's own rule is the SrcAvail's MSeq, not the cancel's [4.3]. */
	native_saw(SEEN_CANCEL_CROSS,
		   !s->out && s->cancelled &&
			   (int32_t)(ack - s->cancel_mseq) < 0);
}

static void on_rcvbuf_ack(struct kp *k, uint32_t size)
{
	if (!k->rcvbuf_asked)
		kp_fault(k, "ChRcvBufAck unasked");
	k->rcvbuf_asked = false;
	native_saw(SEEN_RCVBUF_AS_IS, size <= k->pay_max);
	/* It takes the number for bytes without the BSDH [5.6]. */
	if (size > k->pay_max)
		k->pay_max = size;
}

static void on_message(struct kp *k, const uint8_t *msg, uint32_t len)
{
	static const uint8_t lens[] = {
		[2] = 16, [4] = 16, [6] = 20, [0xc] = 20
	};
	uint8_t mid = msg[0];

	if (mid == 0xff) {
		on_data(k, msg[1], msg + 16, len - 16);
		return;
	}
	if (mid >= sizeof(lens) || !lens[mid]) {
		kp_fault(k, "message %02x", mid); /* [7, 9] and [5.3] */
		return;
	}
	if (len != lens[mid]) /* it would read stale bytes [7, 7] */
		kp_fault(k, "message %02x of %u bytes", mid, len);
	else if (msg[1])
		kp_fault(k, "flags %x in message %02x", msg[1], mid);
	else if (mid == 2)
		on_disconn(k);
	else if (mid == 0xc)
		on_rcvbuf_ack(k, get32(msg + 16));
	else
		on_answer(k, mid, msg);
}

void kp_recv(struct kp *k, const uint8_t *msg, uint32_t len)
{
	uint32_t ack;

	if (k->state == KP_TIME_WAIT)
		return; /* its queue pair is gone */
	if (!k->posted) {
		kp_fault(k, "receiver not ready, and no retries");
		return;
	}
	if (len < 16 || get32(msg + 4) != len || len > k->rcv_size) {
		kp_fault(k, "Len is not %u, or too long", len);
		return;
	}
	k->posted--;
	k->view -= k->view != 0;
	if (get32(msg + 8) != ++k->rcvd)
		kp_fault(k, "gap in MSeq");
	ack = get32(msg + 12);
	if ((int32_t)(k->sent - ack) < 0 || (int32_t)(ack - k->acked) < 0)
		kp_fault(k, "MSeqAck %u, %u was sent", ack, k->sent);
	k->acked = ack;
	k->credits = (int32_t)(get16(msg + 2) - (k->sent - ack));
	if (k->credits < 0 && !k->plan.gaps)
		kp_fault(k, "credits %d", k->credits);
	native_saw(SEEN_FULL_BSD, len == 0x8000 && k->family == KP_FREEBSD);
	native_saw(SEEN_FULL_OFED, len == 0x8010 && k->family == KP_OFED);
	on_message(k, msg, len);
	kp_repost(k);
}

/* --- the end [5.3] ----------------------------------------------------- */

void kp_on_dreq(struct kp *k)
{
	bool orderly = k->fin_rcvd && k->fin_sent;
	int error = k->fin_rcvd ? -EPIPE : -ECONNRESET;

	k->dreq_due = false;
	if (k->state == KP_TIME_WAIT)
		return;
	k->state = KP_TIME_WAIT;
	if (orderly)
		return;
	k->odd = true;
	k->error = error;
}

void kp_on_lost(struct kp *k)
{
	k->state = KP_TIME_WAIT;
	k->dreq_due = false;
	k->odd = true;
	k->error = -ECONNRESET;
}

bool kp_dreq(struct kp *k)
{
	bool due = k->dreq_due;

	k->dreq_due = false;
	return due;
}

uint64_t kp_memory(struct kp *k, uint64_t vaddr, uint32_t rkey, uint64_t len)
{
	const struct kp_source *s = &k->src;
	uint64_t off = vaddr - s->vaddr;

	if (!s->out || rkey != s->rkey || vaddr < s->vaddr || off > s->left ||
	    len > s->left - off)
		kp_fault(k, "read of memory not let at");
	return s->at + off;
}
