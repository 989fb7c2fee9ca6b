/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finding the other end over RDMA: candidates and connection management. But
 * for rdma_begin(), rdma_drop() and rdma_detach() all is the service thread's.
 */

#include "base/arena.h"
#include "config/lists.h"
#include "sdp_proto/wire.h"
#include "socket/peer/peer.h"

#define TRY_NS	   20000000ull /* and doubled each third time, */
#define TRY_MAX_NS 2000000000ull /* up to this */
#define AGAIN_NS   500000000ull /* after a break */
#define LONG_NS	   5000000000ull /* without an answer */
#define LONG_COUNT 8 /* as good as so many tries */

static struct arena arena = ARENA_INIT(sizeof(struct rdma));
static struct arena hists = ARENA_INIT(sizeof(struct rdma_hist));

static struct rdma *graves; /* detached, atomic list */

/* --- life of a candidate ----------------------------------------------- */

void rdma_forget_hist(struct rdma *r)
{
	if (r->seek.hist)
		arena_put(&hists, r->seek.hist);
	r->seek.hist = NULL;
}

/* A connection that ends meanwhile would have learned it, perhaps. */
static void unanswered(struct rdma *r)
{
	bool slow = clock_ns() > r->seek.retry_at + LONG_NS;

	if (r->seek.dials && r->state == RDMA_DIALING && !r->failover.again &&
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
	reports.zc_over(s);
	reports.zc_sink_over(s);
	s->rd = NULL;
	s->end = &rdma_nowhere;
	s->end_pid = 0;
	/* last: without it a look is not counted, and the end goes some time */
	__atomic_store_n(&s->link, NULL, __ATOMIC_RELEASE);
	if (r->owner != sock_pid)
		return; /* its owner's, and it will find out */
	unanswered(r);
	rdma_turn_left(r);
	rdma_forget_hist(r);
	failover_drop(r);
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
	/*
	 * before the first byte there is no proof: what a rule forbids to send
	 */
	if (s->id.use == USE_SDP && !s->id.native && !trusted(&n))
		return WHY_UNVERIFIED;
	serves = rdma_order(&n) > 0 && s->id.role == ROLE_ACCEPTED;
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
		rdma_forget_hist(r);
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
	bytebuf_init(r);
	r->due.restless = true;
	rdma_await(r);
	s->rd = r;
	__atomic_store_n(&s->link, &rdma_link, __ATOMIC_RELEASE);
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
	if (!r->seek.dials && (!why || r->failover.again))
		return;
	if (r->seek.hist)
		r->seek.sent_then = r->seek.hist->dir[0].end;
	if (r->seek.tries <= RDMA_TRIES)
		wait = TRY_NS << r->seek.tries / 3;
	if (r->seek.tries < UINT8_MAX)
		r->seek.tries++;
	if (!why && !r->seek.answered &&
	    (r->seek.tries > RDMA_TRIES ||
	     (!r->failover.again &&
	      rdma_fails(r, err == -ETIMEDOUT ? LONG_COUNT : 1))))
		why = WHY_PEER_DECLINED;
	log_debug("fd %d: RDMA try %d: %d", sock_fd(s), r->seek.tries, err);
	if (r->failover.again) { /* it was there before: now and then */
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

struct conn_params rdma_params(const struct rdma *r)
{
	return (struct conn_params){
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

/* --- events ------------------------------------------------------------ */

void rdma_again(struct sock *s)
{
	struct rdma *r = s->rd;
	struct rdma_hist *h;

	r->state = RDMA_WANTED;
	r->failover.again = r->due.changed = true;
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

bool rdma_busy(void)
{
	return __atomic_load_n(&graves, __ATOMIC_ACQUIRE);
}

void rdma_forked(void)
{
	graves = NULL;
	rdma_turns_forked();
	rdma_unlisten();
	arena_forked(&arena);
	arena_forked(&hists);
	failover_forked();
}

/* Detached ends: what was sent arrives, then DREQ, then nothing is left. */
void rdma_bury(void)
{
	struct rdma *r = __atomic_exchange_n(&graves, NULL, __ATOMIC_ACQ_REL);
	struct rdma *next, *head;

	for (; r; r = next) {
		bool over;

		next = r->next;
		over = !r->end || r->down || r->state == RDMA_FAILOVER ||
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
