/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Cases of fabtest: a client that speaks raw verbs and means harm. Whatever it
 * does, its own connection ends, and the next client is served as ever. Then
 * the messages that must fail [8.4], N1 to N14, one connection each.
 */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "fabtest.h"

struct raw {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t mem[4096];
};

enum harm {
	HARM_IMM, /* a write with immediate data eats a receive */
	HARM_WRITE, /* memory that was not advertised */
	HARM_READ,
	HARM_ATOMIC, /* an operation that SDP does not know */
	HARM_SHORT, /* less than a header */
	HARM_LENGTH, /* BSDH.Len is a lie */
	HARM_MUTE, /* a request, and nothing after it */
	HARM_FLOOD, /* more messages than there are credits */
	HARM_COUNT
};

/* N1 to N12: what is sent, zeros left out at the end. */
static const struct vector {
	uint8_t len;
	uint8_t bytes[36];
} vectors[] = {
	{ 20, { 0xff, 0, 0, 64, 0, 0, 0, 24, 0, 0, 0, 1 } },
	{ 12, { 0xff, 0, 0, 64, 0, 0, 0, 12, 0, 0, 0, 1 } },
	{ 16, { 0x10, 0, 0, 64, 0, 0, 0, 16, 0, 0, 0, 1 } },
	{ 16, { 0x06, 0, 0, 64, 0, 0, 0, 16, 0, 0, 0, 1 } },
	{ 32, { 0xfe, 0, 0, 64, 0, 0, 0,  32, 0, 0, 0, 1,
		0,    0, 0, 0,	0, 0, 16, 0,  0, 0, 0, 1 } },
	{ 33, { 0xfe, 0, 0, 64, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0,   0,
		0,    0, 1, 0,	0, 0, 1, 0,  0, 0, 0, 0, 0, 0, 0, 0x41 } },
	{ 20, { 0x07, 0, 0, 64, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0x10 } },
	{ 20, { 0x07, 0, 0, 64, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0xa0 } },
	{ 16, { 0x0a, 0, 0, 64, 0, 0, 0, 16, 0, 0, 0, 1 } },
	{ 36, { 0xfd, 0, 0, 64, 0, 0, 0, 36, 0, 0, 0, 1,
		0,    0, 0, 0,	0, 1, 0, 0,  0, 0, 0, 1 } },
	{ 16, { 0xff, 0, 0, 64, 0, 0, 0, 16, 0, 0, 0, 2 } },
	{ 16, { 0x04, 0, 0, 64, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 5 } },
};

#define VECTORS (sizeof(vectors) / sizeof(vectors[0]))

/* N13, N14: a byte of the Hello that is wrong. */
static const struct {
	uint8_t at, value;
} hellos[] = { { 19, 0 }, { 16, 0x11 } };

#define HELLOS (sizeof(hellos) / sizeof(hellos[0]))

static void raw_new(struct rig *r, struct raw *w, bool connect, uint8_t retry)
{
	struct ibv_qp_init_attr init = {
		.cap = { 64, 4, 1, 1, 64 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	uint8_t req[VERBS_REQ_LEN];
	struct rdma_conn_param p = {
		.private_data = req,
		.private_data_len = sizeof(req),
		.responder_resources = 4,
		.initiator_depth = 4,
		.retry_count = retry,
		.rnr_retry_count = 7,
	};

	IS(rdma_create_id(NULL, &w->id, NULL, RDMA_PS_IB), 0);
	IS(rdma_resolve_addr(w->id, NULL, &r->addr.sa, 5000), 0);
	IS(rdma_resolve_route(w->id, 5000), 0);
	IS(rdma_create_qp(w->id, NULL, &init), 0);
	w->mr = ibv_reg_mr(w->id->pd, w->mem, sizeof(w->mem),
			   IBV_ACCESS_LOCAL_WRITE);
	CHECK(w->mr);
	rig_hello(r, req);
	if (connect)
		IS(rdma_connect(w->id, &p), 0);
}

static void raw_post(struct raw *w, struct ibv_send_wr *wr, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)w->mem, len, w->mr->lkey };
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = len ? 1 : 0;
	IS(ibv_post_send(w->id->qp, wr, &bad), 0);
}

static void raw_wait(struct raw *w, enum ibv_wc_status want)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(w->id->send_cq, 1, &wc);
	} while (!n);
	IS(n, 1);
	IS(wc.status, want);
}

static void message(struct raw *w, uint32_t len, uint32_t seq)
{
	memset(w->mem, 0, sizeof(w->mem));
	w->mem[0] = 0xff;
	w->mem[7] = (uint8_t)len;
	w->mem[11] = (uint8_t)seq;
}

