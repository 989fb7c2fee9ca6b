/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A sock over RDMA: its words as messages (remote.h), the tokens that prove that
 * anchor and queue pair have the same two ends, and the wake-up socket's bytes.
 */

#include "socket/rdma.h"

#define TOKEN_END(r) ((r)->token_at + RDMA_TOKEN)

/* --- becoming one ------------------------------------------------------ */

static int wake_pair(struct sock *s)
{
	const int type = SOCK_STREAM | SOCK_CLOEXEC;
	int fd[2], ret = (int)sys_call6(SYS_socketpair, AF_UNIX, type, 0,
					(long)fd, 0, 0);
	if (ret)
		return ret;
	fd[0] = fd_hide(fd[0]);
	fd[1] = fd_hide(fd[1]);
	if (fd[0] >= 0 && fd[1] >= 0) {
		s->wake = fd[0];
		s->wake_ms = 0;
		s->rd->far = fd[1];
		return 0;
	}
	for (ret = 0; ret < 2; ret++)
		if (fd[ret] >= 0) {
			fd_unhide(fd[ret]);
			sys_close(fd[ret]);
		}
	return -EMFILE;
}

/* Up once more: both directions are RAW, counts of bytes go on. */
static void forget_words(struct sock *s)
{
	struct rdma *r = s->rd;

	if (r->words.reader_busy)
		anc_idle(s->tx); /* who said so has not said it of this */
	memset(&r->words, 0, sizeof(r->words));
	s->tx->epoch = s->rx->epoch = 0;
	s->ar.base += (int64_t)s->ar.bells;
	s->at.bells = s->ar.bells = s->tx->bells = s->rx->bells = 0;
	s->tx->wait = s->rx->wait = 0;
	s->ar.unsure = false;
	r->ahead = false;
	r->token_at = r->hidden = r->token_due = 0;
	r->token_wait = r->eof_hidden = false;
	s->lift_not_before = clock_ns() + 100000000u;
}

int rdma_up(struct sock *s)
{
	struct rdma *r = s->rd;
	int ret = s->paired ? 0 : wake_pair(s);

	if (ret)
		return ret;
	if (s->paired) {
		forget_words(s);
		lift_base(s, sock_anchor(s));
	}
	r->state = RDMA_UP;
	r->bulk = r->sizing = false;
	r->ear_lent = r->ear_owed = false;
	r->ear_by = 0;
	r->seen_rx = r->pressed = 0;
	r->confirmed = true; /* of what was never lifted */
	remote_init(&r->words, &r->mirror, &s->at, &s->ar);
	s->own = r->words.own;
	s->peer = r->words.peer;
	spin_bound(s);
	window_begin(s, sock_fd(s));
	s->end = r->end;
	s->end_pid = sock_pid;
	zc_paired(s);
	if (!s->paired) {
		lift_adopt(s, r->words.tx, r->words.rx);
		s->look = lift_vouch(s, sock_fd(s));
	}
	s->own->reset = s->linger0;
	s->own->ready = 1;
	__atomic_store_n(&s->paired, true, __ATOMIC_SEQ_CST);
	service_add(s);
	r->changed = r->restless = true;
	rdma_tell(s, true);
	rdma_arm(s);
	service_poke(service_id());
	return 0;
}

/* --- words ------------------------------------------------------------- */

/*
 * The last credits are for what the program was told that it can send, and
 * words can wait for that. But to nobody who can send they are not worth it.
 */
static bool spared(const struct sock *s)
{
	return s->conn.spare && tx_by_ring(s) &&
	       conn_spared(&s->conn, FAB(s)->room(END(s)));
}

void rdma_tell(struct sock *s, bool idle)
{
	struct rdma *r = s->rd;
	uint8_t out[REMOTE_LEN];
	enum remote_half h;

	if (!rdma_here(s) || r->state != RDMA_UP || s->conn.error)
		return;
	for (h = 0; h < REMOTE_HALVES; h++) {
		if (unlikely(spared(s))) {
			r->restless = true;
			return;
		}
		if (!remote_make(&r->words, h, idle, out))
			continue;
		conn_words(&s->conn, h, out);
		pump_control(s);
	}
	pump_control(s);
}

