/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lifting (D3): when a connection has proved worth it the two ends find each
 * other (pair.c); from then on each writer may switch its own direction
 * (switch.c), until the peer is gone.
 */

#include "socket/handover/handover.h"

#define OFFER_LOOKS  8 /* every call, then every eighth */
#define PATIENCE     4 /* thresholds of traffic an offer lives */
#define PROBES_MAX   40
#define PATIENCE_NS  3000000000ull /* for so long at least, where time counts */
#define PROBES_APART 128 /* calls at most */
#define LOOK_BYTES   8192 /* count as one call once it is looked for */

bool lift_off;

static int32_t threshold(void)
{
	int64_t n = settings.lift_after_messages;

	if (!settings.lift_after_bytes)
		n = 0;
	return (int32_t)(n < LOOK_NEVER ? n : LOOK_NEVER - 1);
}

/* --- pairing ----------------------------------------------------------- */

/* From the connect or accept on; a rule `sdp` knows its mind already. */
void lift_connected(struct sock *s, int fd)
{
	int64_t weight = settings.lift_after_messages ?
				 settings.lift_after_bytes /
					 settings.lift_after_messages :
				 1;

	/* now: in a child of vfork() the number may be something else */
	sock_inode_at(s, fd);
	sock_event(s, EVENT_CONNECTED, WHY_NONE);
	if (weight < 1)
		weight = 1;
	s->seek.byte_weight =
		(int32_t)(weight < INT32_MAX ? weight : INT32_MAX);
	s->opt.nodelay = s->opt.cork = -1;
	s->seek.look = s->fallback.pinned || lift_off ? LOOK_NEVER :
							threshold();
	if (lift_off && !s->fallback.pinned)
		sock_why(s, sock_off ? sock_off : WHY_SETTING);
	if (s->id.use == USE_NATIVE) {
		s->seek.look = LOOK_NEVER;
		sock_why(s, WHY_KERNEL_SDP);
	}
	if (s->id.use == USE_SDP) {
		s->seek.look = 0;
		/*
		 * the program may wait in ways we do not see: serve() goes on
		 */
		if (settings.background_thread && !service_start())
			service_add(s);
	}
	if (s->seek.look == 0)
		lift_look(s, fd);
}

static void paired(struct sock *s, int fd)
{
	struct anc_page *page = shm_words(&s->seek.pair.seg);
	int maker = !s->seek.pair.offering, no_thread;

	s->own = &page->side[maker ? 0 : 1];
	s->peer = &page->side[maker ? 1 : 0];
	shm_end_init(&s->shm, &s->seek.pair.seg, maker, s->seek.pair.key);
	s->end = &s->shm.end;
	zc_paired(s);
	lift_adopt(s, &page->dir[maker ? 0 : 1], &page->dir[maker ? 1 : 0]);
	s->waits.wake = s->seek.pair.fd;
	s->waits.wake_ms = 0;
	sys_fcntl(s->waits.wake, F_SETFL, 0); /* readers sleep on it */
	s->user = sock_pid;
	__atomic_store_n(&s->paired, true, __ATOMIC_SEQ_CST);
	s->seek.look = LOOK_NEVER; /* until all is well */
	no_thread = settings.background_thread ? service_start() : 0;
	s->own->reset = s->opt.linger0;
	window_begin(s, fd);
	order_lifted(s, fd);
	spin_bound(s);
	s->fallback.user_service = service_id();
	user_shown(s);
	service_add(s);
	if (no_thread) {
		log_once(LOG_WARN, "no service thread (%d): nothing is lifted",
			 no_thread);
		s->fallback.pinned = true;
		sock_why(s, WHY_NO_THREAD);
		return;
	}
	s->seek.look = lift_audit(s, fd);
	__atomic_store_n(&s->own->ready, 1, __ATOMIC_RELEASE);
	if (!s->fallback.pinned)
		sock_why(s, WHY_PAIRED);
	log_debug("fd %d: paired with process %d", fd, s->seek.pair.peer_pid);
	ring_note(s);
}

static void pair_again(struct sock *s)
{
	memset(&s->seek.pair, 0, sizeof(s->seek.pair));
	s->seek.pair.fd = -1;
	/* rings are powers of two: the next one below */
	s->seek.pair.ring =
		1u << (31 - __builtin_clz((uint32_t)settings.ring_max));
}

