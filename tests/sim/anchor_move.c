/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The library's steps that move bytes: receive and send over anchor and ring,
 * lift and stall, half-close and close.
 */

#define SIM_ATOMS
#include "anchor_home.h"

/* --- receive ----------------------------------------------------------- */

static bool all_kicks(const struct sim_item *it, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (!it[i].kick)
			return false;
	return true;
}

/* Others still sleep where this kick was: they need one of their own. */
static void pass_kick_on(struct sim_end *e, struct anc_dir *d)
{
	if (!sim_on(RULE_CHAIN))
		return;
	if (!__atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST) &&
	    !__atomic_load_n(&e->asleep_anchor, __ATOMIC_SEQ_CST))
		return;
	anc_arm(d, ANC_ANCHOR);
	lib_service(e);
}

/* The last byte in front of the ring was taken: W may ring for the others. */
void home_passed(struct sim_end *e, struct anc_dir *d)
{
	if (!sim_on(RULE_PASSED))
		return;
	anc_arm(d, ANC_ANCHOR);
	lib_service(e);
}

/* *lifted: go on in the ring; else the answer is the kernel's. */
static int tcp_recv(struct sim_end *e, struct sim_item *to, uint32_t n,
		    int flags, bool *lifted)
{
	struct anc_dir *d = e->rx;
	int k = 0, got;

	*lifted = true;
	if (e->salvage || !anc_tcp_enter(d, &e->ar))
		return 0;
	if (flags & M_PEEK)
		k |= K_PEEK;
	if (flags & M_DONTWAIT)
		k |= K_DONTWAIT;
	got = k_recv(e, to, n, k);
	if (!anc_tcp_stream(d, &e->ar)) {
		if (got > 0 && !(flags & M_PEEK)) {
			if (!all_kicks(to, got))
				sim_fault("stream byte dropped as a kick");
			__atomic_add_fetch(&e->ar.kicks, (uint64_t)got,
					   __ATOMIC_RELAXED);
			anc_tcp_leave(d);
			pass_kick_on(e, d);
			return 0;
		}
		anc_tcp_leave(d);
		return got;
	}
	/* W died while it wrote back: the rest was kept */
	if (anc_state(d) == ANC_RESTORING && sim_on(RULE_SALVAGE) && e->stale &&
	    (got == 0 || got == -ECONNRESET))
		e->salvage = true;
	*lifted = e->salvage && got <= 0;
	if (got > 0 && !(flags & M_PEEK)) {
		lib_taken(e, (uint32_t)got);
		if (anc_passed(d, &e->ar))
			home_passed(e, d);
		lib_ring_writer(e);
	}
	anc_tcp_leave(d);
	return got;
}

/*
 * Lock held, ring empty, and nothing will fill it. W may have died in the
 * middle of a stall, with bytes on the anchor already.
 */
static int peer_gone_recv(struct sim_end *e, bool *tcp)
{
	if (e->at.sent > e->tx->taken &&
	    sim.pipe[!e->id].n <= (uint64_t)anc_kicks(e->rx, &e->ar))
		return -ECONNRESET;
	home_unpaired(e);
	*tcp = true;
	return 0;
}

/* Lock held. Where to go on, as ANC_AT_*; -EAGAIN: look again. */
static int next_at(struct sim_end *e, uint64_t *lim)
{
	enum anc_state st = anc_state(e->rx);
	int where;

	*lim = 0;
	if ((st == ANC_PAUSED || st == ANC_RECALLED) && sim_on(RULE_ALONE) &&
	    !e->falling_back && !e->peer_gone && fallback_rx(e) != -EAGAIN)
		return -EAGAIN;
	st = anc_state(e->rx);
	where = anc_where(e->rx, &e->ar, lim);
	switch (where) {
	case ANC_AT_ANCHOR:
		if (st == ANC_DRAINING)
			lib_service(e); /* its FIN may wait for this */
		return where;
	case ANC_AT_KICKS:
		if (home_kicks(e, *lim))
			home_nap(e);
		return -EAGAIN;
	case ANC_AT_RING:
	case ANC_AT_QUEUE:
		return where;
	default:
		sim_fault("anc_where refuses");
		return ANC_AT_ANCHOR;
	}
}

