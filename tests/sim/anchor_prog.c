/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of the simulated world. They know nothing of SDP. */

#define SIM_ATOMS
#include "anchor_world.h"

static bool never(struct sim_thread *t)
{
	(void)t;
	return false;
}

static void take_a_break(struct sim_thread *t)
{
	if (t->pause && !sim_rand(t->pause))
		sim_block(never, sim.now + 1 + sim_rand(200), SLEEP_PAUSE);
	else
		sim_step();
}

/* What reaches a program is stream, in one piece, and new to this thread. */
static void check(struct sim_thread *t, const struct sim_item *it, int n,
		  bool peek)
{
	int i;

	for (i = 0; i < n; i++) {
		if (it[i].kick)
			sim_fault("kick delivered");
		if (i && it[i].off <= it[i - 1].off)
			sim_fault("bytes delivered out of order");
	}
	if (n <= 0)
		return;
	if (it[0].off < t->last)
		sim_fault("byte delivered twice");
	if (!peek)
		t->last = it[n - 1].off + 1;
}

static void writer(struct sim_thread *t)
{
	bool nb = t->kind == KIND_WRITER_NB;
	uint32_t done = 0;
	int n;

	while (done < t->bytes) {
		n = 1 + (int)sim_rand(t->piece);
		if ((uint32_t)n > t->bytes - done)
			n = (int)(t->bytes - done);
		n = lib_send(t->e, (uint32_t)n, nb);
		if (n == -EAGAIN) {
			/* in place of poll() with a time limit */
			sim_block(never, sim.now + 2, SLEEP_LIB);
			continue;
		}
		if (n < 0)
			break;
		done += (uint32_t)n;
		take_a_break(t);
	}
	sim_step();
	if (!--t->e->writing && t->e->reading)
		lib_shutdown(t->e);
}

static void reader(struct sim_thread *t)
{
	struct sim_item it[SIM_BUF];
	int n, flags;

	for (;;) {
		uint32_t len = 1 + sim_rand(t->piece);

		flags = t->kind == KIND_WAITALL ? M_ALL : 0;
		if (t->kind == KIND_NONBLOCK || t->kind == KIND_POLL)
			flags = M_DONTWAIT;
		if (t->kind == KIND_POLL)
			lib_poll_in(t->e);
		if (t->kind == KIND_PEEK) {
			n = lib_recv(t->e, it, len, M_PEEK);
			check(t, it, n, true);
			take_a_break(t);
		}
		n = lib_recv(t->e, it, len, flags);
		check(t, it, n, false);
		if (n == -EAGAIN) {
			if (t->kind == KIND_NONBLOCK)
				sim_block(never, sim.now + 2 + sim_rand(9),
					  SLEEP_PAUSE);
			continue;
		}
		if (n <= 0)
			break;
		take_a_break(t);
	}
	if (n == -ECONNRESET && !sim.killed && sim_peer(t->e)->live)
		sim_fault("reset out of nowhere");
	sim.eofs++;
}

static bool reached(struct sim_thread *t)
{
	return t->e->ar.taken >= t->at || t->e->peer_gone;
}

/* Code that libsdp does not see reads the descriptor for a while. */
static void homer(struct sim_thread *t)
{
	struct sim_item it[SIM_BUF];
	struct sim_end *e = t->e;
	uint32_t pins;
	int n, i;

	sim_block(reached, sim.now + 300, SLEEP_PAUSE);
	if (!lib_home(e, sim.plan.insist, &pins)) {
		n = k_recv(e, it, 1 + sim_rand(3), K_DONTWAIT);
		for (i = 0; i < n; i++)
			if (it[i].kick)
				sim_fault("kick read by foreign code");
		if (n > 0)
			lib_taken(e, (uint32_t)n);
		lib_ring_writer(e);
		take_a_break(t);
	}
	lib_unpin(e, pins);
}

static bool called(struct sim_thread *t)
{
	return t->e->poked || (t->e->hup && !t->e->peer_gone);
}

static void service(struct sim_end *e)
{
	for (;;) {
		bool more = anc_state(e->tx) == ANC_RESTORING && !e->closed;

		sim_block(called, more ? sim.now + 5 : SIM_NEVER, SLEEP_LIB);
		if (e->closed)
			return;
		e->poked = false;
		lib_lock(e);
		if (e->left) {
			lib_unlock(e);
			return;
		}
		if (e->hup)
			lib_peer_gone(e);
		if (__atomic_load_n(&e->tx->armed, __ATOMIC_SEQ_CST) &
		    ANC_ANCHOR)
			lib_ring_reader(e);
		lib_serve(e);
		lib_unlock(e);
	}
}

void prog_run(struct sim_thread *t)
{
	switch (t->kind) {
	case KIND_WRITER:
	case KIND_WRITER_NB:
		writer(t);
		break;
	case KIND_HOME:
		homer(t);
		break;
	case KIND_SERVICE:
		service(t->e);
		return;
	default:
		reader(t);
		break;
	}
	sim_step();
	if (!--t->e->live)
		lib_close(t->e);
}
