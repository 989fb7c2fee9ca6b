/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The library's way home: both ends' parts of fallback.c. */

#define SIM_ATOMS
#include "anchor_home.h"

#define HOME_TIME 100

/* --- writer's part ----------------------------------------------------- */

/* Our FIN, when nothing can ask us for bytes any more. */
static void finish(struct sim_end *e)
{
	switch (anc_state(e->tx)) {
	case ANC_SWITCHING:
	case ANC_LIFTED:
		if (!e->peer_gone &&
		    e->at.sent !=
			    __atomic_load_n(&e->tx->taken, __ATOMIC_ACQUIRE))
			return;
		anc_risen(e->tx, &e->at);
		if (anc_stall(e->tx, &e->at, true))
			return;
		lib_note(e);
		break;
	case ANC_DRAINING:
		if (!e->peer_gone && sim_on(RULE_DUE) &&
		    __atomic_load_n(&e->tx->taken, __ATOMIC_ACQUIRE) < e->at.y)
			return;
		break;
	case ANC_RECALLED:
	case ANC_PAUSED:
	case ANC_RESTORING:
		if (!e->peer_gone && sim_on(RULE_SHUT))
			return;
		break;
	default:
		break;
	}
	e->fin_due = false;
	k_shutdown(e);
}

static void answer(struct sim_end *e)
{
	/* after the answer no kick may come: those inside need it */
	if (sim_on(RULE_CHAIN) &&
	    __atomic_load_n(&e->tx->tcp_rx, __ATOMIC_SEQ_CST)) {
		if (anc_may_kick(e->tx, &e->at) &&
		    (__atomic_exchange_n(&e->tx->armed, 0, __ATOMIC_SEQ_CST) &
		     ANC_ANCHOR))
			lib_kick(e);
		lib_note(e);
		return;
	}
	if (sim_on(RULE_INSIDE) &&
	    __atomic_load_n(&e->tcp_tx, __ATOMIC_SEQ_CST))
		return;
	if (anc_answer(e->tx, &e->at))
		return;
	e->resume_at = 0;
	lib_note(e);
}

void lib_serve(struct sim_end *e)
{
	if (anc_state(e->tx) == ANC_RECALLED)
		answer(e);
	if (anc_state(e->tx) == ANC_RESTORING)
		keep_put_back(e);
	if (e->fin_due)
		finish(e);
}

/* --- reader's part ----------------------------------------------------- */

void home_nap(struct sim_end *e)
{
	lib_unlock(e);
	k_nap(1);
	lib_lock(e);
}

/* As shipped: the caller itself is not counted as watching any more. */
static bool old_may_eat(struct sim_end *e)
{
	if (e->watched <= 1 && !e->sleepers && !e->writers)
		return true;
	anc_arm(e->rx, ANC_WAKE);
	return !lib_pending(e) && anc_state(e->rx) == ANC_LIFTED &&
	       !e->rx_avail;
}

void home_rang(struct sim_end *e)
{
	uint32_t mark;

	lib_lock(e);
	mark = lib_mark(e);
	if ((sim_on(RULE_OTHERS) ? lib_may_eat(e) : old_may_eat(e)) &&
	    !(e->writers && lib_room(e)))
		lib_eat(e, mark);
	lib_unlock(e);
}

void home_unpaired(struct sim_end *e)
{
	int64_t n;

	while ((n = anc_kicks(e->rx, &e->ar)) > 0)
		if (lib_take_kicks(e, (uint64_t)n))
			break;
	e->pinned++; /* for good */
	e->local[1].taken = e->ar.taken;
	e->tx = &e->local[0];
	e->rx = &e->local[1];
}

/*
 * A receive that is still inside may hold a kick it has not counted yet: the
 * kicks are counted only after it was seen out.
 */
int home_kicks(struct sim_end *e, uint64_t was)
{
	int64_t n = (int64_t)was;

	if (sim_on(RULE_FIN)) {
		if (__atomic_load_n(&e->rx->tcp_rx, __ATOMIC_SEQ_CST))
			return -EAGAIN;
		n = anc_kicks(e->rx, &e->ar);
	}
	return n > 0 ? lib_take_kicks(e, (uint64_t)n) : 0;
}