static void harm(struct rig *r, struct raw *w, enum harm what)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	uint32_t i;

	raw_new(r, w, what != HARM_MUTE, 6);
	switch (what) {
	case HARM_IMM:
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		raw_post(w, &wr, 0);
		raw_wait(w, IBV_WC_SUCCESS);
		break;
	case HARM_WRITE:
	case HARM_READ:
		wr.opcode = what == HARM_READ ? IBV_WR_RDMA_READ :
						IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = (uintptr_t)w->mem;
		wr.wr.rdma.rkey = w->mr->rkey;
		raw_post(w, &wr, 100);
		raw_wait(w, IBV_WC_REM_ACCESS_ERR);
		break;
	case HARM_ATOMIC:
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = (uintptr_t)w->mem & ~7ul;
		wr.wr.atomic.rkey = w->mr->rkey;
		raw_post(w, &wr, 8);
		raw_wait(w, IBV_WC_REM_INV_REQ_ERR);
		break;
	case HARM_SHORT:
		message(w, 16, 1);
		raw_post(w, &wr, 11);
		raw_wait(w, IBV_WC_SUCCESS);
		break;
	case HARM_LENGTH:
		message(w, 200, 1);
		raw_post(w, &wr, 100);
		raw_wait(w, IBV_WC_SUCCESS);
		break;
	case HARM_FLOOD:
		for (i = 1; i <= 60; i++) {
			message(w, 100, i);
			raw_post(w, &wr, 100);
		}
		/* more than can be received: some will wait */
		raw_wait(w, IBV_WC_SUCCESS);
		break;
	default:
		break;
	}
}

static void raw_vector(struct rig *r, struct raw *w, const struct vector *v)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	raw_new(r, w, true, 6);
	memcpy(w->mem, v->bytes, v->len);
	raw_post(w, &wr, v->len);
	raw_wait(w, IBV_WC_SUCCESS);
	rdma_disconnect(w->id);
}

static void raw_hello(struct rig *r, struct raw *w, unsigned int which)
{
	uint8_t req[VERBS_REQ_LEN];
	struct rdma_conn_param p = {
		.private_data = req,
		.private_data_len = sizeof(req),
		.retry_count = 6,
	};

	raw_new(r, w, false, 6);
	rig_hello(r, req);
	req[hellos[which].at] = hellos[which].value;
	IS(rdma_connect(w->id, &p), -1);
	IS(errno, ECONNREFUSED);
}

/* A REJ, and nothing was made for it. */
static void refuse(struct rig *r)
{
	struct conn_names n;
	struct verbs_event ev;

	rig_want(r, &ev, VE_REQUEST);
	rig_machine(r);
	CHECK(conn_on_hello(&r->conn, ev.data, ev.len, &n) < 0);
	IS(r->api->refuse(r->v, ev.request, NULL, 0), 0);
}

/*
 * Serves one that will not last; whatever the machine finds, it is the end.
 * What it said of the last message: the end may be told before a message that
 * came in front of it was looked at.
 */
static int serve(struct rig *r)
{
	uint8_t hdr[CONN_HDR_MAX];
	struct verbs_event ev;
	struct conn_in in;
	struct fab_msg m;
	bool over;
	int ret = 0;

	for (;;) {
		over = r->down;
		while (!ret && r->end->ops->poll(r->end, &m) == 1) {
			memcpy(hdr, m.mem,
			       m.len < sizeof(hdr) ? m.len : sizeof(hdr));
			/* held ones stay: the program does not read */
			ret = conn_on_recv(&r->conn, rig_ns(), hdr, m.len, &in);
			if (ret)
				r->api->disconnect(r->end);
		}
		if (over)
			break;
		IS(r->api->arm(r->end, false), 0);
		if (!r->end->ops->pending(r->end) || ret)
			rig_try(r, &ev, 200);
	}
	r->end->ops->destroy(r->end);
	return ret;
}

static void all_vectors(struct rig *r)
{
	static struct raw raw[VECTORS + HELLOS];
	unsigned int i;

	for (i = 0; i < VECTORS; i++) {
		if (!r->server) {
			raw_vector(r, &raw[i], &vectors[i]);
			continue;
		}
		rig_answer(r);
		IS(serve(r), -ECONNRESET);
		CHECK(r->conn.fault);
	}
	for (i = 0; i < HELLOS; i++) {
		if (r->server)
			refuse(r);
		else
			raw_hello(r, &raw[VECTORS + i], i);
	}
}

void fab_hostile(struct rig *r)
{
	static struct raw raw[HARM_COUNT];
	unsigned int i;

	rig_open(r);
	if (r->server)
		rig_listen(r);
	for (i = 0; i < HARM_COUNT; i++) {
		if (!r->server) {
			harm(r, &raw[i], i);
			if (raw[i].id->qp && i != HARM_MUTE)
				rdma_disconnect(raw[i].id);
			continue;
		}
		if (i == HARM_MUTE)
			continue;
		rig_answer(r);
		serve(r);
	}
	all_vectors(r);
	/* and now a decent one */
	if (r->server)
		rig_answer(r);
	else
		rig_dial(r);
	rig_run(r, 20000, 20000, 3000);
	rig_part(r);
	rig_close(r);
}
