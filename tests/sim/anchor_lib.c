/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The library's steps that wake and sleep, and its ring: what ring.c, wait.c
 * and pump.c do around the anchor machine, one shared access at a time.
 */

#define SIM_ATOMS
#include "anchor_home.h"

#define SPILL_TIME 20

/* --- the lock of a sock ------------------------------------------------ */

static bool unlocked(struct sim_thread *t)
{
	return !t->e->locked;
}

/*
 * Where no thread is inside the counts are right: a receive that was left
 * shows.
 */
static void judge_drawn(const struct sim_end *e)
{
	uint32_t drawn = sim.pipe[!e->id].drawn;
	int64_t counted;

	if (sim.killed || e->salvage || e->rx != &sim.page.dir[!e->id] ||
	    e->rx->tcp_rx || e->rx->state >= ANC_BUSY_ONE ||
	    anc_state(e->rx) == ANC_GONE)
		return;
	counted = anc_drawn(e->rx, &e->ar, e->stale);
	if (!e->rx->tcp_rx && drawn == sim.pipe[!e->id].drawn &&
	    counted != drawn)
		sim_fault("what was drawn is not what was counted");
}

void lib_lock(struct sim_end *e)
{
	sim_step();
	while (e->locked)
		sim_block(unlocked, SIM_NEVER, SLEEP_LOCK);
	e->locked = true;
	judge_drawn(e);
}

void lib_unlock(struct sim_end *e)
{
	judge_drawn(e);
	e->locked = false;
	sim_step();
}

/* --- kicks and wake-up bytes ------------------------------------------- */

static void wake_peer(struct sim_end *e)
{
	if (!e->closed && k_wake_send(e))
		__atomic_add_fetch(&e->own->rung, 1, __ATOMIC_RELEASE);
}

/* The control looks first: between the two R may find nothing put. */
bool lib_put_begin(struct sim_end *e)
{
	enum anc_state st = anc_state(e->tx);

	if (sim_on(RULE_PUT))
		anc_put_begin(e->tx);
	if (sim_on(RULE_PUT_FIRST))
		st = anc_state(e->tx);
	return st == ANC_LIFTED || st == ANC_SWITCHING;
}

void lib_put_end(struct sim_end *e)
{
	anc_put_end(e->tx);
}

bool lib_kick(struct sim_end *e)
{
	bool ok;

	if (sim_on(RULE_PUT_KICK))
		anc_put_begin(e->tx);
	ok = !sim_on(RULE_AHEAD) || anc_may_kick(e->tx, &e->at);
	if (ok) {
		anc_kick(e->tx, &e->at);
		if (k_kick(e) != 1)
			__atomic_store_n(&e->tx->kicks, --e->at.kicks,
					 __ATOMIC_SEQ_CST);
	}
	lib_put_end(e);
	return ok;
}

void lib_ring_reader(struct sim_end *e)
{
	uint32_t who = anc_ring(e->tx);

	if (who & ANC_WAKE)
		wake_peer(e);
	/* under the lock a kick may still come before the answer to RECALLED */
	if (who & ANC_ANCHOR)
		lib_kick(e);
}

void lib_ring_writer(struct sim_end *e)
{
	if (__atomic_load_n(&e->rx->wait, __ATOMIC_RELAXED) &&
	    __atomic_exchange_n(&e->rx->wait, 0, __ATOMIC_SEQ_CST))
		wake_peer(e);
}

/* After a change of state; one that asked for a kick still wants it. */
void lib_note(struct sim_end *e)
{
	uint32_t who = __atomic_exchange_n(&e->tx->armed, 0, __ATOMIC_SEQ_CST);

	if (sim_on(RULE_CHAIN) && (who & ANC_ANCHOR))
		anc_arm(e->tx, ANC_ANCHOR);
	wake_peer(e);
}

void lib_service(struct sim_end *e)
{
	sim_step();
	sim_peer(e)->poked = true;
}

uint32_t lib_mark(struct sim_end *e)
{
	return __atomic_load_n(&e->peer->rung, __ATOMIC_ACQUIRE);
}

/*
 * A byte that did not fit (wake_peer) may have been rung after our last look:
 * of a full pile one byte stays, and we look again.
 */
void lib_eat(struct sim_end *e, uint32_t mark)
{
	if (sim_on(RULE_FULL) && mark - e->rung_eaten == sim.plan.wake_cap)
		mark--;
	while ((int32_t)(mark - e->rung_eaten) > 0) {
		int n = k_wake_eat(e, mark - e->rung_eaten);

		if (n <= 0) {
			e->rung_eaten = mark;
			break;
		}
		e->rung_eaten += (uint32_t)n;
	}
}

/* --- counts ------------------------------------------------------------ */

/* The control: one store, which another thread's higher count may precede. */
static void publish_once(uint64_t *word, uint64_t *own, uint32_t n)
{
	uint64_t count = __atomic_add_fetch(own, n, __ATOMIC_SEQ_CST);

	__atomic_store_n(word, count, __ATOMIC_SEQ_CST);
}

