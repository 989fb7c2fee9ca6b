/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The service thread (D7): one per process, started with the first pairing,
 * stopped with the last. It answers the peer's request to fall back while
 * the program computes, and notices at once when a peer's process ends. It
 * sleeps otherwise: messages and their wake-up bytes never wake it.
 *
 * It listens on a datagram socket with an abstract name; what comes there is
 * only ever "look", so any process may send it. It watches the wake-up sockets
 * for hang-up through an epoll set of its own.
 */

#include <pthread.h>
#include <sys/epoll.h>

#include "socket/core/registry.h"
#include "socket/life/life.h"

#define RETIRE_MS 200
#define IDLE_MS	  30000
#define SOON_MS	  250
#define TRIM_NS	  30000000000u
#define TICK_MS	  5
#define CALM_MS	  20 /* is a busy program still busy? */

/* --- visits ------------------------------------------------------------ */

/*
 * A thread that goes through the registry looks at a sock without its lock, or
 * waits for the lock, while another thread closes it. So the visitor leaves a
 * note of where it is: until it has gone on, the sock's memory is not reused
 * and its segment stays mapped here (store.c). The first note is the service
 * thread's. A handler that jumps out of a fallback leaves its note lying: the
 * others have their own. Bringing one back to TCP goes through them all again
 * meanwhile: two notes each.
 */

/* --- the thread -------------------------------------------------------- */

/* Takes the lock, if this process has the sock and no other one uses it. */
static bool enter(struct sock *s)
{
	if (sock_lock(s))
		return false;
	if (sock_here(s) && !user_told(s))
		return true;
	sock_unlock(s);
	return false;
}

static bool wanted; /* by another process that has one of ours */

static void yield(struct sock *s, void *arg)
{
	(void)arg;
	if (user_asked(s))
		user_yields(s);
}

static void serve(struct sock *s, void *arg)
{
	bool kick, asked;

	(void)arg;
	wanted |= user_asked(s);
	if (unlikely(__atomic_load_n(&s->window.holdback, __ATOMIC_RELAXED)))
		holdback_serve(s);
	if (carrier_far(s))
		rdma_serve(s);
	if (sock_orphan_fd(s) >= 0)
		sock_orphan_end(s);
	if (lift_awaited(s) && sock_fd(s) >= 0)
		lift_look(s, sock_fd(s));
	holders_visit(s);
	kick = __atomic_load_n(&s->tx->armed, __ATOMIC_SEQ_CST) & ANC_ANCHOR;
	asked = zc_asked(s) || zc_unanswered(s);
	if ((anc_state(s->tx) <= ANC_DRAINING && !s->eos.fin_due && !kick &&
	     !asked && likely(!fallback_leaver(s))) ||
	    !enter(s))
		return;
	if (asked)
		zc_answer(s, sock_anchor(s));
	if (s->paired && kick)
		ring_reader(s, sock_anchor(s));
	if (s->paired)
		fallback_serve(s, sock_anchor(s));
	fallback_take_back(s, sock_anchor(s));
	sock_unlock(s);
	sock_changed(s);
	if (asked && hooks.risen)
		hooks.risen(s); /* other messages may have come along */
	if (sock_orphan_fd(s) >= 0)
		sock_orphan_end(s); /* that was the last of it, perhaps */
}

static void hung_up(struct sock *s)
{
	if (!enter(s))
		return;
	/* the slot may be another connection's by now: ask its own socket */
	if (s->paired && carrier_ends_by_hangup(s) && wake_hung_up(s))
		lift_peer_gone(s);
	sock_unlock(s);
	sock_changed(s);
	if (hooks.risen)
		hooks.risen(s);
}

static int tick; /* ms until the next look at what is unfinished; 0: nothing */
static bool soon;

static void see(struct sock *s, void *arg)
{
	enum carrier_look look = carrier_look(s);

	(void)arg;
	if (anc_state(s->tx) == ANC_RESTORING || lift_awaited(s) ||
	    __atomic_load_n(&s->fallback.kick_owed, __ATOMIC_RELAXED) ||
	    look == CARRIER_BUSY)
		tick = TICK_MS;
	else if (look == CARRIER_CALM && !tick)
		tick = CALM_MS;
	else if (look == CARRIER_SOON || unlikely(fallback_leaver(s)))
		soon = true;
	if (unlikely(__atomic_load_n(&s->window.holdback, __ATOMIC_SEQ_CST)))
		tick = holdback_tick(s, tick);
}

