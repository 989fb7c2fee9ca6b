/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finding the other end over RDMA: candidates and connection management. But
 * for rdma_begin(), rdma_drop() and rdma_detach() all is the service thread's.
 */

#include "base/arena.h"
#include "config/lists.h"
#include "sdp_proto/wire.h"
#include "socket/rdma.h"

#define TRIES	   22 /* where nobody of ours has answered */
#define TRY_NS	   20000000ull /* and doubled each third time, */
#define TRY_MAX_NS 2000000000ull /* up to this */
#define MOVES	   3 /* from process to process, per try */
#define AGAIN_NS   500000000ull /* after a break */
#define LONG_NS	   5000000000ull /* without an answer */
#define LONG_COUNT 8 /* as good as so many tries */

static struct arena arena = ARENA_INIT(sizeof(struct rdma));
static struct arena hists = ARENA_INIT(sizeof(struct rdma_hist));

static struct rdma *graves; /* detached, atomic list */

/* --- life of a candidate ----------------------------------------------- */

static void forget_hist(struct rdma *r)
{
	if (r->seek.hist)
		arena_put(&hists, r->seek.hist);
	r->seek.hist = NULL;
}

/* A connection that ends meanwhile would have learned it, perhaps. */
static void unanswered(struct rdma *r)
{
	bool slow = clock_ns() > r->seek.retry_at + LONG_NS;

	if (r->seek.dials && r->state == RDMA_DIALING && !r->mend.again &&
	    !r->seek.answered && rdma_fails(r, slow ? LONG_COUNT : 1))
		rdma_bar(r, WHY_PEER_DECLINED);
}