void rdma_ask(struct sock *s)
{
	if (!rdma_here(s) || s->rd->state != RDMA_UP || pump_poll(s) ||
	    s->at.sent == __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE))
		return;
	__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
	rdma_tell(s, false);
	rdma_arm(s);
}

/* A record may lie behind the bytes that were in front of x. */
static void took_to_x(struct sock *s)
{
	if (unlikely(s->rd->called) &&
	    s->ar.taken >= __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE))
		rdma_owe(s);
}

void rdma_took(struct sock *s)
{
	took_to_x(s);
	if (unlikely(rdma_update_waits(s)) && !s->rd->restless)
		rdma_owe(s);
	if (!__atomic_load_n(&s->rx->wait, __ATOMIC_SEQ_CST))
		return;
	if (anc_state(s->rx) == ANC_RISING &&
	    s->ar.taken < remote_awaited(s->rx))
		return;
	if (anc_state(s->rx) > ANC_RISING)
		__atomic_store_n(&s->rx->wait, 0, __ATOMIC_SEQ_CST);
	rdma_tell(s, false);
}

void rdma_took_raw(struct sock *s)
{
	took_to_x(s);
	if (likely(!__atomic_load_n(&s->rx->wait, __ATOMIC_SEQ_CST)) ||
	    s->ar.taken < remote_awaited(s->rx))
		return;
	if (lock_try(&s->lock)) {
		rdma_owe(s);
		return;
	}
	if (s->paired && s->rd)
		rdma_tell(s, false);
	sock_unlock(s);
}

void rdma_left(struct sock *s)
{
	struct anc_dir *d = __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST);

	if (s->paired && anc_state(d) != ANC_RAW &&
	    !__atomic_load_n(&d->rawrx, __ATOMIC_SEQ_CST))
		rdma_owe(s);
}

/* Does the service thread have to see to it that the token is taken? */
bool rdma_token_urgent(const struct sock *s)
{
	return s->rd->token_wait && (s->readers || s->ghost >= 0);
}

/* The lift of the peer's direction: its token is the next on the anchor. */
static void lifted_rx(struct sock *s, struct rdma *r)
{
	r->token_wait = true;
	r->token_at = s->ar.bells;
	r->restless |= rdma_token_urgent(s);
	rdma_anchor_watch(s, s->ghost >= 0 ? s->ghost : sock_fd(s));
}

int rdma_words(struct sock *s, const uint8_t *in)
{
	struct rdma *r = s->rd;
	enum anc_state was = anc_state(s->rx), now;
	int news;

	if (!rdma_here(s))
		return -EPROTO;
	if (r->state != RDMA_UP || rdma_silent(s))
		return 0; /* too late: mend.c, and home.c's last_word() */
	news = remote_take(&r->words, in);
	if (news < 0) {
		s->conn.fault = "words that cannot be true";
		return news;
	}
	now = anc_state(s->rx);
	if ((was == ANC_RAW || was == ANC_RESUME) &&
	    (now == ANC_RISING || now == ANC_LIFTED || now == ANC_SPILL))
		lifted_rx(s, r);
	/* all in front of x is taken, and no token comes before our answer */
	if (now == ANC_LIFTED && was != ANC_LIFTED && r->token_wait)
		lift_base(s, s->ghost >= 0 ? s->ghost : sock_fd(s));
	return news;
}

/* --- tokens ------------------------------------------------------------ */

bool rdma_hide(struct sock *s, uint32_t len, bool eof)
{
	struct rdma *r = s->rd;

	/* of a lift that was never known of here: it comes again, on the anchor */
	if (unlikely(r->state == RDMA_MENDING) &&
	    anc_state(s->rx) == ANC_RESUME)
		return true;
	if (!r->token_wait)
		return false;
	r->hidden += len;
	r->eof_hidden |= eof;
	return true;
}

