/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The machine against a hostile peer and a whimsical program: whatever comes,
 * the promises of conn.h hold and no memory is touched that is not ours.
 */
#include "fuzz.h"

#include <errno.h>

#include "sdp_proto/wire.h"
#include "sdp_proto/zcopy.h"

const struct target target = { "conn", 100, 20000 };

struct run {
	struct conn c;
	uint64_t now;
	uint32_t held; /* receives not reposted */
	int error; /* first one seen */
	bool gone; /* CONN_DISCONNECT was answered */
	uint32_t reads, writes; /* RDMA under way */
	uint64_t out; /* memory advertised: a bit each; bit 0 is not used */
	uint64_t last_key;
};

static void holds(struct run *r)
{
	const struct conn *c = &r->c;

	must(c->state <= CONN_CLOSED);
	must(c->src_count <= CONN_ADVERTS);
	must(c->sink_count <= CONN_ADVERTS);
	must(c->peer_src_count <= CONN_ADVERTS);
	must(c->peer_sink_count <= CONN_ADVERTS);
	must(c->reads == r->reads && c->writes == r->writes);
	must(c->src_count + c->sink_count + c->freed_count <= 2 * CONN_ADVERTS);
	must(conn_tx_at(c) >= c->tx_stream);
	must(!conn_source(c) || c->peer_src_count);
	must(!conn_write_room(c) || c->peer_sink_count);
	must(c->tx_mode <= WIRE_PIPELINED && c->rx_mode <= WIRE_PIPELINED);
	must(c->error <= 0);
	must(!c->error || c->state == CONN_CLOSED);
	must(!r->error || c->error == r->error); /* the first stays */
	r->error = c->error;
	must(conn_peer_view(c) <= UINT16_MAX);
	conn_deadline(c);
	must(c->state <= CONN_CLOSED);
}

static void step_recv(struct run *r, struct input *in)
{
	uint8_t kind = in_byte(in), buf[CONN_HDR_MAX] = { 0 };
	uint32_t len = 16 + (kind & 0x40 ? in_word(in) : in_byte(in) % 48u);
	uint64_t before = r->c.rx_stream;
	uint32_t most = r->c.rcv_size; /* the message may make it less */
	enum conn_state state = r->c.state;
	struct conn_in got;
	uint8_t *heap;
	uint32_t n;
	int ret;

	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = in_byte(in);
	if (kind & 0x01) { /* as a sane peer would */
		static const uint8_t data_class[4] = { WIRE_DATA, WIRE_DATA,
						       WIRE_SRC_AVAIL,
						       WIRE_SINK_AVAIL };

		buf[0] = kind & 0x02 ? data_class[buf[0] & 3] : 2 + buf[0] % 13;
		if (!wire_has_payload(buf[0]))
			len = wire_hdr_len(buf[0]);
		else if (len < wire_hdr_len(buf[0]))
			len = wire_hdr_len(buf[0]);
	}
	if (kind & 0x05)
		wire_put32(buf + 4, len);
	if (kind & 0x09)
		wire_put32(buf + 8, r->c.mseq_rcvd + 1);
	if (kind & 0x11)
		wire_put32(buf + 12, r->c.mseq_sent - (buf[12] & 3));
	if (kind & 0x20)
		len = in_byte(in) % 40u;
	n = len < sizeof(buf) ? len : sizeof(buf);
	heap = malloc(n ? n : 1); /* exactly what the contract gives */
	must(heap);
	memcpy(heap, buf, n);
	ret = conn_on_recv(&r->c, r->now, heap, len, &got);
	free(heap);
	must(ret <= 0);
	must(ret == r->c.error || (!ret && got.reset));
	must(got.off <= len && got.len <= len - got.off);
	must(!got.len || (got.off >= WIRE_BSDH && len <= most));
	must(!got.oob || got.len);
	must(!got.eof || state <= CONN_SENT1);
	must(r->c.rx_stream >= before + got.len);
	if (!ret && !got.reset && state < CONN_TW)
		r->held++;
}

/* A key of memory that is not out, or 0. */
static uint64_t new_key(struct run *r)
{
	int i;

	for (i = 0; i < 63; i++) {
		r->last_key = 1 + r->last_key % 63;
		if (!(r->out >> r->last_key & 1))
			return r->last_key;
	}
	return 0;
}

