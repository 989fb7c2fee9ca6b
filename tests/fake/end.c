/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The messages of a pretended queue pair, see fake.h. */

#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "fake.h"
#include "sdp_proto/wire.h"

void fake_tell(struct verbs *v, const struct verbs_event *ev)
{
	uint64_t one = 1;

	pthread_mutex_lock(&v->lock);
	if (v->put - v->get < 256)
		v->q[v->put++ % 256] = *ev;
	pthread_mutex_unlock(&v->lock);
	sys_write(v->bell, &one, 8);
}

void fake_tell_end(struct fend *e, enum verbs_event_type type, int error)
{
	struct verbs_event ev = {
		.type = type, .end = &e->end, .tag = e->tag, .error = error
	};

	fake_tell(e->v, &ev);
}

/* --- frames ------------------------------------------------------------ */

bool fake_down(void)
{
	const char *file = getenv("FAKE_DOWN");

	return file && *file && sys_call3(SYS_access, (long)file, 0, 0) == 0;
}

void fake_slow(void)
{
	const char *ms = getenv("FAKE_SLOW");

	if (ms)
		poll(NULL, 0, atoi(ms));
}

/* The queue pair is in its error state: what came before can be polled. */
void fake_break(struct fend *e, int error)
{
	if (e->broken)
		return;
	e->broken = true;
	e->error = error;
	if (!getenv("FAKE_DEAF"))
		sys_shutdown(e->fd, SHUT_RDWR);
	if (!e->told)
		fake_tell_end(e, VE_DOWN, error);
	e->told = true;
}

/*
 * Devices do not allocate memory for a message. A handler that jumps out of
 * malloc() would leave its lock held.
 */
static void *calm_alloc(size_t len)
{
	uint64_t was = fake_calm();
	void *mem = malloc(len);

	fake_calm_end(was);
	return mem;
}

static void calm_free(void *mem)
{
	uint64_t was = fake_calm();

	free(mem);
	fake_calm_end(was);
}

/* A sender's patience with a way that is down. */
bool fake_silent(struct fend *e)
{
	if (!e->up || !fake_down()) {
		e->down_at = 0;
		return false;
	}
	if (!e->down_at)
		e->down_at = clock_ns();
	if ((e->sent || e->rd[0].due) &&
	    clock_ns() > e->down_at + DOWN_MS * 1000000ull)
		fake_break(e, -ETIMEDOUT);
	return true;
}

void fake_patience(struct fend *e)
{
	uint64_t since = UINT64_MAX;

	pthread_mutex_lock(&e->lock);
	if (e->sent)
		since = e->sent->sent_at;
	pthread_mutex_unlock(&e->lock);
	if (since != UINT64_MAX && clock_ns() > since + DEAF_MS * 1000000ull)
		fake_break(e, -ETIMEDOUT);
}

void fake_flush(struct fend *e)
{
	if (e->broken || fake_silent(e) || fake_writing(e))
		return;
	if (e->wr.due && e->wr_until && e->out_len)
		fake_carry(e);
	while (e->out_len && !e->broken) {
		ssize_t n = sys_send(e->fd, e->out, e->out_len,
				     MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			e->error = n ? (int)n : -EPIPE;
			e->out_len = 0;
			return;
		}
		e->out_len -= (uint32_t)n;
		memmove(e->out, e->out + n, e->out_len);
	}
}

/* Its head, in front of what lies there already; and away. */
static void push(struct fend *e, enum frame type, uint32_t len)
{
	uint32_t head[2] = { (uint32_t)type, len };

	memcpy(e->out + e->out_len, head, FRAME_HEAD);
	e->out_len += FRAME_HEAD + len;
	fake_flush(e);
}

static bool fits(const struct fend *e, uint32_t len)
{
	return e->out_len + FRAME_HEAD + len <= sizeof(e->out);
}

int fake_frame(struct fend *e, enum frame type, const void *data, uint32_t len)
{
	fake_flush(e);
	if (e->error)
		return e->error;
	if (!fits(e, len) || fake_silent(e))
		return -EAGAIN;
	if (data)
		memcpy(e->out + e->out_len + FRAME_HEAD, data, len);
	push(e, type, len);
	return 0;
}