static void token_done(struct sock *s)
{
	struct rdma *r = s->rd;

	r->token_wait = false;
	s->rx_avail += r->hidden;
	s->rx_eof |= r->eof_hidden;
	r->hidden = 0;
	r->eof_hidden = false;
	__atomic_add_fetch(&s->in_gen, 1, __ATOMIC_RELAXED);
	if (s->rx_avail && !s->counted)
		sock_is_lifted(s);
	log_debug("fd %d: receives over SDP (verbs)", sock_fd(s));
}

/*
 * Bytes at the place of token and bells were taken. What is neither comes from
 * a peer whose queue pair broke: mend.c has to judge it, and what was taken
 * for the beginning of a token with it. A peer that closed wrote its token
 * before, and nothing else.
 */
static void token_count(struct sock *s, const uint8_t *got, size_t n)
{
	struct rdma *r = s->rd;
	bool ended = r->state == RDMA_ENDED;

	for (; n && (ended || r->state == RDMA_UP); got++, n--) {
		if (*got != (r->token_wait ?
				     r->token_rx[s->ar.bells - r->token_at] :
				     0))
			break;
		s->ar.bells++;
		if (r->token_wait && s->ar.bells == TOKEN_END(r))
			token_done(s);
	}
	remote_bells_ahead(&r->words);
	if (!n)
		return;
	if (ended) {
		s->conn.fault = "no token";
		pump_fail(s, -EPROTO);
		return;
	}
	if (r->state == RDMA_UP && r->token_wait) {
		mend_ahead(s, r->token_rx, s->ar.bells - r->token_at);
		s->ar.bells = r->token_at;
	}
	mend_ahead(s, got, n);
	mend_begin(s, -ECONNRESET);
}

/* Its writer is no more, and what came behind it is shown to nobody. */
static void token_lost(struct sock *s)
{
	struct rdma *r = s->rd;

	s->ar.bells = TOKEN_END(r);
	remote_bells_ahead(&r->words);
	if (s->ar.taken < __atomic_load_n(&s->rx->y, __ATOMIC_ACQUIRE) &&
	    !rdma_was_reset(s)) {
		s->conn.fault = "an end without its token";
		pump_fail(s, -EPROTO);
	}
	rdma_token_end(s);
}

void rdma_strayed(struct sock *s, uint64_t n)
{
	struct rdma *r = s->rd;

	if (r->state == RDMA_MENDING) {
		mend_strayed(s, n);
		return;
	}
	s->ar.bells += n;
	remote_bells_ahead(&r->words);
	if (r->token_wait && s->ar.bells >= TOKEN_END(r)) {
		token_done(s);
		r->changed = true;
		rdma_wake(s);
	}
}

/* Is the token the next on the anchor, and no stream byte in front of it? */
static bool token_next(const struct sock *s)
{
	enum anc_state st = anc_state(s->rx);

	return st != ANC_RAW && st != ANC_RESUME && st != ANC_GONE &&
	       s->ar.taken + s->ar.kept >=
		       __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
}

/*
 * The token lies in front of all else on the anchor, in whatever state it
 * comes. While threads are inside receives that began before the lift it is
 * theirs, and while others sleep in poll on it, it has to wake them first. The
 * service thread cannot know of those who have slept in the kernel since
 * before the lift, so it leaves the token to a thread of the program: to one
 * that sleeps elsewhere it says so.
 */
