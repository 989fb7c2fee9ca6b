/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>

#include "sdp_proto/wire.h"

uint32_t wire_hdr_len(unsigned int mid)
{
	switch (mid) {
#define WIRE_CASE(name, text, code, len, payload) \
	case code:                                \
		return len;
		WIRE_MESSAGES(WIRE_CASE)
#undef WIRE_CASE
	}
	return 0;
}

bool wire_has_payload(unsigned int mid)
{
	return mid == WIRE_BACK || (mid >= WIRE_SINK_AVAIL && mid <= WIRE_DATA);
}

static void put_bsdh(const struct wire_msg *m, uint8_t *buf)
{
	wire_put64(buf, wire_word0(m->mid, m->flags, m->bufs, m->len));
	wire_put64(buf + 8, wire_word1(m->mseq, m->ack));
}

size_t wire_encode(const struct wire_msg *m, uint8_t *buf)
{
	put_bsdh(m, buf);
	switch (m->mid) {
	case WIRE_WR_COMPL:
	case WIRE_RD_COMPL:
	case WIRE_RCVBUF:
	case WIRE_RCVBUF_ACK:
		wire_put32(buf + 16, m->bytes);
		break;
	case WIRE_MODE:
		wire_put32(buf + 16, (uint32_t)(m->mode & 0xf) << 28);
		break;
	case WIRE_SUSP:
		wire_put64(buf + 16, m->service);
		break;
	case WIRE_WORDS:
		memset(buf + 16, 0, WIRE_WORDS_LEN);
		if (m->words)
			memcpy(buf + 16, m->words, WIRE_WORDS_LEN);
		break;
	case WIRE_SINK_AVAIL:
		wire_put32(buf + 32, m->nond);
		/* fallthrough */
	case WIRE_SRC_AVAIL:
		wire_put32(buf + 16, m->buf_len);
		wire_put32(buf + 20, m->rkey);
		wire_put64(buf + 24, m->vaddr);
		break;
	}
	return wire_hdr_len(m->mid);
}

static void get_ext(const uint8_t *buf, struct wire_msg *m)
{
	switch (m->mid) {
	case WIRE_WR_COMPL:
	case WIRE_RD_COMPL:
	case WIRE_RCVBUF:
	case WIRE_RCVBUF_ACK:
		m->bytes = wire_get32(buf + 16);
		break;
	case WIRE_MODE:
		m->mode = buf[16] >> 4;
		break;
	case WIRE_SUSP:
		m->service = wire_get64(buf + 16);
		break;
	case WIRE_WORDS:
		m->words = buf + 16;
		break;
	case WIRE_SINK_AVAIL:
		m->nond = wire_get32(buf + 32);
		/* fallthrough */
	case WIRE_SRC_AVAIL:
		m->buf_len = wire_get32(buf + 16);
		m->rkey = wire_get32(buf + 20);
		m->vaddr = wire_get64(buf + 24);
		break;
	}
}

enum wire_fault wire_decode(const uint8_t *buf, uint32_t byte_len,
			    struct wire_msg *m)
{
	memset(m, 0, sizeof(*m));
	if (byte_len < WIRE_BSDH)
		return WIRE_SHORT;
	m->mid = buf[0];
	m->flags = buf[1];
	m->bufs = wire_get16(buf + 2);
	m->len = wire_get32(buf + 4);
	m->mseq = wire_get32(buf + 8);
	m->ack = wire_get32(buf + 12);
	if (m->len != byte_len)
		return WIRE_BAD_LEN;
	m->hdr_len = wire_hdr_len(m->mid);
	if (!m->hdr_len)
		return WIRE_UNKNOWN;
	if (m->mid <= WIRE_HELLO_ACK)
		return WIRE_OK; /* lengths: their own decoders */
	if (m->len < m->hdr_len ||
	    (m->len > m->hdr_len && !wire_has_payload(m->mid)))
		return WIRE_BAD_HDR;
	get_ext(buf, m);
	return WIRE_OK;
}

/* --- Hello, HelloAck -------------------------------------------------- */

static void put_ext(const struct wire_ext *x, uint8_t *buf)
{
	wire_put32(buf + 32, WIRE_EXT_MAGIC);
	buf[36] = x->version;
	buf[37] = x->flags;
	wire_put16(buf + 38, x->max_adverts);
	if (x->version >= 2) {
		wire_put16(buf + 40, x->remote_port);
		wire_put16(buf + 42, x->window);
		wire_put32(buf + 52, x->check);
	}
	wire_put64(buf + 44, x->token);
}