void lib_taken(struct sim_end *e, uint32_t n)
{
	if (sim_on(RULE_UPWARDS))
		anc_taken(e->rx, &e->ar, n);
	else
		publish_once(&e->rx->taken, &e->ar.taken, n);
}

void lib_sent(struct sim_end *e, uint32_t n)
{
	if (sim_on(RULE_UPWARDS))
		anc_sent(e->tx, &e->at, n);
	else
		publish_once(&e->tx->sent, &e->at.sent, n);
}

/* --- kicks on the anchor ----------------------------------------------- */

/* Takes what must be kicks. */
static int sink(struct sim_end *e, uint64_t n)
{
	struct sim_item it[SIM_PIPE];
	int got, i;

	got = k_recv(e, it, n < SIM_PIPE ? (uint32_t)n : SIM_PIPE, K_DONTWAIT);
	for (i = 0; i < got; i++)
		if (!it[i].kick)
			sim_fault("stream byte taken for a kick");
	if (got > 0)
		e->ar.kicks += (uint64_t)got;
	return got;
}

static void some_kicks(struct sim_end *e)
{
	int64_t n = anc_kicks(e->rx, &e->ar);

	if (n < 0)
		sim_fault("kicks are wrong");
	while (n > 0) {
		int got = sink(e, (uint64_t)n);

		if (got <= 0)
			break;
		n -= got;
	}
}

void lib_ring_kicks(struct sim_end *e)
{
	if (!anc_kicks(e->rx, &e->ar))
		return;
	if (sim_on(RULE_KICKS) &&
	    (__atomic_load_n(&e->rx->tcp_rx, __ATOMIC_SEQ_CST) ||
	     __atomic_load_n(&e->asleep_anchor, __ATOMIC_SEQ_CST)))
		return;
	/*
	 * While we are counted W cannot stall, so that a kick which failed and
	 * is taken back from the count is not made up for by a stream byte.
	 */
	__atomic_add_fetch(&e->rx->tcp_rx, 1, __ATOMIC_SEQ_CST);
	if (anc_state(e->rx) == ANC_LIFTED)
		some_kicks(e);
	anc_tcp_leave(e->rx);
}

/* Exactly n kicks lie on the anchor, or are about to. */
int lib_take_kicks(struct sim_end *e, uint64_t n)
{
	int got = sink(e, n);

	if (got == 0 || got == -ECONNRESET) {
		e->ar.kicks += n; /* W died in between */
		return 0;
	}
	return got > 0 ? 0 : got;
}

/* --- the ring ---------------------------------------------------------- */

bool lib_pending(struct sim_end *e)
{
	sim_step();
	return e->parsed != sim.ring[!e->id].pushed;
}

static struct sim_msg *slot(struct sim_ring *r, uint32_t at)
{
	return &r->m[at % r->depth];
}

static void release(struct sim_end *e)
{
	e->front++;
	e->front_at = 0;
	e->owed++;
}

/* What was written back to the anchor is not read from the ring again. */
static void drop_stale(struct sim_end *e)
{
	struct sim_ring *r = &sim.ring[!e->id];

	if (!sim_on(RULE_STALE))
		e->stale = false;
	if (!e->stale || anc_state(e->rx) == ANC_RESTORING)
		return;
	keep_drop(e);
	while (e->front != e->stale_to) {
		e->rx_avail -= slot(r, e->front)->len - e->front_at;
		release(e);
	}
	sim_step();
	r->freed += e->owed;
	e->owed = 0;
	e->stale = false;
	lib_ring_writer(e);
}

void lib_poll(struct sim_end *e)
{
	struct sim_ring *r = &sim.ring[!e->id];

	drop_stale(e);
	sim_step();
	while (e->parsed != r->pushed) {
		struct sim_msg *m = slot(r, e->parsed++);

		e->rx_avail += m->len;
		if (m->eof)
			e->rx_eof = true;
	}
	while (!e->rx_avail && e->front != e->parsed)
		release(e);
}

bool lib_room(struct sim_end *e)
{
	struct sim_ring *r = &sim.ring[e->id];

	sim_step();
	return r->pushed - r->freed < r->depth - 1;
}

/* One message of the next n stream bytes, or the end of them. */
uint32_t lib_push(struct sim_end *e, uint32_t n, bool eof)
{
	struct sim_truth *d = &sim.truth[e->id];
	struct sim_ring *r = &sim.ring[e->id];
	struct sim_msg *m;

	sim_step();
	/* the last slot is the lane: control messages always find room */
	if (r->pushed - r->freed >= (eof ? r->depth : r->depth - 1))
		return 0;
	if (n > sim.plan.msg_max)
		n = sim.plan.msg_max;
	m = slot(r, r->pushed);
	m->off = d->wrote;
	m->len = n;
	m->eof = eof;
	sim_step();
	d->wrote += n;
	r->pushed++;
	return n;
}

