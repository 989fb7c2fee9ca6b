/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One bridged connection: the SDP machine between a queue pair and the gate.
 * What holds one side up holds the other: bytes that the gate does not take
 * keep their receives, and so the peer's credits; while the peer gives none,
 * the gate is not read.
 */

#include "sdp_proto/wire.h"
#include "socket/bridge/bridge.h"

#define RECEIVES 32 /* under way from the peer */
#define ROUNDS	 16 /* of both directions, then others have their turn */

struct conn_params flow_params(const struct flow *f)
{
	return (struct conn_params){
		.native = true,
		.rcv_size = VERBS_RCV_SIZE,
		.posted = f->end->depth,
		.max_adverts = 1,
	};
}

static void put_address(const union verbs_addr *a, uint8_t to[16])
{
	if (a->sa.sa_family == AF_INET)
		memcpy(to + 12, &a->in.sin_addr, 4);
	else
		memcpy(to, &a->in6.sin6_addr, 16);
}

struct conn_names flow_names(const struct flow *f)
{
	bool v4 = f->local.sa.sa_family == AF_INET;
	struct conn_names n = { .ipv = v4 ? 4 : 6,
				.local_port = ntohs(f->local.in.sin_port),
				.remote_port = ntohs(f->peer.in.sin_port) };

	put_address(&f->local, n.src);
	put_address(&f->peer, n.dst);
	return n;
}

static void flow_capture(const struct flow *f, bool out, const uint8_t *msg,
			 uint32_t len)
{
	struct conn_names n;

	if (!CAPTURING)
		return;
	n = flow_names(f);
	capture_message_on(&n, out, msg, len);
}

/* --- the end ----------------------------------------------------------- */

/* The stream is not whole any more. */
static void broken(struct flow *f, int error)
{
	if (!f->conn.error)
		conn_on_lost(&f->conn, error);
	if (f->conn.fault)
		log_err("Error: native: the peer broke the protocol: %s",
			f->conn.fault);
}

/* Has the queue pair ended, and was all taken that came before? */
static void went_down(struct flow *f)
{
	if (f->conn.error || f->conn.state == CONN_CLOSED)
		return;
	if (f->down_error)
		conn_on_lost(&f->conn, f->down_error);
	else
		conn_on_disconnected(&f->conn, clock_ns());
}

static bool all_delivered(const struct flow *f)
{
	return f->head == f->tail && (!f->eof || f->eof_told);
}

/* The connection to the peer is over: the program hears of it by the gate. */
static bool ended(struct flow *f)
{
	bool reset = f->conn.error || !f->eof;

	if (!f->down)
		return false;
	if (!reset && !all_delivered(f) && !f->gate_dead)
		return false; /* it takes its time */
	gate_close(f, reset);
	f->state = FLOW_OVER;
	return true;
}

/* DREQ, behind everything that was sent. */
static void leave(struct flow *f)
{
	if (!f->leave || f->left || f->down || !rdma_api->flushed(f->end))
		return;
	f->left = true;
	rdma_api->disconnect(f->end);
}

static void gate_died(struct flow *f)
{
	if (f->gate_dead)
		return;
	f->gate_dead = true;
	conn_abort(&f->conn);
}

/* --- from the peer ----------------------------------------------------- */

static void note(struct flow *f, const struct conn_in *in)
{
	f->piece[f->tail++ % FLOW_PIECES] =
		(struct flow_piece){ in->off, in->len, in->oob };
}

/* Messages are parsed as they come, whether their bytes find room or not. */
static bool take(struct flow *f)
{
	const struct fabric_ops *ops = f->end->ops;
	struct fab_msg m = { .shed = false };
	uint8_t hdr[CONN_HDR_MAX];
	struct conn_in in;
	bool any = false;
	int ret;

	while (!f->conn.error && (ret = ops->poll(f->end, &m)) > 0) {
		memcpy(hdr, m.mem, m.len < sizeof(hdr) ? m.len : sizeof(hdr));
		flow_capture(f, false, m.mem, m.len);
		ret = conn_on_recv(&f->conn, clock_ns(), hdr, m.len, &in);
		if (ret || in.reset || f->tail - f->head == FLOW_PIECES) {
			broken(f, -ECONNRESET);
			return true;
		}
		if (m.shed)
			conn_shed(&f->conn, 1);
		else if (!m.held || !in.len)
			conn_reposted(&f->conn, 1);
		if (m.held)
			note(f, &in);
		f->eof |= in.eof;
		any = true;
	}
	if (!f->conn.error && ret < 0)
		broken(f, ret);
	else if (f->down && !f->conn.error)
		went_down(f);
	return any;
}

