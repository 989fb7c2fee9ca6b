/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The codec under any bytes and any fields: nothing beyond the length given is
 * read, lengths hold, and what was understood is written again as the same
 * bytes and read again as the same fields.
 */
#include "fuzz.h"

#include <errno.h>

#include "sdp_proto/wire.h"

const struct target target = { "wire", 2000, 200000 };

static const uint8_t mids[] = {
#define MID(name, text, mid, len, payload) mid,
	WIRE_MESSAGES(MID)
#undef MID
};

static void same_message(struct wire_msg a, struct wire_msg b)
{
	must(!a.words == !b.words);
	if (a.words)
		must(!memcmp(a.words, b.words, WIRE_WORDS_LEN));
	a.words = b.words = NULL;
	must(a.mid == b.mid && a.flags == b.flags && a.bufs == b.bufs);
	must(a.len == b.len && a.mseq == b.mseq && a.ack == b.ack);
	must(a.hdr_len == b.hdr_len && a.bytes == b.bytes);
	must(a.mode == b.mode && a.service == b.service);
	must(a.buf_len == b.buf_len && a.rkey == b.rkey);
	must(a.vaddr == b.vaddr && a.nond == b.nond);
}

/* Header bytes that are reserved, hence not written again. */
static bool reserved(const struct wire_msg *m, size_t at)
{
	return m->mid == WIRE_MODE && at >= 16;
}

/* What was understood comes again: as bytes, as fields. */
static void again(const struct wire_msg *m, const uint8_t *was)
{
	uint8_t buf[WIRE_HDR_MAX];
	struct wire_msg n;
	size_t len = wire_encode(m, buf), i;

	must(len == m->hdr_len && len <= sizeof(buf));
	for (i = 0; i < len; i++)
		must(buf[i] == was[i] || reserved(m, i));
	must(wire_decode(buf, m->len, &n) == WIRE_OK);
	same_message(*m, n);
}

static void message(struct input *in)
{
	uint32_t len = in_byte(in) & 1 ? in_word(in) :
					 (uint32_t)(in->end - in->at),
		 n;
	uint8_t *heap;
	struct wire_msg m;
	enum wire_fault f;

	n = len < WIRE_HDR_MAX ? len : WIRE_HDR_MAX;
	heap = malloc(n ? n : 1); /* exactly what the contract gives */
	must(heap);
	in_bytes(in, heap, n);
	if (n >= 8 && in_byte(in) & 1)
		wire_put32(heap + 4, len);
	f = wire_decode(heap, len, &m);
	must((f == WIRE_SHORT) == (len < WIRE_BSDH));
	must(f == WIRE_SHORT || (f == WIRE_BAD_LEN) == (m.len != len));
	if (f > WIRE_BAD_LEN || f == WIRE_OK) {
		must((f == WIRE_UNKNOWN) == !wire_hdr_len(heap[0]));
		must(m.hdr_len == wire_hdr_len(heap[0]));
	}
	if (f == WIRE_OK && m.mid > WIRE_HELLO_ACK) {
		must(m.hdr_len <= len);
		must(m.hdr_len == len || wire_has_payload(m.mid));
		again(&m, heap);
	}
	free(heap);
}