/* Up to n bytes of what was parsed; counts and releases unless peek. */
uint32_t lib_pop(struct sim_end *e, struct sim_item *to, uint32_t n, bool peek)
{
	uint32_t at = e->front, in = e->front_at, got = 0, i;
	struct sim_truth *d = &sim.truth[!e->id];
	struct sim_ring *r = &sim.ring[!e->id];

	while (got < n && at != e->parsed) {
		struct sim_msg *m = slot(r, at);

		if (in == m->len) {
			at++;
			in = 0;
			continue;
		}
		to[got].kick = false;
		to[got++].off = m->off + in++;
	}
	if (peek || !got)
		return got;
	for (i = 0; i < got; i++) {
		if (to[i].off != d->expect)
			sim_fault(to[i].off < d->expect ?
					  "byte repeated from the ring" :
					  "bytes reordered by the ring");
		d->expect++;
	}
	e->rx_avail -= got;
	while (e->front != at)
		release(e);
	e->front_at = in;
	if (in == slot(r, at)->len && at != e->parsed)
		release(e);
	lib_taken(e, got);
	if (e->owed && (__atomic_load_n(&e->rx->wait, __ATOMIC_RELAXED) ||
			!e->rx_avail || e->owed * 4 > r->depth)) {
		r->freed += e->owed;
		e->owed = 0;
	}
	lib_ring_writer(e);
	return got;
}

/* --- waiting ----------------------------------------------------------- */

void lib_peer_gone(struct sim_end *e)
{
	if (!e->peer_gone)
		lib_poll(e);
	e->peer_gone = true;
}

/* `count`: of this kind of sleepers. */
static void sleep_locked(struct sim_end *e, uint32_t *count, uint64_t until,
			 enum sim_sleep why)
{
	int ret;

	*count += 1;
	lib_unlock(e);
	ret = k_wake_sleep(e, until, why);
	*count -= 1;
	lib_lock(e);
	if (!ret)
		lib_peer_gone(e);
}

static void nap_locked(struct sim_end *e)
{
	lib_unlock(e);
	k_nap(1);
	lib_lock(e);
}

/* `was`: the state in which the ring was found empty. */
void lib_wait_rx(struct sim_end *e, enum anc_state was)
{
	enum anc_state st;
	uint32_t mark;

	if (!sim_on(RULE_SEEN))
		was = anc_state(e->rx);
	if (e->peer_gone)
		return;
	mark = lib_mark(e);
	if (!sim_on(RULE_EAT_LAST))
		lib_eat(e, mark);
	anc_arm(e->rx, ANC_WAKE);
	if (lib_pending(e))
		return;
	st = anc_state(e->rx);
	if (st != was)
		return;
	if (sim_on(RULE_SEEN) && st != ANC_LIFTED) {
		/* fallback is our own end's move: nothing rings for it */
		nap_locked(e);
		return;
	}
	if (e->writers && sim_on(RULE_OTHERS))
		__atomic_store_n(&e->tx->wait, 1, __ATOMIC_SEQ_CST);
	if (!(e->writers && lib_room(e)))
		lib_eat(e, mark);
	sleep_locked(e, &e->sleepers, SIM_NEVER, SLEEP_DATA);
}

/*
 * Nothing else of this end needs the byte. Pollers listen to the anchor too;
 * readers asleep on the wake-up socket learn by the byte alone that the ring
 * is not where to wait any more.
 */
bool lib_may_eat(struct sim_end *e)
{
	bool readers = e->sleepers;

	if (!readers && !e->watched)
		return true;
	anc_arm(e->rx, ANC_WAKE);
	if (lib_pending(e) || e->rx_avail || e->rx_eof)
		return false;
	return !readers || anc_state(e->rx) == ANC_LIFTED;
}

int lib_wait_tx(struct sim_end *e)
{
	enum anc_state st = anc_state(e->tx);
	uint32_t mark = lib_mark(e);
	uint64_t limit, taken;

	__atomic_store_n(&e->tx->wait, 1, __ATOMIC_SEQ_CST);
	lib_poll(e);
	if (e->peer_gone || anc_state(e->tx) != st)
		return 0;
	if (st != ANC_LIFTED && st != ANC_SWITCHING) {
		nap_locked(e);
		return 0;
	}
	if (lib_room(e))
		return 0;
	taken = __atomic_load_n(&e->tx->taken, __ATOMIC_ACQUIRE);
	if (!e->full || taken != e->taken_seen) {
		e->full = true;
		e->full_since = sim.now;
		e->taken_seen = taken;
	}
	limit = e->full_since + SPILL_TIME;
	if (!sim.plan.stalls)
		limit = sim.now + SPILL_TIME;
	if (sim.now >= limit) {
		if (!lib_spill(e, false))
			return 0;
		limit = sim.now + 1;
	}
	if (sim_on(RULE_OTHERS) ? lib_may_eat(e) :
				  !(e->sleepers || e->writers) || !e->rx_avail)
		lib_eat(e, mark);
	sleep_locked(e, &e->writers, limit, SLEEP_LIB);
	return 0;
}