/* Taken to the last byte, with the end seen: W waits for that word. */
static void eof_seen(struct sim_end *e)
{
	if (e->rx_eof && !e->rx_avail && !e->fin_told) {
		e->fin_told = true;
		lib_service(e);
	}
}

static int ring_recv(struct sim_end *e, struct sim_item *to, uint32_t n,
		     int flags, bool *tcp)
{
	bool peek = flags & M_PEEK;
	enum anc_state st;
	uint64_t lim;
	uint32_t got;
	int where;

	for (;;) {
		lib_serve(e);
		if (e->salvage &&
		    __atomic_load_n(&e->rx->tcp_rx, __ATOMIC_SEQ_CST)) {
			home_nap(e); /* what it took is not counted yet */
			continue;
		}
		if (e->salvage)
			return keep_salvage(e, to, n, peek);
		st = anc_state(e->rx);
		where = next_at(e, &lim);
		*tcp = where == ANC_AT_ANCHOR;
		if (*tcp)
			return 0;
		lib_poll(e); /* drops what came back by the anchor */
		if (where == ANC_AT_QUEUE) {
			int k = keep_queue(e, to, n, lim, peek);

			if (k != -EAGAIN || (flags & M_DONTWAIT))
				return k;
			home_nap(e);
		}
		if (where != ANC_AT_RING)
			continue;
		got = lib_pop(e, to, lim < n ? (uint32_t)lim : n, peek);
		eof_seen(e);
		if (got)
			return (int)got;
		if (e->rx_eof)
			return 0;
		if (e->peer_gone)
			return peer_gone_recv(e, tcp);
		lib_ring_kicks(e);
		if (!(flags & M_DONTWAIT)) {
			lib_wait_rx(e, st);
			continue;
		}
		if (e->sleepers || e->watched) {
			anc_arm(e->rx, ANC_WAKE);
			if (lib_pending(e) || anc_state(e->rx) != st)
				continue;
		}
		return -EAGAIN;
	}
}

int lib_recv(struct sim_end *e, struct sim_item *to, uint32_t n, int flags)
{
	uint32_t done = 0;
	bool lifted, tcp;
	int got;

	for (;;) {
		tcp = false;
		got = tcp_recv(e, to + done, n - done, flags, &lifted);
		if (lifted) {
			lib_lock(e);
			got = ring_recv(e, to + done, n - done, flags, &tcp);
			lib_unlock(e);
			if (tcp)
				continue;
		}
		if (got <= 0)
			return done ? (int)done : got;
		done += (uint32_t)got;
		if (!(flags & M_ALL) || done == n)
			return (int)done;
	}
}

/* --- poll() ------------------------------------------------------------ */

/* 1 ready, 0 not, -EAGAIN: look again soon. */
static int look(struct sim_end *e)
{
	uint64_t lim;
	int ret = 0;

	lib_lock(e);
	lib_serve(e);
	if (e->salvage) {
		ret = 1;
		goto out;
	}
	switch (next_at(e, &lim)) {
	case ANC_AT_ANCHOR:
		sim_step();
		ret = k_readable(e);
		break;
	case ANC_AT_QUEUE:
		lib_poll(e);
		ret = e->ar.kept || k_readable(e) ? 1 : -EAGAIN;
		break;
	case ANC_AT_RING:
		lib_poll(e);
		if (e->rx_avail || e->rx_eof)
			ret = 1;
		else if (e->peer_gone)
			ret = k_readable(e);
		else
			lib_ring_kicks(e);
		break;
	default:
		ret = -EAGAIN;
		break;
	}
out:
	lib_unlock(e);
	return ret;
}

static bool rung(struct sim_thread *t)
{
	return t->e->wake || k_readable(t->e) ||
	       (t->e->hup && !t->e->peer_gone);
}