static void check_took(struct run *r, const struct conn *was,
		       const struct conn_offer *offer, const struct conn_op *op)
{
	const struct conn_zc *zc = offer->zc;

	if (op->took == CONN_TOOK_SRC) {
		must(zc && zc->src.len && op->hdr[0] == WIRE_SRC_AVAIL);
		must(op->len + op->payload <= zc->src.len);
		must(op->len && op->len + op->payload <= offer->bytes);
		must(conn_src_wanted(was, zc->src.len));
		must(!offer->oob_last);
		r->out |= 1ull << zc->src.key;
	} else if (op->took == CONN_TOOK_SINK) {
		must(zc && zc->sink.len && op->hdr[0] == WIRE_SINK_AVAIL);
		must(op->len == zc->sink.len);
		must(conn_sink_wanted(was, zc->sink.len));
		r->out |= 1ull << zc->sink.key;
	} else {
		must(op->hdr[0] != WIRE_SRC_AVAIL);
		must(op->hdr[0] != WIRE_SINK_AVAIL);
	}
}

static void take_out(struct run *r, uint64_t key)
{
	must(r->out >> key & 1);
	r->out &= ~(1ull << key);
}

/* All memory that came free, each piece once. */
static void step_freed(struct run *r)
{
	struct conn_freed f;

	while (conn_freed(&r->c, &f)) {
		take_out(r, f.key);
		must(!f.bytes || f.at + f.bytes <= (f.sink ? r->c.rx_stream :
							     r->c.tx_stream));
	}
}

static void step_read(struct run *r, struct input *in)
{
	uint64_t max = in_word(in);
	struct conn_op op;

	if (!conn_read(&r->c, max, &op)) {
		must(!max || !conn_source(&r->c) || r->reads == CONN_RDMA);
		return;
	}
	must(op.type == CONN_READ && op.len && op.len <= max);
	must(op.vaddr + op.len >= op.vaddr);
	r->reads++;
}

static void step_done(struct run *r, struct input *in)
{
	uint8_t kind = in_byte(in);
	uint64_t len = kind & 2 ? UINT64_MAX : in_word(in);
	uint64_t before = r->c.rx_stream;
	int ret;

	ret = conn_on_done(&r->c, kind & 1 ? CONN_READ : CONN_WRITE, len);
	if (kind & 1) {
		must((ret == -EINVAL) == !r->reads);
		r->reads -= r->reads != 0;
		must(ret == 0 || r->c.rx_stream == before);
		must(r->c.rx_stream - before <= len);
	} else {
		must((ret == -EINVAL) == !r->writes);
		r->writes -= r->writes != 0;
	}
}

static void check_op(struct run *r, const struct conn *was,
		     const struct conn_offer *offer, uint32_t room,
		     const struct conn_op *op)
{
	struct wire_msg m;

	if (op->type == CONN_DISCONNECT) {
		must(!r->gone);
		r->gone = true;
	}
	must(op->type != CONN_READ);
	if (op->type == CONN_WRITE) {
		must(op->len && op->len <= offer->bytes);
		must(op->len <= offer->zc->write);
		must(op->vaddr + op->len >= op->vaddr);
		must(r->c.tx_stream == was->tx_stream + op->len);
		r->writes++;
	}
	if (op->type != CONN_SEND)
		return;
	must(r->c.tx_stream == was->tx_stream + op->payload);
	check_took(r, was, offer, op);
	must(!r->gone);
	must(op->hdr_len <= CONN_HDR_MAX && op->hdr_len <= room);
	must(op->payload <= offer->bytes);
	must(op->payload <= room - op->hdr_len);
	must(!op->payload || op->took || !was->src_count);
	must(op->hdr_len + op->payload <= was->peer_rcv_size);
	must(wire_decode(op->hdr, op->hdr_len + op->payload, &m) == WIRE_OK);
	must(m.hdr_len == op->hdr_len);
	must(m.mseq == was->mseq_sent + 1);
	must(m.mid == WIRE_ABORT || was->credits >= (op->payload ? 3 : 1));
	must(!op->payload || !was->dis_sent);
	must(!(m.flags & WIRE_OOB_PRES) ||
	     (offer->oob_last && op->payload == offer->bytes));
}