/*
 * The two ends count differently: a stream of small writes arrives in few
 * large pieces. So patience is measured in turns, which both see alike, or in
 * bytes where nothing turns.
 */
static bool counted(const struct sock *s)
{
	uint32_t turns = (uint32_t)threshold();
	uint64_t bytes = (uint64_t)settings.lift_after_bytes;

	if (turns < 64)
		turns = 64;
	if (bytes < 524288)
		bytes = 524288;
	/* megabytes may lie in the kernel between the two counts */
	return s->seek.turns < PATIENCE * turns &&
	       s->at.sent + s->ar.taken < 16 * PATIENCE * bytes;
}

/*
 * Does each turn need the other end? One that sends and receives large pieces
 * takes turns with what lies in the kernel, too, hundreds of them.
 */
static bool in_dialogue(const struct sock *s)
{
	return s->at.sent + s->ar.taken <= (uint64_t)s->seek.turns << 12;
}

static bool waited(struct sock *s)
{
	uint64_t now = clock_ns();

	if (!s->seek.patient_since)
		s->seek.patient_since = now;
	return now - s->seek.patient_since > PATIENCE_NS;
}

/*
 * Megabytes, or thousands of small writes, pass before the other end, on the
 * same processor, has its turn and counts the first of them: so time counts,
 * too. In a dialogue both ends count alike.
 */
static bool patient(struct sock *s)
{
	return counted(s) || (!in_dialogue(s) && !waited(s));
}

static bool probed_enough(struct sock *s)
{
	if (s->seek.probes >= 3 && s->seek.turns >= 64 && in_dialogue(s))
		return true;
	if (!patient(s))
		return true;
	return s->seek.probes > PROBES_MAX && waited(s);
}

/* A rule `sdp` leaves no other way: there the program's limit counts alone. */
static bool no_number(struct sock *s)
{
	if (s->id.use != USE_SDP && !fd_share_left()) {
		s->seek.look = FD_SHARE_LOOKS;
		sock_why(s, WHY_FD_LIMIT);
		return true;
	}
	if (s->stats.why == WHY_FD_LIMIT)
		sock_why(s, WHY_WAITING);
	return false;
}

static void give_up(struct sock *s)
{
	pair_cancel(&s->seek.pair);
	s->seek.look = LOOK_NEVER;
	sock_why(s, WHY_PEER_DECLINED);
}

/*
 * The end that accepted counts its own answer before the other end has it: where
 * it is the one that connects, the other one never listens yet.
 */
static bool too_early(const struct sock *s)
{
	return s->id.role == ROLE_ACCEPTED && !s->seek.pair.offering &&
	       !s->seek.probes && threshold() && s->id.use != USE_SDP;
}

/* One step; the lock is held. Sets s->look. */
static void step(struct sock *s, int fd)
{
	if (carrier_elsewhere(s))
		rdma_detach(s);
	if (carrier_far(s)) { /* the service thread seeks, and gives up */
		s->seek.look = 64;
		return;
	}
	if (s->seek.pair.state == PAIR_NONE) {
		enum reason why;

		if (no_number(s))
			return;
		pair_again(s);
		sock_event(s, EVENT_SEEKING, WHY_NONE);
		why = pair_begin(&s->seek.pair, fd);
		if (why == WHY_REMOTE) {
			why = rdma_begin(s, fd);
			if (why == WHY_NONE)
				return;
		} else if (!why && settings.path == SET_PATH_RDMA) {
			why = WHY_SETTING;
		}
		if (why != WHY_NONE) {
			s->seek.look = LOOK_NEVER;
			sock_why(s, why);
			return;
		}
		s->seek.params = (struct conn_params){
			.rcv_size = SHM_MSG_MAX,
			.posted = SHM_DEPTH,
			.max_adverts = 1,
			.ext_flags = CONN_EXT_ANCHORED,
			.reads = true,
		};
		if (too_early(s)) { /* by one message */
			s->seek.pair.state = PAIR_PROBING;
			s->seek.look = 1;
			return;
		}
	}
	switch (pair_step(&s->seek.pair, fd, &s->conn, &s->seek.params, 1000)) {
	case PAIR_OFFERED:
		s->seek.look = ++s->seek.offer_looks < OFFER_LOOKS ? 1 : 8;
		if (!patient(s))
			give_up(s);
		break;
	case PAIR_PROBING:
		/* no descriptor is kept between probes */
		pair_cancel(&s->seek.pair);
		s->seek.look = s->seek.probes < 4 ? 8 << s->seek.probes :
						    PROBES_APART;
		s->seek.probes++;
		if (probed_enough(s))
			give_up(s);
		break;
	case PAIR_ASKED:
		s->seek.look = ++s->seek.offer_looks < OFFER_LOOKS ? 1 : 8;
		break;
	case PAIR_DONE:
		paired(s, fd);
		break;
	default:
		s->seek.look = LOOK_NEVER;
		sock_why(s, s->seek.pair.why);
		break;
	}
}