/* No connection left for a while: thread and descriptors go. */
static bool retire(void)
{
	bool done;

	lock_take(&registry.lock);
	done = !registry.count && !registry.stays && registry.running &&
	       !rdma_busy();
	if (done) {
		rdma_rest();
		registry_close();
		registry.running = false;
		pthread_detach(registry.thread);
	}
	lock_drop(&registry.lock);
	if (done)
		diag_rest();
	return done;
}

/* ms until the next look, whatever happens. */
static int patience(bool empty, uint64_t now)
{
	int rest = soon || budget_pressed() ? SOON_MS : IDLE_MS;
	int ms = tick ? tick : empty ? RETIRE_MS : rest;
	int other = rdma_patience_ms(), heavy = reap_ms(now, IDLE_MS);

	if (ms > heavy)
		ms = heavy;

	if (unlikely(holdback_lately()) && ms > HOLDBACK_TICK)
		ms = HOLDBACK_TICK;
	return other >= 0 && other < ms ? other : ms;
}

/* On an anchor that carries control bytes only: rdma_look_after() looks. */
static void came(struct sock *s)
{
	if (!enter(s))
		return;
	rdma_anchor_came(s);
	sock_unlock(s);
}

/* One event; true: something else than the RDMA module's. */
static bool heard(void *who)
{
	struct sock *s;

	if (who == (void *)&rdma_api) {
		rdma_run();
		return false;
	}
	s = registry_visit(0, (void *)((uintptr_t)who & ~REGISTRY_ANCHOR),
			   REGISTRY_NONE);
	if (s && ((uintptr_t)who & REGISTRY_ANCHOR))
		came(s);
	else if (s)
		hung_up(s);
	return true;
}

static void look_after_all(void)
{
	struct epoll_event ev[16];
	uint64_t looked = 0, trimmed = 0, was, now;
	int n, i, ms;
	GUARDED(in);

	for (;;) {
		bool empty =
			!__atomic_load_n(&registry.count, __ATOMIC_ACQUIRE) &&
			!registry.stays;
		bool look, kept;

		tick = 0;
		soon = false;
		__atomic_store_n(&registry.due, UINT64_MAX, __ATOMIC_SEQ_CST);
		registry_walk(0, see, NULL);
		now = clock_ns();
		ms = patience(empty, now);
		__atomic_store_n(&registry.due, now + (uint64_t)ms * 1000000u,
				 __ATOMIC_SEQ_CST);
		was = guard_sleep();
		n = (int)sys_call6(SYS_epoll_pwait, registry.epoll, (long)ev,
				   16, ms, 0, 8);
		guard_wake(was);
		if (n == -EBADF)
			return; /* the program closed it by force */
		look = n <= 0;
		for (i = 0; i < n; i++)
			look |= heard(ev[i].data.ptr);
		registry_visit(0, NULL, REGISTRY_NONE);
		if (look)
			told_hear(registry.dgram);
		if (unlikely(page_asked()))
			reload_serve();
		if (__atomic_load_n(&registry.quit, __ATOMIC_ACQUIRE))
			return;
		/* not a walk for each message, but in time */
		if (!look &&
		    (!tick || clock_ns() < looked + (uint64_t)tick * 1000000u))
			continue;
		looked = clock_ns();
		rdma_run();
		kept = reap(looked);
		if (!n && empty && !kept &&
		    (guard_drain(), guard_sweep(), retire()))
			return;
		wanted = false;
		registry_walk(0, serve, NULL);
		if (wanted)
			service_each(yield, NULL);
		/* idle for a HOLDBACK_TICK, or until a reap(), is not idle */
		if (n || tick ||
		    ((ms == HOLDBACK_TICK || kept) &&
		     looked < trimmed + TRIM_NS))
			continue;
		trimmed = looked;
		registry_walk(0, reap_trim, NULL);
	}
}

void *service_main(void *arg)
{
	look_after_all();
	guard_exit();
	return arg;
}

void sock_serve_always(void)
{
	bool stays = !settings.background_thread;

	while (!stays && !service_start()) {
		lock_take(&registry.lock);
		stays = registry.stays =
			registry.running; /* or it has just retired */
		lock_drop(&registry.lock);
	}
}

/* The child has neither thread nor socks; its own are made when needed. */
void service_forked(void)
{
	registry_forked();
	reap_forked();
}