void lib_poll_in(struct sim_end *e)
{
	int found, strikes = 0;

	for (;;) {
		found = look(e);
		if (found > 0)
			return;
		__atomic_add_fetch(&e->watched, 1, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&e->asleep_anchor, 1, __ATOMIC_SEQ_CST);
		anc_arm(e->rx, ANC_WAKE);
		found = look(e);
		if (!found && strikes++ < 3)
			sim_block(rung, SIM_NEVER, SLEEP_DATA);
		else if (found <= 0)
			k_nap(1); /* woken for others only, or no kick yet */
		strikes %= 4;
		__atomic_sub_fetch(&e->watched, 1, __ATOMIC_SEQ_CST);
		__atomic_sub_fetch(&e->asleep_anchor, 1, __ATOMIC_SEQ_CST);
		if (found > 0)
			return;
		if (e->wake)
			home_rang(e);
		lib_lock(e);
		if (e->hup)
			lib_peer_gone(e);
		lib_unlock(e);
	}
}

/* --- lift and stall ---------------------------------------------------- */

static int do_switch(struct sim_end *e)
{
	uint32_t tcp = ANC_TCP;

	if (sim_on(RULE_DRAINED))
		return anc_switch(e->tx, &e->at, sim.plan.ahead);
	e->at.x = e->tx->x = e->at.sent;
	e->at.y = e->tx->y = ANC_OPEN;
	return __atomic_compare_exchange_n(&e->tx->state, &tcp, ANC_LIFTED, 0,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED) ?
		       0 :
		       -EBUSY;
}

static void first_kick(struct sim_end *e)
{
	anc_kick(e->tx, &e->at);
	if (k_kick(e) != 1)
		__atomic_store_n(&e->tx->kicks, --e->at.kicks,
				 __ATOMIC_SEQ_CST);
}

/* Lock held. */
static void switch_tx(struct sim_end *e)
{
	int ret = -EBUSY;

	if (e->peer_gone || e->pinned || e->shut_wr ||
	    __atomic_load_n(&e->tx->state, __ATOMIC_ACQUIRE) != ANC_TCP)
		return;
	if (sim_on(RULE_PUT_KICK))
		anc_put_begin(e->tx);
	__atomic_store_n(&e->switching, true, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&e->tcp_tx, __ATOMIC_SEQ_CST))
		ret = do_switch(e);
	__atomic_store_n(&e->switching, false, __ATOMIC_SEQ_CST);
	if (!ret || (ret > 0 && !sim_on(RULE_AHEAD)))
		first_kick(e);
	lib_put_end(e);
	if (ret < 0)
		return;
	lib_note(e);
	e->full = false;
	sim.lifts++;
	sim.rises += ret > 0;
}

int lib_spill(struct sim_end *e, bool fin)
{
	int ret = anc_stall(e->tx, &e->at, fin || !sim_on(RULE_TCP_RX));

	if (ret)
		return ret;
	e->full = false;
	lib_note(e);
	sim.stalled++;
	return 0;
}

/* --- send -------------------------------------------------------------- */

static void try_lift(struct sim_end *e)
{
	if (anc_state(e->tx) != ANC_TCP || e->pinned || e->peer_gone ||
	    e->at.sent < sim.plan.lift_at[e->id])
		return;
	if (sim_on(RULE_DRAINED) && !sim.plan.ahead &&
	    e->at.sent != e->tx->taken)
		return;
	if (e->locked)
		return;
	lib_lock(e);
	switch_tx(e);
	lib_unlock(e);
}

static bool tcp_tx_enter(struct sim_end *e)
{
	__atomic_add_fetch(&e->tcp_tx, 1, __ATOMIC_SEQ_CST);
	/* the flag before the state: see switch_tx() */
	if (!sim_on(RULE_TCP_TX) ||
	    !__atomic_load_n(&e->switching, __ATOMIC_SEQ_CST))
		switch (anc_state(e->tx)) {
		case ANC_TCP:
		case ANC_DRAINING:
		case ANC_GONE:
			return true;
		default:
			break;
		}
	__atomic_sub_fetch(&e->tcp_tx, 1, __ATOMIC_SEQ_CST);
	return false;
}