bool sock_wait_seen;

/* Does the program wait for it in a way that we do not see? */
static bool waits_unseen(const struct sock *s)
{
	return __atomic_load_n(&s->in.unwaited, __ATOMIC_RELAXED) ||
	       (s->opt.nonblock && !s->seek.busy &&
		!__atomic_load_n(&sock_wait_seen, __ATOMIC_RELAXED));
}

/* Does another process have it, too? */
static bool shared(struct sock *s)
{
	if (sock_holders(s) == 1)
		return false;
	if (s->stats.why == WHY_WAITING)
		sock_why(s, WHY_FD_SHARED);
	return true;
}

/*
 * A call that another thread began by a number of ours, when that was something
 * else, may still get to the anchor: that one must be the kernel's as long.
 */
static bool mistaken(struct sock *s, int fd)
{
	return s->seek.pair.state == PAIR_NONE && hooks.elsewhere &&
	       hooks.elsewhere(s, fd);
}

void lift_look(struct sock *s, int fd)
{
	bool was = s->paired;

	if (s->seek.byte_weight < LOOK_BYTES)
		s->seek.byte_weight = LOOK_BYTES;
	if (never_lift(s) || s->id.use == USE_TCP) {
		s->seek.look = LOOK_NEVER;
		return;
	}
	if (lock_try(&s->lock)) {
		s->seek.look = 1;
		return;
	}
	fd = sock_at(s, fd);
	if (s->eos.shut_rd) {
		s->seek.look = LOOK_NEVER;
		if (!s->paired && !carrier_far(s))
			sock_why(s, WHY_SHUT_RECEIVE);
	} else if (s->paired) {
		s->seek.look = lift_audit(s, fd);
		rdma_tell(s, false);
	} else if (waits_unseen(s)) {
		s->seek.look = 16;
		if (s->stats.why == WHY_WAITING)
			sock_why(s, WHY_BYPASSED);
	} else if (__atomic_load_n(&s->in.held, __ATOMIC_RELAXED) ||
		   shared(s) || mistaken(s, fd)) {
		s->seek.look = 16; /* perhaps later */
	} else {
		step(s, fd);
	}
	if (!service_running())
		diag_rest();
	sock_unlock(s);
	if (!was && s->paired)
		sock_changed(s);
}

void sock_unwaited(struct sock *s, int delta)
{
	if (__atomic_add_fetch(&s->in.unwaited, (uint32_t)delta,
			       __ATOMIC_SEQ_CST))
		return;
	if (s->stats.why == WHY_BYPASSED && !s->fallback.pinned)
		sock_why(s, WHY_WAITING);
	if (s->seek.look != LOOK_NEVER && s->seek.look > 1)
		s->seek.look = 1;
}

/*
 * The kernel took less than all: the other end is behind. By the time this
 * one writes again it may have counted enough to be there.
 */
void lift_full(struct sock *s, int fd)
{
	int32_t probes = s->seek.probes;

	if (!probes || s->paired || s->seek.look == LOOK_NEVER)
		return;
	lift_look(s, fd);
	if (s->seek.probes > probes)
		s->seek.probes = probes;
}

void lift_again(struct sock *s)
{
	if (sock_lock(s))
		return;
	if (s->id.phase == PH_LISTEN) {
		sock_why(s, WHY_LISTENER);
	} else if (s->id.phase == PH_CONNECTED && !never_lift(s) && !lift_off) {
		s->seek.look = threshold();
		if (!s->seek.look)
			s->seek.look = 1; /* with the next bytes */
		sock_why(s, s->paired ? WHY_PAIRED : WHY_WAITING);
	}
	sock_unlock(s);
}