/* As much of the front piece as goes; false: no more goes now. */
static bool give_piece(struct flow *f, const struct flow_piece *p)
{
	uint32_t n = p->len - f->at;
	struct fab_msg m;
	bool urgent;
	ssize_t ret;

	if (f->end->ops->front(f->end, &m) != 1 || m.len < p->off + p->len) {
		broken(f, -EPROTO);
		return false;
	}
	urgent = p->urgent && n == 1;
	if (p->urgent && n > 1)
		n--;
	ret = sys_send(f->gate, m.mem + p->off + f->at, n,
		       MSG_DONTWAIT | MSG_NOSIGNAL | (urgent ? MSG_OOB : 0));
	if (ret == -EAGAIN)
		return false;
	if (ret <= 0) {
		gate_died(f);
		return false;
	}
	f->at += (uint32_t)ret;
	f->moved += (uint64_t)ret;
	return true;
}

static bool give(struct flow *f)
{
	bool any = false;

	while (f->head != f->tail) {
		const struct flow_piece *p = &f->piece[f->head % FLOW_PIECES];

		/* what comes to a program that has gone is dropped */
		if (f->at < p->len && !f->gate_dead) {
			if (!give_piece(f, p))
				return any;
			any = true;
			continue;
		}
		if (p->len)
			conn_reposted(&f->conn, 1);
		f->end->ops->release(f->end);
		f->head++;
		f->at = 0;
		any = true;
	}
	if (f->eof && !f->eof_told && !f->gate_dead) {
		sys_shutdown(f->gate, SHUT_WR);
		f->eof_told = true;
	}
	return any;
}

/* --- to the peer ------------------------------------------------------- */

/* Bytes that can be read at once: up to an urgent one, or that one. */
static uint64_t readable(struct flow *f, bool *urgent)
{
	ssize_t n;

	*urgent = false;
	if (f->read_eof || f->gate_dead)
		return 0;
	n = gate_peek(f->gate, VERBS_RCV_MAX, urgent);
	if (n > 0)
		return (uint64_t)n;
	if (n == 0) {
		f->read_eof = true;
		conn_shutdown(&f->conn, clock_ns(), f->leaving);
	} else if (n != -EAGAIN) {
		gate_died(f);
	}
	return 0;
}

static void post(struct flow *f, uint8_t *mem, const struct conn_op *op)
{
	memcpy(mem, op->hdr, op->hdr_len);
	/* it was seen there, and nothing else reads this socket */
	if (op->payload && sys_recv(f->gate, mem + op->hdr_len, op->payload,
				    MSG_DONTWAIT) != (ssize_t)op->payload) {
		broken(f, -EPROTO);
		return;
	}
	f->moved += op->payload;
	flow_capture(f, true, mem, op->hdr_len + op->payload);
	f->end->ops->send(f->end, op->hdr_len + op->payload, op->solicited);
}

/* One operation of the machine; false: there is none now. */
static bool send_one(struct flow *f)
{
	const struct fabric_ops *ops = f->end->ops;
	struct conn_offer offer = { 0 };
	uint32_t room = ops->room(f->end);
	struct conn_op op;
	uint8_t *mem = NULL;

	if (f->down || f->left)
		return false;
	/* a full ring never keeps control messages back */
	if (!room && !(mem = ops->ctrl(f->end)))
		return false;
	if (room && conn_tx_room(&f->conn))
		offer.bytes = readable(f, &offer.oob_last);
	else
		offer.more = !f->read_eof;
	conn_next(&f->conn, clock_ns(), &offer, room ? room : FAB_CTRL, &op);
	if (op.type == CONN_DISCONNECT)
		f->leave = true;
	if (op.type != CONN_SEND)
		return false;
	if (room)
		mem = ops->buf(f->end, op.hdr_len + op.payload);
	if (mem)
		post(f, mem, &op);
	else
		broken(f, -EPROTO);
	return true;
}

static bool take_out(struct flow *f)
{
	int n = 0;

	while (n < 64 && send_one(f))
		n++;
	leave(f);
	return n;
}

/* --- both -------------------------------------------------------------- */

void flow_begin(struct flow *f)
{
	int more = rdma_api->resize(f->end, VERBS_RCV_SIZE, RECEIVES);

	if (more > 0)
		conn_reposted(&f->conn, (uint32_t)more);
}

bool flow_step(struct flow *f)
{
	uint64_t now = clock_ns();
	int n;

	if (conn_deadline(&f->conn) <= now)
		conn_on_timer(&f->conn, now);
	/* one that reads no more is not told by reading */
	if (f->read_eof && !f->gate_dead && option_int(f->gate, SO_ERROR) > 0)
		gate_died(f);
	for (n = 0; n < ROUNDS; n++) {
		bool any = take(f);

		any |= give(f);
		any |= take_out(f);
		if (ended(f))
			return false;
		if (any)
			continue;
		rdma_api->arm(f->end, false);
		if (!f->end->ops->pending(f->end))
			return true;
	}
	f->due = true;
	return true;
}

bool flow_settled(struct flow *f)
{
	bool urgent;

	if (f->state != FLOW_UP || f->down || f->conn.error)
		return true;
	return !readable(f, &urgent) && !conn_wants_send(&f->conn) &&
	       rdma_api->flushed(f->end);
}