void rdma_detach(struct sock *s)
{
	struct rdma *r = s->rd, *head;

	if (!r)
		return;
	if (r->owner == sock_pid)
		rdma_anchor_watch(s, -1);
	zcr_over(s);
	zcr_sink_over(s);
	s->rd = NULL;
	s->end = &rdma_nowhere;
	s->end_pid = 0;
	if (r->owner != sock_pid)
		return; /* its owner's, and it will find out */
	unanswered(r);
	rdma_turn_left(r);
	forget_hist(r);
	mend_drop(r);
	if (!r->end)
		r->end = r->old;
	r->was = s;
	if (r->far >= 0) {
		fd_unhide(r->far);
		sys_close(r->far);
	}
	r->far = -1;
	r->seek.give_up_at = clock_ns() + 1000000000u;
	r->sock = NULL;
	head = __atomic_load_n(&graves, __ATOMIC_ACQUIRE);
	do {
		r->next = head;
	} while (!__atomic_compare_exchange_n(
		&graves, &head, r, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	service_poke(service_id());
}

void rdma_drop(struct sock *s, enum reason why)
{
	bool known = s->rd && s->rd->owner == sock_pid;

	rdma_detach(s);
	if (known)
		service_del(s);
	s->seek.look = LOOK_NEVER;
	sock_why(s, why);
}

static bool trusted(const struct diag_names *n)
{
	union verbs_addr peer;

	rdma_address(&peer, n, true, 0);
	return list_nets_have(settings.trusted_hosts, &peer.sa);
}

enum reason rdma_begin(struct sock *s, int fd)
{
	struct diag_names n;
	enum reason why;
	struct rdma *r;
	bool serves;

	if (settings.path == SET_PATH_SHM)
		return WHY_REMOTE;
	why = rdma_devices();
	if (why)
		return why;
	why = rdma_hopeless();
	if (why)
		return why;
	if (diag_names(fd, &n))
		return WHY_REMOTE;
	/* before the first byte there is no proof: what a rule forbids to send */
	if (s->id.use == USE_SDP && !s->id.native && !trusted(&n))
		return WHY_UNVERIFIED;
	serves = rdma_order(&n) > 0 && s->id.role == 2;
	why = rdma_barred(&n, serves);
	if (why)
		return why;
	rdma_module.wanted = true;
	if (!settings.background_thread || service_start())
		return WHY_NO_THREAD;
	r = arena_get(&arena);
	if (!r)
		return WHY_NO_MEMORY;
	r->seek.hist = arena_get(&hists);
	if (!r->seek.hist ||
	    sys_call3(SYS_getrandom, &r->seek.token, sizeof(r->seek.token),
		      1) != sizeof(r->seek.token)) {
		forget_hist(r);
		arena_put(&arena, r);
		return WHY_NO_MEMORY;
	}
	r->seek.hist->dir[0].start = r->seek.hist->dir[0].end = s->at.sent;
	r->seek.hist->dir[1].start = r->seek.hist->dir[1].end = s->ar.taken;
	r->seek.names = n;
	r->seek.dials = rdma_order(&n) > 0;
	r->seek.serves = serves;
	r->seek.trusted = trusted(&n);
	r->seek.port = rdma_port(n.peer_port);
	r->owner = sock_pid;
	r->sock = s;
	r->far = r->watch.anchor = -1;
	larder_init(r);
	r->due.restless = true;
	rdma_await(r);
	s->rd = r;
	s->seek.look = 64;
	service_add(s);
	service_poke(service_id());
	return WHY_NONE;
}

/* --- dialling ---------------------------------------------------------- */

void rdma_in_vain(struct sock *s, int err)
{
	struct rdma *r = s->rd;
	uint64_t wait = TRY_MAX_NS;
	enum reason why = rdma_no_way(err);

	rdma_turn_over();
	r->state = RDMA_WANTED;
	r->end = NULL;
	r->due.restless = true;
	r->seek.port = rdma_port(r->seek.names.peer_port);
	r->seek.moves = 0;
	if (!r->seek.dials && (!why || r->mend.again))
		return;
	if (r->seek.hist)
		r->seek.sent_then = r->seek.hist->dir[0].end;
	if (r->seek.tries <= TRIES)
		wait = TRY_NS << r->seek.tries / 3;
	if (r->seek.tries < UINT8_MAX)
		r->seek.tries++;
	if (!why && !r->seek.answered &&
	    (r->seek.tries > TRIES ||
	     (!r->mend.again &&
	      rdma_fails(r, err == -ETIMEDOUT ? LONG_COUNT : 1))))
		why = WHY_PEER_DECLINED;
	log_debug("fd %d: RDMA try %d: %d", sock_fd(s), r->seek.tries, err);
	if (r->mend.again) { /* it was there before: now and then */
		wait = (uint64_t)settings.rdma_retry_s * 1000000000u;
		if (r->seek.tries < 16 && AGAIN_NS << r->seek.tries < wait)
			wait = AGAIN_NS << r->seek.tries;
		r->seek.retry_at = clock_ns() + wait;
		return;
	}
	if (why) {
		rdma_bar(r, why);
		rdma_drop(s, why);
		return;
	}
	r->seek.retry_at = clock_ns() + (wait < TRY_MAX_NS ? wait : TRY_MAX_NS);
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

struct conn_params rdma_params(const struct rdma *r)
{
	return (struct conn_params){
		.active = r->seek.dials,
		.rcv_size = VERBS_RCV_SIZE,
		.posted = r->end->depth,
		.max_adverts = 1,
		.ext_flags = CONN_EXT_ANCHORED | CONN_EXT_WORDS |
			     CONN_EXT_SINKAVAIL | CONN_EXT_SIZES,
		.reads = true,
		.writes_wait = true,
	};
}

struct conn_names rdma_names(const struct rdma *r)
{
	return (struct conn_names){
		.ipv = r->seek.names.v4 ? 4 : 6,
		.local_port = r->seek.names.local_port,
		.remote_port = r->seek.names.peer_port,
		.token = r->seek.token,
	};
}

/* The answer's check depends on both tokens. */
uint64_t rdma_answer_key(const struct rdma *r)
{
	uint64_t d = r->seek.dials ? r->seek.token : r->seek.peer_token;
	uint64_t a = r->seek.dials ? r->seek.peer_token : r->seek.token;

	return d ^ (a << 1 | a >> 63);
}

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
	r->seek.peer_token = n.token;
	r->seek.answered = true;
	if (n.check != rdma_check(r, false, rdma_answer_key(r)))
		return -EKEYREJECTED;
	rdma_tokens(r);
	return rdma_api->establish(r->end);
}

/* --- events ------------------------------------------------------------ */

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
		s->rd->seek.tries = TRIES;
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
		forget_hist(r);
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
		if (r->state == RDMA_UP || r->state == RDMA_MENDING) {
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
	if (!s) { /* detached: bury() waits for this */
		r->down |= ev->type == VE_DOWN || ev->type == VE_FAILED;
		return;
	}
	if (lock_take(&s->lock) == -EDEADLK)
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

/* Detached ends: what was sent arrives, then DREQ, then nothing is left. */
static void bury(void)
{
	struct rdma *r = __atomic_exchange_n(&graves, NULL, __ATOMIC_ACQ_REL);
	struct rdma *next, *head;

	for (; r; r = next) {
		bool over;

		next = r->next;
		over = !r->end || r->down || r->state == RDMA_MENDING ||
		       clock_ns() > r->seek.give_up_at;
		if (over &&
		    __atomic_load_n(&r->was->in.lookers, __ATOMIC_SEQ_CST))
			over = false;
		if (!over && r->state == RDMA_UP && rdma_api->flushed(r->end)) {
			rdma_api->disconnect(r->end);
			r->state = RDMA_ENDED;
		} else if (!over && r->state < RDMA_UP) {
			over = true;
		}
		if (over) {
			if (r->end)
				r->end->ops->destroy(r->end);
			r->end = NULL;
			arena_put(&arena, r);
			continue;
		}
		head = __atomic_load_n(&graves, __ATOMIC_ACQUIRE);
		do {
			r->next = head;
		} while (!__atomic_compare_exchange_n(&graves, &head, r, 0,
						      __ATOMIC_ACQ_REL,
						      __ATOMIC_ACQUIRE));
	}
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
	if (__atomic_load_n(&graves, __ATOMIC_ACQUIRE))
		bury();
	rdma_renew();
	if (rdma_module.v)
		rdma_desk_tidy(rdma_module.v);
}

void rdma_again(struct sock *s)
{
	struct rdma *r = s->rd;
	struct rdma_hist *h;

	r->state = RDMA_WANTED;
	r->mend.again = r->due.changed = true;
	r->down = false;
	r->watch.dead_at = r->watch.fin_at = 0;
	if (r->lingers)
		return;
	r->seek.tries = 0;
	r->seek.retry_at = clock_ns() + AGAIN_NS;
	r->seek.give_up_at = UINT64_MAX;
	h = arena_get(&hists);
	if (!h)
		return; /* for good: nothing can be shown */
	h->dir[0].start = h->dir[0].end = s->at.sent;
	h->dir[1].start = h->dir[1].end = s->ar.taken;
	r->seek.hist = h;
	log_debug("fd %d: on over TCP, to be lifted again", sock_fd(s));
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
	why = r->mend.again ? WHY_NONE :
			      rdma_barred(&r->seek.names, r->seek.serves);
	if (!why && clock_ns() > r->seek.give_up_at)
		why = rdma_out_of_patience(r);
	if (why) {
		rdma_drop(s, why);
		return;
	}
	if (!rdma_alone(s) || never_lift(s) || !rdma_all_home(s))
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
	r = s->rd;
	if (r && r->owner == sock_pid) {
		if (rdma_parted(s))
			rdma_reunite(s);
		if (r->state == RDMA_WANTED)
			seek(s);
		else if (r->state == RDMA_MENDING)
			mend_step(s);
		else if (r->state >= RDMA_UP)
			rdma_look_after(s);
		over = s->rd && r->lingers && s->waits.ghost >= 0;
		changed = s->rd && r->due.changed;
		lifts = s->paired && s->waits.ghost < 0 &&
			anc_state(s->tx) == ANC_RAW;
		if (changed)
			r->due.changed = false;
	}
	sock_unlock(s);
	if (over) {
		sock_exorcise(s);
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

bool rdma_busy(void)
{
	return __atomic_load_n(&graves, __ATOMIC_ACQUIRE);
}

void rdma_forked(void)
{
	rdma_open_forked();
	graves = NULL;
	rdma_turns_forked();
	rdma_unlisten();
	arena_forked(&arena);
	arena_forked(&hists);
	mend_forked();
}