/* The other way round: each kind of message with any fields. */
static void fields(struct input *in)
{
	uint8_t words[WIRE_WORDS_LEN], buf[WIRE_HDR_MAX];
	struct wire_msg m = { .mid = mids[in_byte(in) % sizeof(mids)],
			      .flags = in_byte(in),
			      .bufs = in_16(in),
			      .mseq = in_word(in),
			      .ack = in_word(in) },
			n;

	if (m.mid <= WIRE_HELLO_ACK)
		return;
	m.hdr_len = m.len = wire_hdr_len(m.mid);
	if (wire_has_payload(m.mid))
		m.len += in_word(in) & 0xffffffu;
	switch (m.mid) {
	case WIRE_WR_COMPL:
	case WIRE_RD_COMPL:
	case WIRE_RCVBUF:
	case WIRE_RCVBUF_ACK:
		m.bytes = in_word(in);
		break;
	case WIRE_MODE:
		m.mode = in_byte(in) & 15;
		break;
	case WIRE_SUSP:
		m.service = in_64(in);
		break;
	case WIRE_WORDS:
		in_bytes(in, words, sizeof(words));
		m.words = words;
		break;
	case WIRE_SINK_AVAIL:
		m.nond = in_word(in);
		/* fallthrough */
	case WIRE_SRC_AVAIL:
		m.buf_len = in_word(in);
		m.rkey = in_word(in);
		m.vaddr = in_64(in);
		break;
	}
	must(wire_encode(&m, buf) == m.hdr_len);
	must(wire_decode(buf, m.len, &n) == WIRE_OK);
	same_message(m, n);
}

static void same_ext(const struct wire_ext *a, const struct wire_ext *b)
{
	must(a->version == b->version && a->flags == b->flags);
	must(a->max_adverts == b->max_adverts && a->token == b->token);
	must(a->remote_port == b->remote_port && a->window == b->window);
	must(a->check == b->check && a->version <= WIRE_EXT_VERSION);
}

static void hello(const uint8_t *heap, size_t len)
{
	uint8_t buf[WIRE_HELLO_LEN];
	struct wire_hello h, n;
	int ret = wire_hello_decode(heap, len, &h);
	size_t wrote;

	must(ret == 0 || ret == -EBADMSG);
	if (ret)
		return;
	must(len >= WIRE_COMPACT_LEN && heap[0] == WIRE_HELLO);
	wrote = wire_hello_encode(&h, buf);
	must(wrote == (h.ext.version ? WIRE_COMPACT_LEN : WIRE_HELLO_LEN));
	must(!wire_hello_decode(buf, wrote, &n));
	must(h.bufs == n.bufs && h.version == n.version && h.ipv == n.ipv);
	must(h.cap == n.cap && h.max_adverts == n.max_adverts);
	must(h.ext_max_adverts == n.ext_max_adverts);
	must(h.des_rcv_size == n.des_rcv_size && h.rcv_size == n.rcv_size);
	must(h.local_port == n.local_port);
	must(!memcmp(h.src, n.src, 16) && !memcmp(h.dst, n.dst, 16));
	same_ext(&h.ext, &n.ext);
}

static void hello_ack(const uint8_t *heap, size_t len)
{
	uint8_t buf[WIRE_HELLO_ACK_LEN];
	struct wire_hello_ack h, n;
	int ret = wire_hello_ack_decode(heap, len, &h);

	must(ret == 0 || ret == -EBADMSG);
	if (ret)
		return;
	must(len >= WIRE_HELLO_ACK_MIN && heap[0] == WIRE_HELLO_ACK);
	must(wire_hello_ack_encode(&h, buf) == sizeof(buf));
	must(!wire_hello_ack_decode(buf, sizeof(buf), &n));
	must(h.bufs == n.bufs && h.version == n.version && h.ipv == n.ipv);
	must(h.cap == n.cap && h.max_adverts == n.max_adverts);
	must(h.rcv_size == n.rcv_size);
	same_ext(&h.ext, &n.ext);
}

/* A private data area: the rest of the input, or so many bytes of it. */
static void set_up(struct input *in, void (*decode)(const uint8_t *, size_t))
{
	size_t len = (size_t)(in->end - in->at);
	uint8_t *heap = malloc(len ? len : 1);

	must(heap);
	in_bytes(in, heap, len);
	decode(heap, len);
	free(heap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	switch (in_byte(&in) % 4) {
	case 0:
		message(&in);
		break;
	case 1:
		fields(&in);
		break;
	case 2:
		set_up(&in, hello);
		break;
	default:
		set_up(&in, hello_ack);
		break;
	}
	return 0;
}