/* The control: R goes to TCP as soon as it sees nothing on the way. */
static int rush_home(struct sim_end *e)
{
	uint32_t old = ANC_LIFTED;

	lib_poll(e);
	if (e->rx_avail)
		return -EBUSY;
	home_kicks(e, (uint64_t)anc_kicks(e->rx, &e->ar));
	__atomic_compare_exchange_n(&e->rx->state, &old, ANC_TCP, 0,
				    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	return 0;
}

/* `told`: W knows that it is PAUSED, and waits. */
static int paused(struct sim_end *e, bool told)
{
	int ret;

	if (__atomic_load_n(&e->rx->tcp_rx, __ATOMIC_SEQ_CST) ||
	    (sim_on(RULE_PUT_OVER) &&
	     __atomic_load_n(&e->rx->putting, __ATOMIC_SEQ_CST)))
		return -EAGAIN;
	lib_poll(e);
	if (!keep_pull(e))
		return -EAGAIN;
	e->stale = e->rx_avail || e->ar.kept;
	e->stale_to = e->parsed;
	ret = anc_fall_back(e->rx, &e->ar, e->kept_at) ? 0 : -EAGAIN;
	if (ret)
		lib_note(e);
	if (!ret && !told)
		lib_ring_writer(e); /* one that sleeps for room looks again */
	if (ret || told || e->rx_eof)
		lib_service(e); /* to write back, or for a FIN that is due */
	return ret;
}

static bool answer_known(struct sim_end *e)
{
	if ((e->sleepers && sim_on(RULE_PUT_ASLEEP)) ||
	    anc_answer_for(e->rx, &e->ar))
		return false;
	sim.known++;
	return true;
}

static int ask(struct sim_end *e)
{
	anc_ask(e->rx);
	if (answer_known(e))
		return paused(e, false);
	lib_note(e);
	lib_service(e);
	return -EAGAIN;
}

/* Behind a stall: 0 when the ring is passed, or ask. */
static int stalled(struct sim_end *e)
{
	uint64_t n;
	int ret;

	lib_poll(e);
	ret = anc_where(e->rx, &e->ar, &n);
	if (ret == ANC_AT_KICKS) {
		home_kicks(e, n);
		return -EAGAIN;
	}
	if (ret == ANC_AT_ANCHOR) {
		lib_service(e); /* its FIN may wait for this */
		return 0;
	}
	if (e->peer_gone)
		return -ECONNRESET;
	return ask(e);
}

int fallback_rx(struct sim_end *e)
{
	switch (anc_state(e->rx)) {
	case ANC_SWITCHING:
	case ANC_LIFTED:
		if (e->peer_gone)
			break;
		if (!sim_on(RULE_PAUSED))
			return rush_home(e);
		lib_poll(e);
		return ask(e);
	case ANC_RECALLED:
		if (e->peer_gone)
			break;
		/* a writer blocked in the kernel could not answer */
		lib_poll(e);
		if (answer_known(e))
			return paused(e, true);
		keep_pull(e);
		lib_service(e);
		return -EAGAIN;
	case ANC_PAUSED:
		if (e->peer_gone)
			break;
		return paused(e, true);
	case ANC_RESTORING:
		if (__atomic_load_n(&e->rx->brim, __ATOMIC_SEQ_CST))
			return 0; /* the rest comes when this is read */
		return e->peer_gone ? -ECONNRESET : -EAGAIN;
	case ANC_DRAINING:
		return stalled(e);
	default:
		return 0;
	}
	lib_poll(e);
	if (e->rx_avail || e->ar.kept || e->ar.taken < e->rx->x)
		return -ECONNRESET;
	home_unpaired(e);
	return 0;
}

static int fallback_tx(struct sim_end *e)
{
	lib_serve(e);
	switch (anc_state(e->tx)) {
	case ANC_SWITCHING:
	case ANC_LIFTED:
		return lib_spill(e, e->peer_gone) ? -EAGAIN : 0;
	case ANC_RECALLED:
	case ANC_PAUSED:
	case ANC_RESTORING:
		return e->peer_gone ? 0 : -EAGAIN;
	default:
		return 0;
	}
}

int lib_home(struct sim_end *e, bool insist, uint32_t *pins)
{
	uint64_t until = sim.now + (sim_rand(3) ? HOME_TIME : 1);
	int tx, rx;

	e->falling_back++;
	*pins = 0;
	if (insist)
		until = SIM_NEVER;
	for (;;) {
		lib_lock(e);
		tx = fallback_tx(e);
		rx = fallback_rx(e);
		if (!tx && !(*pins & 1) && !anc_busy(e->tx))
			*pins |= 1;
		if (!rx && !(*pins & 2) && !anc_busy(e->rx))
			*pins |= 2;
		if (!rx && !(*pins & 2) && anc_state(e->rx) != ANC_GONE)
			rx = -EAGAIN; /* W was quick to leave again */
		if ((tx != -EAGAIN && rx != -EAGAIN) || sim.now > until)
			break;
		lib_unlock(e);
		k_wake_sleep(e, sim.now + 1, SLEEP_LIB);
		if (e->wake)
			home_rang(e);
		if (e->wake || e->hup)
			k_nap(1); /* a byte that others still need */
	}
	e->falling_back--;
	e->pinned++;
	if (!tx && !rx)
		sim.homes++;
	else if (insist && !e->peer_gone)
		sim_fault("a fallback was refused");
	lib_unlock(e);
	return tx || rx || !(*pins & 2) ? -EAGAIN : 0;
}

void lib_unpin(struct sim_end *e, uint32_t pins)
{
	lib_lock(e);
	if (pins & 1)
		anc_idle(e->tx);
	if (pins & 2)
		anc_idle(e->rx);
	e->pinned--;
	lib_unlock(e);
}