/* Cumulative, and when there is room for it: a later one says it, too. */
static void acknowledge(struct fend *e)
{
	if (e->up && e->got != e->told_got &&
	    !fake_frame(e, ACK, &e->got, sizeof(e->got)))
		e->told_got = e->got;
}

static void acknowledged(struct fend *e, uint32_t count)
{
	struct msg *m;

	while ((m = e->sent) && (int32_t)(m->seq - count) <= 0) {
		e->sent = m->next;
		if (!e->sent)
			e->sent_last = &e->sent;
		calm_free(m);
	}
}

static void arrived(struct fend *e, uint32_t type, const uint8_t *p,
		    uint32_t len)
{
	struct verbs_event ev = { .end = &e->end, .tag = e->tag, .len = len };
	struct msg *m;

	switch (type) {
	case REP:
	case REJ:
		ev.type = type == REP ? VE_ANSWERED : VE_REFUSED;
		memcpy(ev.data, p, len);
		fake_tell(e->v, &ev);
		break;
	case RTU:
		e->up = true;
		fake_tell_end(e, VE_UP, 0);
		break;
	case DREQ:
		e->dreq = true;
		break;
	case MSG:
		if (fake_rx_none_for(e, p, len)) {
			fake_break(e, -ENOBUFS);
			break;
		}
		if (fake_rx_too_small(e, len)) {
			fake_break(e, -EPROTO);
			break;
		}
		m = calm_alloc(sizeof(*m) + len);
		m->next = NULL;
		m->len = len;
		m->load = fake_rx_use(e);
		memcpy(m->mem, p, len);
		*e->last = m;
		e->last = &m->next;
		e->got++;
		break;
	case WHO:
		memcpy(&e->who, p, sizeof(e->who));
		break;
	case PROBE: /* as a message, but not to be received */
		e->got++;
		break;
	case ACK:
		memcpy(&len, p, sizeof(len));
		acknowledged(e, len);
		break;
	}
}

/* All that has come into the queue. */
void fake_intake(struct fend *e)
{
	uint32_t head[2];
	ssize_t n;

	if (e->broken || fake_silent(e))
		return;
	for (;;) {
		uint32_t want = FRAME_HEAD;

		if (e->in_len >= FRAME_HEAD) {
			memcpy(head, e->in, FRAME_HEAD);
			want += head[1];
			if (want > sizeof(e->in)) {
				e->error = -EPROTO;
				return;
			}
		}
		if (e->in_len == want) {
			arrived(e, head[0], e->in + FRAME_HEAD, head[1]);
			e->in_len = 0;
			continue;
		}
		n = sys_recv(e->fd, e->in + e->in_len, want - e->in_len,
			     MSG_DONTWAIT);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			e->eof = true;
			if (n)
				e->error = (int)n;
			return;
		}
		e->in_len += (uint32_t)n;
		if (e->in_len == FRAME_HEAD)
			continue;
	}
}

/* --- fabric_ops -------------------------------------------------------- */

static uint32_t room(struct end *end)
{
	struct fend *e = of(end);
	uint32_t fit;

	fake_flush(e);
	if (e->error || e->broken ||
	    e->out_len + FRAME_HEAD + ROOM_MIN > OUT_MAX)
		return 0;
	fit = OUT_MAX - e->out_len - FRAME_HEAD;
	return fit < VERBS_RCV_MAX ? fit : VERBS_RCV_MAX;
}

static void *buf(struct end *end, uint32_t len)
{
	struct fend *e = of(end);

	/* broken since room() said so: it counts as sent */
	if (len > room(end) && !((e->error || e->broken) && fits(e, len)))
		return NULL;
	return e->out + e->out_len + FRAME_HEAD;
}

static void *ctrl(struct end *end)
{
	struct fend *e = of(end);

	fake_flush(e);
	if (e->error || e->broken || !fits(e, FAB_CTRL))
		return NULL;
	return e->out + e->out_len + FRAME_HEAD;
}