void rdma_token_read(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	uint8_t got[RDMA_TOKEN];
	ssize_t n;

	lift_strayed(s, fd, 0);
	if (!r->token_wait || fd < 0 || s->conn.error || !token_next(s) ||
	    r->state == RDMA_MENDING)
		return;
	r->restless |= rdma_token_urgent(s);
	if (r->serving && s->ghost < 0) {
		if (s->readers &&
		    sys_recv(fd, got, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
			rdma_wake(s);
		return;
	}
	if (__atomic_load_n(&s->rx->rawrx, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&s->asleep_anchor, __ATOMIC_SEQ_CST))
		return;
	n = sys_recv(fd, got, (size_t)(TOKEN_END(r) - s->ar.bells),
		     MSG_DONTWAIT);
	sock_eats(s, n);
	if (n > 0)
		token_count(s, got, (size_t)n);
	else if (n != -EAGAIN && r->state == RDMA_ENDED)
		token_lost(s);
	if (n > 0 && !r->token_wait)
		rdma_wake(s);
}

bool rdma_raw_took(struct sock *s, const struct iovec *iov, size_t cnt,
		   size_t at, size_t n)
{
	struct cursor c = { .iov = iov, .left = cnt, .at = at };
	uint8_t got[64];
	bool ours;

	if (!s->paired || sock_lock(s))
		return false;
	lift_strayed(s, s->ghost >= 0 ? s->ghost : sock_fd(s), n);
	ours = s->rd && token_next(s);
	while (ours && n) {
		size_t part = n < sizeof(got) ? n : sizeof(got);

		cursor_get(&c, got, part);
		token_count(s, got, part);
		n -= part;
	}
	if (ours)
		rdma_wake(s); /* there may be something for others now */
	sock_unlock(s);
	return ours;
}

void rdma_token_write(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	enum anc_state st = anc_state(s->tx);
	ssize_t n;

	if (!r->token_due || fd < 0 || r->state != RDMA_UP)
		return;
	if (!remote_seen(&r->words) || (st != ANC_LIFTED && st != ANC_ASKED))
		return;
	mend_seen(s); /* with the token no way leads back to x */
	n = sys_send(fd, r->token_tx + RDMA_TOKEN - r->token_due, r->token_due,
		     MSG_DONTWAIT | MSG_NOSIGNAL);
	sock_eats(s, n);
	if (n > 0)
		r->token_due = (uint8_t)(r->token_due - n);
	if (r->token_due)
		r->restless = true;
}

bool rdma_anchor_free(struct sock *s)
{
	if (s->rd->state != RDMA_UP)
		return false;
	return !s->rd->token_due && remote_seen(&s->rd->words) &&
	       !__atomic_load_n(&s->tx->rawrx, __ATOMIC_SEQ_CST);
}

bool rdma_may_bell(struct sock *s)
{
	return s->rd->state == RDMA_UP && !s->rd->token_due &&
	       remote_seen(&s->rd->words) && anc_state(s->tx) != ANC_RISING;
}

/* --- waking ------------------------------------------------------------ */

void rdma_owe(struct sock *s)
{
	struct rdma *r = s->rd;

	if (!r)
		return; /* detached meanwhile */
	r->calm = false;
	r->restless = true;
	if (!r->serving)
		service_poke(service_id());
}

void rdma_failed(struct sock *s)
{
	__atomic_add_fetch(&s->in_gen, 1, __ATOMIC_RELAXED);
	s->rd->changed = true;
	rdma_wake(s);
	rdma_owe(s);
}

void rdma_wake(struct sock *s)
{
	static const char byte;

	spin_rung(s);
	if (s->rd->far >= 0 &&
	    sys_send(s->rd->far, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
		__atomic_add_fetch(&s->peer->rung, 1, __ATOMIC_RELEASE);
}

void rdma_arm(struct sock *s)
{
	if (!rdma_here(s) || s->rd->state != RDMA_UP)
		return;
	rdma_ear_back(s);
	rdma_api->arm(s->rd->end, false);
}

/* Who sleeps on the wake-up socket is rung as a peer on this host would. */
static void wake_readers(struct sock *s)
{
	if (!(__atomic_load_n(&s->rx->armed, __ATOMIC_SEQ_CST) & ANC_WAKE))
		return;
	__atomic_and_fetch(&s->rx->armed, ~(uint32_t)ANC_WAKE,
			   __ATOMIC_SEQ_CST);
	if (s->sleepers || __atomic_load_n(&s->watched, __ATOMIC_SEQ_CST))
		rdma_wake(s);
}

void rdma_wake_writers(struct sock *s)
{
	if ((s->writers || s->full) && tx_by_ring(s) && pump_room(s))
		rdma_wake(s);
}

/*
 * With few receives left a credit update waits for its time, and the peer,
 * perhaps, for the update: the service thread sends it.
 */
bool rdma_update_waits(const struct sock *s)
{
	return (s->conn.update_late || s->conn.spare) &&
	       conn_view_low(&s->conn) && s->rd->state == RDMA_UP &&
	       !s->conn.error;
}

void rdma_spare(struct sock *s, uint64_t by)
{
	if (!rdma_here(s) || s->rd->state != RDMA_UP)
		return;
	conn_spare(&s->conn, true);
	s->rd->spare_at = clock_ns();
	s->rd->spare_by = by;
}

void rdma_spare_ends(struct sock *s, bool look)
{
	uint64_t by = s->rd->spare_by, wait = ready_wait();

	if (!by || (by >> 32 == wait >> 32 && (!look || by != wait)))
		rdma_spared(s);
}

void rdma_spared(struct sock *s)
{
	conn_spare(&s->conn, false);
	rdma_tell(s, false);
}

/*
 * An update without hurry is left to the program's answer, to its next wait, or
 * to the service thread. Else one that came with a question has one sent in
 * front of each answer, and the two ends go on like that: twice the messages,
 * and a thread is woken for each.
 */
void rdma_report(struct sock *s)
{
	if (s->rd->serving || s->rx_avail || !conn_can_wait(&s->conn))
		pump_control(s);
}

void rdma_polled(struct sock *s, int news, bool in, bool credits)
{
	struct rdma *r = s->rd;
	int fd = s->ghost >= 0 ? s->ghost : sock_fd(s);

	r->heard = s->conn.mseq_sent;
	if (credits)
		r->given = s->conn.tx_stream;
	r->active |= !r->serving;
	r->fresh = r->serving && (r->fresh || in);
	if (in) {
		wake_readers(s);
		rdma_grow(s);
	}
	if (unlikely(r->sizing))
		rdma_sized(s);
	/* words may have waited for the credits that came */
	rdma_report(s);
	if (unlikely(s->ar.unsure))
		rdma_give(s);
	if (unlikely(rdma_update_waits(s)) && !r->restless)
		rdma_owe(s);
	if (credits || r->state != RDMA_UP)
		rdma_wake_writers(s);
	if (r->ahead && r->state == RDMA_UP)
		rdma_risen(s);
	if (!news || r->state != RDMA_UP)
		return;
	if (news & REMOTE_VOID)
		s->pins &= (uint8_t)~2u;
	if (news & REMOTE_SEEN) {
		mend_seen(s);
		rdma_token_write(s, fd);
	}
	if (news & REMOTE_BELL)
		ring_reader(s, fd);
	if (news & REMOTE_BURN)
		conn_burn(&s->conn, r->words.burn);
	if (news & REMOTE_STATE)
		r->changed = true;
	if (news & (REMOTE_STATE | REMOTE_TAKEN))
		rdma_wake(s);
	rdma_passed(s);
	rdma_tell(s, false);
	rdma_token_read(s, fd);
	rdma_owe(s);
}

/* --- states --------------------------------------------------------------- */

void rdma_moved(struct sock *s)
{
	struct rdma *r = s->rd;

	r->shown_rx = (uint8_t)anc_state(s->rx);
	r->shown_tx = (uint8_t)anc_state(s->tx);
	if (r->shown_rx == ANC_RAW || r->shown_rx == ANC_RESUME)
		rdma_token_end(s);
	if (r->shown_rx == ANC_RAW) {
		lift_base(s, s->ghost >= 0 ? s->ghost : sock_fd(s));
		rdma_anchor_watch(s, -1);
	}
	r->changed = true;
	rdma_tell(s, false);
	rdma_owe(s);
}