static void step_next(struct run *r, struct input *in)
{
	uint8_t kind = in_byte(in);
	struct conn_offer offer = { .bytes = kind & 1 ? in_word(in) : 0,
				    .oob_last = kind & 2 };
	uint32_t room = kind & 4 ? in_word(in) : 65536;
	uint32_t credits = r->c.credits;
	struct conn_zc zc;
	struct conn was;
	struct conn_op op;
	int i;

	for (i = 0; i < (kind & 8 ? 200 : 1); i++) {
		was = r->c;
		memset(&zc, 0, sizeof(zc));
		if (kind & 32) {
			zc.src.len = in_word(in);
			zc.src.key = new_key(r);
			zc.inl = in_byte(in);
		}
		if (kind & 64) {
			zc.sink.len = 4096 + in_byte(in);
			zc.sink.key = new_key(r);
		}
		zc.write = kind & 128 ? in_word(in) : 0;
		offer.zc = kind & 224 && in->at < in->end ? &zc : NULL;
		conn_next(&r->c, r->now, &offer, room, &op);
		check_op(r, &was, &offer, room, &op);
		if (op.type == CONN_NOTHING)
			return;
		if (op.type == CONN_SEND)
			offer.bytes -= op.payload;
		if (op.type == CONN_WRITE || op.took == CONN_TOOK_SRC)
			offer.bytes -= op.len;
	}
	must(i < 200 || credits > 190 || !(kind & 8)); /* it comes to rest */
}

static void step_program(struct run *r, struct input *in)
{
	uint8_t arg = in_byte(in);

	switch (in_byte(in) % 11) {
	case 0:
		conn_shutdown(&r->c, r->now, arg & 1);
		break;
	case 1:
		conn_shut_read(&r->c);
		break;
	case 2:
		conn_abort(&r->c);
		break;
	case 3:
		conn_on_disconnected(&r->c, r->now);
		break;
	case 4:
		conn_on_lost(&r->c, arg ? arg : EIO);
		break;
	case 5:
		conn_say_rcvbuf(&r->c, in_word(in));
		break;
	case 6:
		conn_set_mode(&r->c, arg % 4);
		break;
	case 7:
		conn_refuse_sources(&r->c);
		break;
	case 8:
		conn_cancel_sources(&r->c);
		break;
	case 9:
		conn_cancel_sinks(&r->c);
		break;
	default:
		step_freed(r);
	}
}

/* Set-up with a Hello of the input's making, or a good one. */
static bool birth(struct run *r, struct input *in)
{
	uint8_t kind = in_byte(in), buf[CONN_HELLO_ACK_LEN] = { 0 };
	struct conn_params p = { .native = kind & 2,
				 .rcv_size = kind & 4 ? 17 + in_byte(in) : 4096,
				 .posted = 4 + in_byte(in) % 60,
				 .max_adverts = in_byte(in) % 12,
				 .ext_flags = in_byte(in),
				 .reads = kind & 32 };
	struct conn_names n = { .ipv = 4 }, got;
	struct conn peer;
	size_t len, i;

	conn_init(&r->c, &p);
	conn_init(&peer, &p);
	if (kind & 1) { /* active */
		len = conn_hello(&r->c, &n, buf);
		must(conn_on_hello(&peer, buf, len, &got) == 0);
		conn_hello_ack(&peer, &n, buf);
		len = sizeof(buf);
	} else {
		len = conn_hello(&peer, &n, buf);
	}
	for (i = 0; i < in_byte(in) % 4u; i++) /* lies */
		buf[in_byte(in) % len] = in_byte(in);
	if (kind & 1)
		return !conn_on_hello_ack(&r->c, buf, len, &got);
	if (conn_on_hello(&r->c, buf, len, &got))
		return false;
	conn_hello_ack(&r->c, &n, buf);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct run r;
	uint32_t n;

	memset(&r, 0, sizeof(r));
	r.now = 1000;
	if (!birth(&r, &in)) {
		must(r.c.error);
		return 0;
	}
	while (in.at < in.end) {
		switch (in_byte(&in) % 11) {
		case 0:
		case 1:
		case 2:
			step_recv(&r, &in);
			break;
		case 3:
		case 4:
			step_next(&r, &in);
			break;
		case 5:
			n = in_byte(&in) & 1 ? r.held : r.held / 2;
			conn_reposted(&r.c, n);
			r.held -= n;
			break;
		case 6:
			r.now += (uint64_t)in_word(&in) << (in_byte(&in) % 24);
			conn_on_timer(&r.c, r.now);
			break;
		case 7:
			step_read(&r, &in);
			break;
		case 8:
			step_done(&r, &in);
			break;
		case 9:
			step_freed(&r);
			break;
		default:
			step_program(&r, &in);
		}
		holds(&r);
	}
	/* What was advertised and has not come free is there, each once. */
	conn_on_lost(&r.c, EIO);
	step_freed(&r);
	for (n = 0; n < r.c.src_count; n++)
		take_out(&r, r.c.src[n].key);
	for (n = 0; n < r.c.sink_count; n++)
		take_out(&r, r.c.sink[n].key);
	must(!r.out);
	return 0;
}
