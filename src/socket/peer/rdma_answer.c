/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The answering end: a request names a connection. Is it held here, or by
 * which process, and does its sender know what went through it? All of it is
 * the service thread's. A request that is refused changes nothing.
 */

#include "base/table.h"
#include "sdp_proto/wire.h"
#include "socket/peer/peer.h"

struct wanted {
	struct diag_names names;
	struct sock *sock;
};

static void match(struct sock *s, void *arg)
{
	struct wanted *w = arg;
	/* what has become a relative's is not mapped here */
	struct rdma *r = sock_here(s) ? s->rd : NULL;

	if (r && r->owner == sock_pid && r->seek.names.v4 == w->names.v4 &&
	    r->seek.names.local_port == w->names.local_port &&
	    r->seek.names.peer_port == w->names.peer_port &&
	    !memcmp(r->seek.names.local, w->names.local, 16) &&
	    !memcmp(r->seek.names.peer, w->names.peer, 16))
		w->sock = s;
}

static void ip_of(uint8_t to[16], const union verbs_addr *a)
{
	memset(to, 0, 16);
	if (a->sa.sa_family == AF_INET)
		memcpy(to, &a->in.sin_addr, 4);
	else
		memcpy(to, &a->in6.sin6_addr, 16);
}

static void refuse(struct verbs *v, struct verbs_request *q,
		   enum rdma_verdict verdict, bool near, uint16_t port)
{
	uint8_t why[RDMA_REJ_LEN] = { 0 };

	wire_put32(why, WIRE_EXT_MAGIC);
	why[4] = (uint8_t)verdict;
	why[5] = near;
	wire_put16(why + 6, port);
	rdma_api->refuse(v, q, why, sizeof(why));
}

/*
 * The sock's lock is held; it may have become a relative's since it was found.
 * Is it the other end, does it know the bytes?
 */
static int accept_it(struct verbs *v, struct sock *s,
		     const struct verbs_event *ev, const struct conn_names *ask,
		     bool bare)
{
	struct rdma *r = s->rd;
	struct conn_names n, unused;
	struct conn_params p;
	uint8_t ack[CONN_HELLO_ACK_LEN];
	int ret;

	if (!r || !sock_here(s) || r->owner != sock_pid ||
	    r->state != RDMA_WANTED || r->seek.dials || !rdma_alone(s) ||
	    never_lift(s) || !rdma_all_on_tcp(s))
		return -EAGAIN;
	if (!(bare ? rdma_find_bare(r) : rdma_find(r, ask->window)) ||
	    ask->check != rdma_check(r, true, ask->token))
		return -EKEYREJECTED;
	r->seek.peer_token = ask->token;
	ret = rdma_api->prepare(v, ev->request, (uintptr_t)r, &r->end);
	if (ret) { /* whatever it was, it is not the dialler's doing */
		rdma_in_vain(s, ret);
		return ret;
	}
	n = rdma_names(r);
	n.check = rdma_check(r, false, rdma_answer_key(r));
	p = rdma_params(r);
	conn_init(&s->conn, &p);
	rdma_markers(r);
	r->state = RDMA_ANSWERING;
	if (!conn_on_hello(&s->conn, ev->data, ev->len, &unused)) {
		conn_hello_ack(&s->conn, &n, ack);
		if (CAPTURING) {
			n = capture_names(s);
			r->seek.records = capture_greeted(&n, ev->data);
			capture_greet(&n, ack);
		}
		ret = rdma_api->accept(r->end, ack);
	} else {
		ret = -EPROTO;
	}
	if (ret) {
		r->end->ops->destroy(r->end);
		rdma_in_vain(s, ret);
	}
	return 0;
}

void rdma_request(struct verbs *v, const struct verbs_event *ev)
{
	struct conn_params p = { .rcv_size = VERBS_RCV_SIZE,
				 .posted = VERBS_RCV_REST,
				 .max_adverts = 1,
				 .ext_flags = CONN_EXT_WORDS };
	static TABLE struct conn scratch;
	struct conn_names ask;
	struct wanted w = { 0 };
	uint16_t port = 0;
	int ret = -EAGAIN;

	conn_init(&scratch, &p);
	if (conn_on_hello(&scratch, ev->data, ev->len, &ask) ||
	    !(scratch.peer_ext_flags & CONN_EXT_WORDS)) {
		rdma_api->refuse(v, ev->request, NULL, 0);
		return;
	}
	w.names.v4 = ev->peer.sa.sa_family == AF_INET;
	ip_of(w.names.local, &ev->local);
	ip_of(w.names.peer, &ev->peer);
	w.names.local_port = ask.remote_port;
	w.names.peer_port = ask.local_port;
	rdma_note_asker(&w.names);
	service_each(match, &w);
	if (!w.sock) {
		port = rdma_redirect_ask(&w.names);
	} else if (!sock_lock(w.sock)) {
		ret = accept_it(v, w.sock, ev, &ask,
				scratch.peer_ext_flags & CONN_EXT_BARE);
		sock_unlock(w.sock);
	}
	if (ret)
		refuse(v, ev->request,
		       port		? RDMA_MOVED :
		       rdma_no_way(ret) ? RDMA_NEVER :
					  RDMA_LATER,
		       ret == -EKEYREJECTED, port);
}
