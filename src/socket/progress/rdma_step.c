/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the background thread does for a connection whose peer is on another
 * host: events of connection management, and the next step of a candidate.
 */

#include "sdp_proto/wire.h"
#include "socket/progress/progress.h"

#define MOVES 3 /* from process to process, per try */

static int on_ready(struct sock *s)
{
	struct rdma *r = s->rd;
	struct conn_names n = rdma_names(r);
	struct conn_params p;
	uint8_t hello[CONN_HELLO_MAX];

	if (!rdma_choose(r, &n.window))
		return -EAGAIN;
	n.check = rdma_check(r, true, r->seek.token);
	p = rdma_params(r);
	if (!r->seek.hist->window_len)
		p.ext_flags |= CONN_EXT_BARE;
	conn_init(&s->conn, &p);
	if (conn_hello(&s->conn, &n, hello) != VERBS_REQ_LEN)
		return -EPROTO;
	if (CAPTURING) {
		n = capture_names(s);
		capture_greet(&n, hello);
	}
	return rdma_api->connect(r->end, hello);
}

static int on_answered(struct sock *s, const struct verbs_event *ev)
{
	struct rdma *r = s->rd;
	struct conn_names n;

	if (conn_on_hello_ack(&s->conn, ev->data, ev->len, &n) ||
	    !(s->conn.peer_ext_flags & CONN_EXT_WORDS) ||
	    n.remote_port != r->seek.names.local_port) {
		log_once(LOG_WARN, "fd %d: an unsound HelloAck is refused",
			 sock_fd(s));
		return -EBADMSG;
	}
	if (CAPTURING) {
		struct conn_names own = capture_names(s);

		r->seek.records = capture_greeted(&own, ev->data);
	}
	r->seek.peer_token = n.token;
	r->seek.answered = true;
	if (n.check != rdma_check(r, false, rdma_answer_key(r)))
		return -EKEYREJECTED;
	rdma_markers(r);
	return rdma_api->establish(r->end);
}

/* Another process has the connection: at once to the port it listens on. */
static bool moved(struct rdma *r, const struct verbs_event *ev)
{
	uint16_t port = wire_get16(ev->data + 6);

	if (ev->data[4] != RDMA_MOVED || !port || ++r->seek.moves > MOVES)
		return false;
	r->seek.port = port;
	r->state = RDMA_WANTED;
	r->end = NULL;
	r->due.restless = true;
	rdma_turn_over();
	return true;
}

static void on_refused(struct sock *s, const struct verbs_event *ev)
{
	bool ours = ev->len >= RDMA_REJ_LEN &&
		    wire_get32(ev->data) == WIRE_EXT_MAGIC;
	int err = -EKEYREJECTED;

	if (ours) {
		s->rd->seek.answered = true;
		if (ev->data[5])
			rdma_patient(s->rd, clock_ns());
		rdma_answers(s->rd, false);
	}
	if (ours && moved(s->rd, ev)) {
		log_debug("fd %d: sent on to RDMA port %u", sock_fd(s),
			  s->rd->seek.port);
		service_poke(service_id());
		return;
	}
	if (!ours || ev->data[4] == RDMA_NEVER)
		err = -ECONNREFUSED;
	if (ours && ev->data[4] == RDMA_NEVER) {
		s->rd->seek.tries = RDMA_TRIES;
		s->rd->seek.answered = false;
	}
	rdma_in_vain(s, err);
}

/* Lock held: the event of an end that is in use. */
static void on_event(struct sock *s, const struct verbs_event *ev)
{
	struct rdma *r = s->rd;
	int ret = 0;

	switch (ev->type) {
	case VE_READY:
		ret = on_ready(s);
		break;
	case VE_ANSWERED:
		ret = on_answered(s, ev);
		break;
	case VE_UP:
		if (r->seek.dials)
			rdma_answers(r, true);
		rdma_turn_over();
		/* forked meanwhile: of no use there */
		if (sock_holders(s) != 1) {
			ret = -EBUSY;
			break;
		}
		rdma_forget_hist(r);
		ret = rdma_up(s);
		if (!ret)
			log_debug("fd %d: paired over RDMA", sock_fd(s));
		break;
	case VE_REFUSED:
		r->end->ops->destroy(r->end);
		on_refused(s, ev);
		return;
	case VE_FAILED:
	case VE_DOWN:
		if (r->state == RDMA_UP || r->state == RDMA_FAILOVER) {
			rdma_down(s, ev->error);
			return;
		}
		ret = ev->error ? ev->error : -ECONNRESET;
		break;
	case VE_READABLE:
		rdma_readable(s);
		return;
	default:
		return;
	}
	if (!ret || r->state > RDMA_UP)
		return;
	r->end->ops->destroy(r->end);
	rdma_in_vain(s, ret);
}