static void remember(struct fend *e, const void *mem, uint32_t len)
{
	struct msg *m = calm_alloc(sizeof(*m) + len);

	m->next = NULL;
	m->len = len;
	m->seq = ++e->count;
	m->sent_at = clock_ns();
	memcpy(m->mem, mem, len);
	pthread_mutex_lock(&e->lock);
	*e->sent_last = m;
	e->sent_last = &m->next;
	pthread_mutex_unlock(&e->lock);
}

void fake_probe(struct fend *e)
{
	if (e->sent || e->error || e->broken)
		return;
	if (fake_down() || !fake_frame(e, PROBE, NULL, 0))
		remember(e, "", 0);
}

static bool unlucky(uint32_t count)
{
	const char *at = getenv("FAKE_BREAK");
	const char *lent = getenv("FAKE_BREAK_LENT");
	static uint32_t since;

	if (lent && *lent && fake_registered())
		return ++since == (uint32_t)atoi(lent);
	return at && *at && (uint32_t)atoi(at) == count;
}

static int xmit(struct end *end, uint32_t len, bool solicited)
{
	struct fend *e = of(end);

	(void)solicited;
	if (e->wr.due && !fake_writing(e))
		fake_carry(e);
	remember(e, e->out + e->out_len + FRAME_HEAD, len);
	if (e->lost || unlucky(e->count)) {
		/* what came so far was acknowledged, and can be polled */
		pthread_mutex_lock(&e->lock);
		fake_intake(e);
		pthread_mutex_unlock(&e->lock);
		fake_break(e, -ECONNRESET);
	}
	if (fake_denied(e->v))
		fake_break(e, -EACCES);
	if (e->broken || fake_silent(e))
		return e->error;
	push(e, MSG, len);
	return e->error;
}

static bool has_stream(const struct msg *m)
{
	if (m->mem[0] == WIRE_SRC_AVAIL)
		return m->len > WIRE_BSDH + 16;
	return m->mem[0] == WIRE_DATA && m->len > WIRE_BSDH;
}

/* Is a queue pair to break? Then its program says at which message. */
static bool breaks(void)
{
	static const char *const by[] = { "FAKE_BREAK", "FAKE_BREAK_LENT",
					  "FAKE_DEAF", "FAKE_DOWN",
					  "FAKE_LOSE" };
	size_t i;

	for (i = 0; i < sizeof(by) / sizeof(*by) && !getenv(by[i]); i++)
		;
	return i < sizeof(by) / sizeof(*by);
}

/*
 * A device acknowledges by itself, whether its program looks or not. What the
 * other host's kernel has is taken in before anything else becomes of that end.
 */
static bool has_come(const struct fend *e, int queued)
{
	const struct msg *m = e->sent;

	while (m && !(m->len && has_stream(m)))
		m = m->next;
	return !m && !queued && !e->out_len && !e->error && !e->eof &&
	       !e->broken && !breaks();
}

int fake_flushed(struct end *end)
{
	struct fend *e = of(end);
	int queued = 0;

	pthread_mutex_lock(&e->lock);
	fake_flush(e);
	/* first: after a reset nothing is queued any more */
	if (sys_ioctl(e->fd, SIOCOUTQ, &queued))
		queued = 1;
	fake_intake(e);
	if (has_come(e, queued))
		acknowledged(e, e->count);
	pthread_mutex_unlock(&e->lock);
	if (!e->sent)
		return 1;
	return e->error || e->eof ? -ECONNRESET : 0;
}