/* Lock held. */
static int ring_send(struct sim_end *e, uint32_t n, bool nonblock, bool *tcp)
{
	uint32_t put;

	for (;;) {
		lib_serve(e);
		switch (anc_state(e->tx)) {
		case ANC_TCP:
		case ANC_DRAINING:
		case ANC_GONE:
			*tcp = true;
			return 0;
		case ANC_SWITCHING:
		case ANC_LIFTED:
			break;
		default:
			if (e->peer_gone && sim_on(RULE_WIDOW)) {
				e->tx = &e->local[0];
				continue;
			}
			if (nonblock)
				return -EAGAIN;
			lib_wait_tx(e);
			continue;
		}
		if (e->peer_gone) {
			lib_spill(e, true);
			*tcp = true;
			return 0;
		}
		put = lib_put_begin(e) ? lib_push(e, n, false) : 0;
		if (put)
			lib_sent(e, put);
		lib_put_end(e);
		if (put) {
			e->full = false;
			lib_ring_reader(e);
			return (int)put;
		}
		lib_poll(e);
		if (lib_room(e))
			continue;
		if (nonblock)
			return -EAGAIN;
		lib_wait_tx(e);
	}
}

int lib_send(struct sim_end *e, uint32_t n, bool nonblock)
{
	uint32_t done = 0;
	bool tcp;
	int put;

	while (done < n) {
		try_lift(e);
		if (tcp_tx_enter(e)) {
			put = k_stream(e, n - done, nonblock ? K_DONTWAIT : 0);
			if (put > 0)
				lib_sent(e, (uint32_t)put);
			__atomic_sub_fetch(&e->tcp_tx, 1, __ATOMIC_SEQ_CST);
		} else {
			tcp = false;
			lib_lock(e);
			put = ring_send(e, n - done, nonblock, &tcp);
			lib_unlock(e);
			if (tcp)
				continue;
		}
		if (put <= 0)
			return done ? (int)done : put;
		done += (uint32_t)put;
		if (nonblock)
			break;
	}
	return (int)done;
}

/* --- the end of a stream ----------------------------------------------- */

/* Lock held. True: the FIN is taken care of. */
static bool last_byte(struct sim_end *e)
{
	lib_serve(e);
	switch (anc_state(e->tx)) {
	case ANC_SWITCHING:
	case ANC_LIFTED:
		lib_push(e, 0, true);
		break;
	case ANC_DRAINING:
	case ANC_TCP:
	case ANC_GONE:
		break;
	default:
		if (!e->peer_gone && sim_on(RULE_SHUT))
			return false;
		break;
	}
	e->shut_wr = e->fin_due = true;
	lib_serve(e);
	return true;
}

void lib_shutdown(struct sim_end *e)
{
	lib_lock(e);
	while (!last_byte(e))
		lib_wait_tx(e);
	lib_unlock(e);
}

void lib_close(struct sim_end *e)
{
	enum anc_state st;

	lib_lock(e);
	lib_poll(e);
	if (anc_state(e->rx) == ANC_LIFTED)
		lib_ring_kicks(e);
	do {
		if (sim_on(RULE_SALVAGE))
			lib_serve(e);
		st = anc_state(e->tx);
		if ((st == ANC_LIFTED || st == ANC_SWITCHING) && !e->fin_due)
			lib_push(e, 0, true);
		if (st == ANC_LIFTED)
			lib_spill(e, true);
	} while (sim_on(RULE_SHUT) && st != anc_state(e->tx) &&
		 anc_state(e->tx) == ANC_RECALLED);
	anc_gone(e->rx);
	lib_note(e);
	e->left = true;
	if (e->rx_avail || e->ar.kept)
		sim.pipe[e->id].rst = true;
	lib_unlock(e);
	k_close(e);
}