static void event(const struct verbs_event *ev)
{
	struct rdma *r = (void *)(uintptr_t)ev->tag;
	struct sock *s;
	bool changed;

	if (ev->type == VE_REQUEST) {
		rdma_request(rdma_module.v, ev);
		return;
	}
	if (r->owner != sock_pid || r->end != ev->end)
		return;
	s = r->sock;
	if (!s) { /* detached: rdma_bury() waits for this */
		r->down |= ev->type == VE_DOWN || ev->type == VE_FAILED;
		return;
	}
	if (sock_lock(s))
		return;
	if (s->rd == r)
		on_event(s, ev);
	changed = s->rd == r && r->due.changed;
	if (changed)
		r->due.changed = false;
	sock_unlock(s);
	if (changed)
		sock_changed(s);
	if (hooks.risen && (changed || ev->type == VE_READABLE))
		hooks.risen(s);
}

void rdma_run(void)
{
	struct verbs_event ev;

	int ret = 0;

	while (rdma_module.v &&
	       (ret = rdma_api->event(rdma_module.v, &ev)) == 1)
		event(&ev);
	if (ret == -EACCES)
		rdma_denied();
	rdma_bury();
	rdma_renew();
	if (rdma_module.v)
		rdma_redirect_tidy(rdma_module.v);
}

static void dial(struct sock *s)
{
	struct rdma *r = s->rd;
	union verbs_addr local, peer;
	uint16_t window;
	int ret;

	if (rdma_module.denied || clock_ns() < r->seek.retry_at)
		return;
	r->seek.queued = !rdma_turn_free(r);
	if (r->seek.queued)
		rdma_patient(r, clock_ns());
	if (r->seek.queued || !rdma_choose(r, &window) || !rdma_open())
		return;
	rdma_turn(r);
	r->seek.retry_at = clock_ns();
	rdma_address(&local, &r->seek.names, false, 0);
	rdma_address(&peer, &r->seek.names, true, r->seek.port);
	ret = rdma_api->dial(rdma_module.v, &local, &peer, (uintptr_t)r,
			     &r->end);
	if (ret == -EACCES)
		rdma_denied();
	else if (ret)
		rdma_in_vain(s, ret);
	else
		r->state = RDMA_DIALING;
}

/* A candidate's next step, lock held. */
static void seek(struct sock *s)
{
	struct rdma *r = s->rd;
	enum reason why;

	r->due.restless = false;
	if ((r->old && !rdma_old_gone(s)) || r->lingers)
		return;
	/* by another's tries; what was up once is tried again and again */
	why = r->failover.again ? WHY_NONE :
				  rdma_barred(&r->seek.names, r->seek.serves);
	if (!why && clock_ns() > r->seek.give_up_at)
		why = rdma_out_of_patience(r);
	if (why) {
		rdma_drop(s, why);
		return;
	}
	if (!rdma_alone(s) || never_lift(s) || !rdma_all_on_tcp(s))
		return;
	if (r->seek.dials)
		dial(s);
	else if (clock_ns() >= r->seek.retry_at && rdma_open())
		r->seek.retry_at = rdma_listen(rdma_module.v, r);
	why = rdma_hopeless();
	if (why && s->rd && !rdma_module.v)
		rdma_drop(s, why);
	else if (s->rd && r->state == RDMA_WANTED)
		r->due.restless = rdma_looks_often(r);
}

void rdma_serve(struct sock *s)
{
	bool over = false, changed = false, lifts = false;
	struct rdma *r;

	if (lock_try(&s->lock))
		return;
	/* what is a relative's is not mapped here */
	r = sock_here(s) ? s->rd : NULL;
	if (r && r->owner == sock_pid) {
		if (rdma_parted(s))
			rdma_reunite(s);
		if (r->state == RDMA_WANTED)
			seek(s);
		else if (r->state == RDMA_FAILOVER)
			failover_step(s);
		else if (r->state >= RDMA_UP)
			rdma_look_after(s);
		over = s->rd && r->lingers && s->waits.orphan_fd >= 0;
		changed = s->rd && r->due.changed;
		lifts = s->paired && s->waits.orphan_fd < 0 &&
			anc_state(s->tx) == ANC_TCP;
		if (changed)
			r->due.changed = false;
	}
	sock_unlock(s);
	if (over) {
		reports.left(s);
		return;
	}
	if (lifts) {
		lift_try_tx(s, sock_fd(s));
		changed |= tx_ours(s);
	}
	if (changed) {
		sock_changed(s);
		if (hooks.risen)
			hooks.risen(s);
	}
}