static int take(struct end *end, struct fab_msg *out)
{
	struct fend *e = of(end);
	struct msg *m;

	pthread_mutex_lock(&e->lock);
	fake_flush(e);
	if (!e->first)
		fake_intake(e);
	acknowledge(e);
	m = e->first;
	if (m) {
		e->first = m->next;
		if (!e->first)
			e->last = &e->first;
		m->next = NULL;
		*out = (struct fab_msg){ .mem = m->mem,
					 .len = m->len,
					 .held = true };
		if (!has_stream(m) && m->len <= FAB_CTRL) {
			memcpy(e->ctrl, m->mem, m->len);
			*out = (struct fab_msg){ .mem = e->ctrl,
						 .len = m->len };
			out->shed = !fake_rx_give(e, m, false);
			calm_free(m);
		} else {
			*e->held_last = m;
			e->held_last = &m->next;
		}
	}
	pthread_mutex_unlock(&e->lock);
	if (m)
		return 1;
	return e->broken ? -ECONNRESET : 0;
}

static int front(struct end *end, struct fab_msg *m)
{
	struct msg *h = of(end)->held;

	if (!h)
		return 0;
	*m = (struct fab_msg){ .mem = h->mem, .len = h->len, .held = true };
	return 1;
}

static void release(struct end *end)
{
	struct fend *e = of(end);
	struct msg *h = e->held;

	pthread_mutex_lock(&e->lock);
	fake_rx_give(e, h, true);
	pthread_mutex_unlock(&e->lock);
	e->held = h->next;
	if (!e->held)
		e->held_last = &e->held;
	calm_free(h);
}

/* The newest: what it carried is no part of the stream. */
void fake_drop(struct end *end)
{
	struct fend *e = of(end);
	struct msg **at = &e->held;

	while ((*at)->next)
		at = &(*at)->next;
	pthread_mutex_lock(&e->lock);
	fake_rx_give(e, *at, true);
	pthread_mutex_unlock(&e->lock);
	calm_free(*at);
	*at = NULL;
	e->held_last = at;
}

static int next(struct end *end, bool own, struct fab_walk *w,
		struct fab_msg *m)
{
	struct msg *h = of(end)->held;
	uint32_t i;

	if (own)
		return -EOPNOTSUPP;
	for (i = 0; h && i < w->seq; i++)
		h = h->next;
	if (!h)
		return 0;
	w->seq++;
	*m = (struct fab_msg){ .mem = h->mem, .len = h->len, .held = true };
	return 1;
}

/* Any thread, any time: a handler that comes here must not find it locked. */
static bool pending(struct end *end)
{
	struct fend *e = of(end);
	char c;

	return __atomic_load_n(&e->first, __ATOMIC_ACQUIRE) ||
	       (!e->eof && !e->broken &&
		sys_recv(e->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0);
}

static void trim(struct end *end)
{
	struct fend *e = of(end);

	if (e->rx.load_free != e->rx.load_count || e->rx.now > VERBS_RCV_SIZE ||
	    end->depth > VERBS_RCV_REST)
		return;
	e->rx.region = false;
	e->rx.load_free = 0;
}

static void destroy(struct end *end)
{
	struct fend *e = of(end);
	unsigned int i;

	pthread_mutex_lock(&e->v->lock);
	for (i = 0; i < ENDS; i++)
		if (e->v->ends[i] == e)
			e->v->ends[i] = NULL;
	for (i = e->v->get; i != e->v->put; i++)
		if (e->v->q[i % 256].end == end)
			e->v->q[i % 256].type = VE_NONE;
	pthread_mutex_unlock(&e->v->lock);
	acknowledged(e, e->count);
	fake_unlend(end);
	fake_unsink(end);
	/* a child may have it, too: as of a request (req_end()) */
	sys_epoll_ctl(e->v->ep, EPOLL_CTL_DEL, e->fd, NULL);
	if (e->v->host.unhide)
		e->v->host.unhide(e->fd);
	sys_close(e->fd);
	free(e);
}

const struct fabric_ops fake_ops = {
	.name = "verbs",
	.room = room,
	.buf = buf,
	.ctrl = ctrl,
	.send = xmit,
	.poll = take,
	.front = front,
	.release = release,
	.next = next,
	.lend = fake_lend,
	.lent = fake_lent,
	.unlend = fake_unlend,
	.sink = fake_sink,
	.unsink = fake_unsink,
	.read = fake_read,
	.write = fake_write,
	.done = fake_done,
	.pending = pending,
	.trim = trim,
	.destroy = destroy,
};