/* --- the peer is gone -------------------------------------------------- */

/* Lock held: the wake-up socket hung up. */
void lift_peer_gone(struct sock *s)
{
	if (s->peer_gone)
		return;
	if (!s->conn.error)
		pump_poll(s); /* what it left in the ring is still ours, */
	if (FAB(s)->unhold && !s->conn.error) {
		FAB(s)->unhold(END(s)); /* and what it held back there */
		pump_poll(s);
	}
	carrier_revive(s);
	__atomic_store_n(&s->peer_gone, true, __ATOMIC_RELEASE);
	__atomic_store_n(&s->fallback.stand, 0, __ATOMIC_RELEASE);
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->waits.out_gen, 1, __ATOMIC_RELAXED);
	log_debug("fd %d: the peer's library is gone", sock_fd(s));
}

/*
 * When the peer's process died and left bytes of ours in the ring, TCP would
 * have said reset.
 */
int lift_end_errno(struct sock *s)
{
	if (s->eos.eaten && !told_reset(s))
		return s->eos.eaten;
	if (!tx_by_ring(s) || sock_lock(s))
		return 0;
	if (!s->peer_gone && wake_hung_up(s))
		lift_peer_gone(s);
	sock_unlock(s);
	return s->peer_gone && was_reset(s) && !told_reset(s) ? ECONNRESET : 0;
}

/*
 * Lock held: both directions are the anchor's from here on, for good. The
 * segment stays mapped until close: another thread may be looking.
 */
void lift_unpaired(struct sock *s, enum reason why)
{
	int fd = sock_anchor(s);

	lift_strayed(s, fd, 0);
	ring_throw(s, fd, anc_kicks(s->rx, &s->ar));
	s->eos.kicked = s->peer_gone && tcp_kicks_left(s);
	if (s->eos.kicked && s->eos.eaten == ECONNRESET)
		s->eos.eaten = 0;
	lift_replaced(s, why);
}

void lift_replaced(struct sock *s, enum reason why)
{
	s->fallback.pinned = true;
	__atomic_store_n(&s->fallback.handed_to, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->tx, &s->local[0], __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->rx, &s->local[1], __ATOMIC_SEQ_CST);
	sock_why(s, why);
}

/* --- `sdp` rules ------------------------------------------------------- */

/* A non-blocking connect is over when the socket has a peer. */
bool sock_up(struct sock *s, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (s->id.phase == PH_CONNECTED)
		return true;
	if (s->id.phase != PH_CONNECTING || sys_getpeername(fd, &ss, &len))
		return false;
	s->id.phase = PH_CONNECTED;
	sock_why(s, option_reason(s));
	lift_connected(s, fd);
	return true;
}

/* A process that ends closes the anchor first, and the wake-up socket then. */
static bool kicked_out(struct sock *s)
{
	struct pollfd p = { .events = POLLRDHUP };
	struct timespec most = { .tv_nsec = 50000000 };

	if (!s->paired || sock_lock(s))
		return false;
	if (s->paired && tcp_kicks_left(s)) {
		p.fd = s->waits.wake;
		if (!s->peer_gone && sys_ppoll(&p, 1, &most, NULL) == 1 &&
		    wake_hung_up(s))
			lift_peer_gone(s);
		s->eos.kicked = s->peer_gone;
	}
	sock_unlock(s);
	return s->eos.kicked;
}

ssize_t tcp_ended(struct sock *s, size_t done, ssize_t n)
{
	if (unlikely(n == -ECONNRESET) && (s->eos.kicked || kicked_out(s)))
		n = 0;
	if (done) {
		sock_eats(s, n);
		return (ssize_t)done;
	}
	if (unlikely(n == -EAGAIN) && s->eos.rx_ended && s->paired)
		n = 0; /* the kernel's FIN follows */
	if (unlikely(!n) && (s->paired || s->eos.eaten))
		return -lift_end_errno(s);
	/* the kernel tells it once, and so do we; it may hear of it later */
	if (unlikely(n == -ECONNRESET) && s->paired && told_reset(s))
		return 0;
	return n;
}

enum reason sock_off;