/* False: no magic, or a version from the future. */
static bool get_block(const uint8_t *buf, struct wire_ext *x)
{
	if (wire_get32(buf + 32) != WIRE_EXT_MAGIC)
		return false;
	if (buf[36] < 1 || buf[36] > WIRE_EXT_VERSION)
		return false;
	x->version = buf[36];
	x->flags = buf[37];
	x->max_adverts = wire_get16(buf + 38);
	x->token = wire_get64(buf + 44);
	if (x->version >= 2) {
		x->remote_port = wire_get16(buf + 40);
		x->window = wire_get16(buf + 42);
		x->check = wire_get32(buf + 52);
	}
	return true;
}

static void put_set_up(uint8_t mid, uint16_t bufs, size_t len, uint8_t *buf)
{
	struct wire_msg m = { .mid = mid, .bufs = bufs, .len = (uint32_t)len };

	memset(buf, 0, len);
	put_bsdh(&m, buf);
}

size_t wire_hello_encode(const struct wire_hello *h, uint8_t *buf)
{
	size_t len = h->ext.version ? WIRE_COMPACT_LEN : WIRE_HELLO_LEN;

	put_set_up(WIRE_HELLO, h->bufs, len, buf);
	buf[16] = h->version;
	buf[17] = (uint8_t)(h->ipv << 4 | (h->cap & 0xf));
	buf[19] = h->max_adverts;
	wire_put32(buf + 20, h->des_rcv_size);
	wire_put32(buf + 24, h->rcv_size);
	wire_put16(buf + 28, h->local_port);
	if (h->ext.version) {
		put_ext(&h->ext, buf);
		return len;
	}
	memcpy(buf + 32, h->src, 16);
	memcpy(buf + 48, h->dst, 16);
	wire_put16(buf + 66, h->ext_max_adverts);
	return len;
}

int wire_hello_decode(const uint8_t *buf, size_t len, struct wire_hello *h)
{
	uint32_t said;

	memset(h, 0, sizeof(*h));
	if (len < WIRE_COMPACT_LEN || buf[0] != WIRE_HELLO)
		return -EBADMSG;
	said = wire_get32(buf + 4);
	if (said > len)
		return -EBADMSG;
	h->bufs = wire_get16(buf + 2);
	h->version = buf[16];
	h->ipv = buf[17] >> 4;
	h->cap = buf[17] & 0xf;
	h->max_adverts = buf[19];
	h->des_rcv_size = wire_get32(buf + 20);
	h->rcv_size = wire_get32(buf + 24);
	h->local_port = wire_get16(buf + 28);
	if (said == WIRE_COMPACT_LEN)
		return get_block(buf, &h->ext) ? 0 : -EBADMSG;
	if (said < WIRE_HELLO_MIN || said > WIRE_HELLO_LEN)
		return -EBADMSG;
	memcpy(h->src, buf + 32, 16);
	memcpy(h->dst, buf + 48, 16);
	if (said >= 68 && (h->cap & WIRE_CAP_EXT_ADVERTS))
		h->ext_max_adverts = wire_get16(buf + 66);
	return 0;
}

size_t wire_hello_ack_encode(const struct wire_hello_ack *h, uint8_t *buf)
{
	put_set_up(WIRE_HELLO_ACK, h->bufs, WIRE_HELLO_ACK_LEN, buf);
	buf[16] = h->version;
	buf[17] = (uint8_t)(h->ipv << 4 | (h->cap & 0xf));
	buf[19] = h->max_adverts;
	wire_put32(buf + 20, h->rcv_size);
	if (h->ext.version)
		put_ext(&h->ext, buf);
	return WIRE_HELLO_ACK_LEN;
}

int wire_hello_ack_decode(const uint8_t *buf, size_t len,
			  struct wire_hello_ack *h)
{
	uint32_t said;

	memset(h, 0, sizeof(*h));
	if (len < WIRE_HELLO_ACK_MIN || buf[0] != WIRE_HELLO_ACK)
		return -EBADMSG;
	said = wire_get32(buf + 4);
	if (said > len || said < WIRE_HELLO_ACK_MIN ||
	    said > WIRE_HELLO_ACK_LEN)
		return -EBADMSG;
	h->bufs = wire_get16(buf + 2);
	h->version = buf[16];
	h->ipv = buf[17] >> 4;
	h->cap = buf[17] & 0xf;
	h->max_adverts = buf[19];
	h->rcv_size = wire_get32(buf + 20);
	if (said >= WIRE_EXT_END && !get_block(buf, &h->ext))
		memset(&h->ext, 0, sizeof(h->ext));
	return 0;
}
