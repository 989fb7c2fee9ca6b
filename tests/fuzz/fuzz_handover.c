/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The handover machine against a peer that writes what it likes: into the page
 * that both ends share, into snapshots of it between hosts, and onto the anchor
 * behind a queue pair that broke.
 */
#include "fuzz.h"

#include <errno.h>

#include "handover_proto/remote.h"
#include "handover_proto/resume.h"
#include "sdp_proto/wire.h"

#define KEEP	  (64u << 20) /* bytes of a keep area */
#define KICKS_MAX (1u << 20)

const struct target target = { "handover", 200, 20000 };

/* --- one host: a page whose words are the peer's -------------------------- */

struct host {
	struct anc_page *page;
	struct anc_dir *tx, *rx;
	struct anc_tx at;
	struct anc_rx ar;
	uint64_t moved; /* in all, so that no honest count comes near 2^64 */
};

/* A word of a direction or a side, chosen so that it means something. */
static void poke(struct host *h, struct input *in)
{
	uint8_t what = in_byte(in);
	struct anc_dir *d = what & 0x80 ? h->tx : h->rx;
	uint64_t near = what & 0x80 ? h->at.sent : h->ar.taken;

	switch (what % 12) {
	case 0:
		d->state = in_byte(in) % 10u | (in_byte(in) & 1u) << 8;
		break;
	case 1:
		d->x = in_near(in, near);
		break;
	case 2:
		d->y = in_byte(in) & 1 ? ANC_OPEN : in_near(in, near);
		break;
	case 3:
		d->kicks = in_near(in, what & 0x80 ? h->at.kicks : h->ar.kicks);
		break;
	case 4:
		d->sent = in_near(in, near);
		break;
	case 5:
		d->taken = in_near(in, near);
		break;
	case 6:
		d->from = in_near(in, near);
		break;
	case 7:
		d->kept = in_near(in, 0);
		break;
	case 8:
		d->tcp_rx = in_byte(in);
		d->putting = in_byte(in) & 1;
		break;
	case 9:
		d->closing = in_byte(in) & 1;
		d->brim = in_byte(in) & 1;
		break;
	case 10:
		d->armed = in_byte(in);
		d->sticky = in_byte(in);
		d->wait = in_byte(in);
		break;
	default:
		d->epoch = in_word(in);
		break;
	}
}

/* So many of n as a call might move. */
static uint64_t some(struct host *h, struct input *in, uint64_t n)
{
	uint64_t most = in_word(in);

	if (most > n)
		most = n;
	if (h->moved > 1ull << 50)
		return 0;
	h->moved += most;
	return most;
}

/* A receive, as recv.c makes it. */
static void receives(struct host *h, struct input *in)
{
	struct anc_dir *d = h->rx;
	struct anc_rx *r = &h->ar;
	uint64_t n, most;
	int at = anc_where(d, r, &n);

	if (at < 0) {
		must(at == -EPROTO);
		return;
	}
	switch (at) {
	case ANC_AT_ANCHOR:
		if (!anc_tcp_enter(d, r))
			return;
		if (anc_tcp_stream(d, r))
			anc_taken(d, r, some(h, in, n));
		anc_passed(d, r);
		anc_tcp_leave(d);
		break;
	case ANC_AT_RING:
		must(n);
		anc_taken_alone(d, r, some(h, in, n));
		break;
	case ANC_AT_KICKS:
		must(n <= KICKS_MAX);
		r->kicks += some(h, in, n);
		break;
	case ANC_AT_QUEUE:
		must(n);
		most = some(h, in, n);
		if (r->kept && most > r->kept)
			most = r->kept;
		r->kept -= r->kept ? most : 0;
		anc_taken(d, r, most);
		break;
	default:
		must(0);
	}
	anc_drawn(d, r, in_byte(in) & 1);
}

/* A fallback, as fallback.c and keep.c make it. */
static void falls_back(struct host *h, struct input *in)
{
	struct anc_dir *d = h->rx;
	struct anc_rx *r = &h->ar;
	enum anc_state st;
	uint64_t n;
	int at;

	anc_ask(d);
	anc_answer_for(d, r);
	st = anc_state(d);
	if (st != ANC_RECALLED && st != ANC_PAUSED)
		return;
	at = anc_keep(d, r, &n);
	if (at == -EPROTO)
		return;
	switch (at) {
	case ANC_AT_QUEUE:
		must(n);
		n = some(h, in, n < KEEP - r->kept ? n : KEEP - r->kept);
		r->kept += n;
		must(r->kept <= KEEP);
		break;
	case ANC_AT_KICKS:
		must(n && n <= KICKS_MAX);
		r->kicks += n;
		break;
	default:
		must(at == ANC_AT_ANCHOR);
		if (anc_state(d) == ANC_PAUSED && !d->putting) {
			anc_fall_back(d, r, in_byte(in));
			r->kept = 0;
		}
		break;
	}
	anc_drawn(d, r, in_byte(in) & 1);
}

/* Every byte that is to be written again lies where it was put, once. */
static void restores(struct host *h)
{
	uint64_t from, kept, off, at, n, keeps = 0, steps = 0;
	struct anc_tx *t = &h->at;

	if (anc_state(h->tx) != ANC_RESTORING)
		return;
	if (anc_resume_from(h->tx, t, KEEP, &from, &kept) < 0)
		return;
	must(from <= t->sent);
	for (off = from; off < t->sent; off += n) {
		must(++steps <= 3);
		if (anc_in_keep(t, from, off, &at, &n)) {
			must(at == keeps);
			keeps += n;
			must(keeps <= KEEP && kept <= KEEP - keeps);
		} else {
			must(off >= t->x && off + n <= t->y);
		}
		must(n && n <= t->sent - off);
	}
	anc_resumed(h->tx);
}

static void writes(struct host *h, struct input *in)
{
	uint8_t arg = in_byte(in);
	struct anc_dir *d = h->tx;
	struct anc_tx *t = &h->at;

	switch (arg % 8) {
	case 0:
		anc_sent(d, t, some(h, in, UINT64_MAX));
		break;
	case 1:
		if (anc_switch(d, t, arg & 0x80) >= 0)
			must(t->x == t->sent && t->y == ANC_OPEN);
		break;
	case 2:
		if (!anc_stall(d, t, arg & 0x80))
			must(t->y == t->sent);
		break;
	case 3:
		anc_answer(d, t);
		break;
	case 4:
		restores(h);
		break;
	case 5:
		if (anc_may_kick(d, t))
			anc_kick(d, t);
		break;
	case 6:
		anc_put_begin(d);
		anc_ring(d);
		anc_put_end(d);
		break;
	default:
		anc_risen(d, t);
		break;
	}
}

static void holds(struct host *h, struct input *in)
{
	struct anc_dir *d = in_byte(in) & 1 ? h->tx : h->rx;

	switch (in_byte(in) % 5) {
	case 0:
		if (!anc_busy(d))
			anc_idle(d);
		break;
	case 1:
		anc_idle(d);
		break;
	case 2:
		anc_arm(d, in_byte(in) & 3);
		break;
	case 3:
		if (anc_state(h->rx) == ANC_RESTORING &&
		    anc_revive_begin(h->rx, &h->ar))
			anc_revive(h->rx, &h->ar);
		break;
	default:
		anc_tcp_leave(h->rx);
		break;
	}
	must(anc_state_name(anc_state(d)));
}

static void one_host(struct input *in)
{
	static struct anc_page page;
	struct host h = { .page = &page,
			  .tx = &page.dir[0],
			  .rx = &page.dir[1] };

	memset(&page, 0, sizeof(page));
	while (in_more(in)) {
		switch (in_byte(in) % 8) {
		case 0:
		case 1:
		case 2:
			poke(&h, in);
			break;
		case 3:
		case 4:
			receives(&h, in);
			break;
		case 5:
			falls_back(&h, in);
			break;
		case 6:
			writes(&h, in);
			break;
		default:
			holds(&h, in);
			break;
		}
	}
}

/* --- two hosts: snapshots that the peer makes up --------------------------- */

struct far {
	struct anc_page mirror;
	struct anc_tx at;
	struct anc_rx ar;
	struct remote r;
};

/* Bytes 0..3, epoch, question, kicks, place, count: as if it followed. */
static void snapshot(struct far *f, struct input *in, uint8_t *s)
{
	uint8_t kind = in_byte(in);
	bool writer = kind & 1;
	struct anc_dir *d = writer ? f->r.rx : f->r.tx;
	uint64_t count = writer ? d->sent : d->taken;

	if (kind & 2) {
		in_bytes(in, s, REMOTE_LEN);
		return;
	}
	memset(s, 0, REMOTE_LEN);
	s[0] = writer ? REMOTE_WRITER : REMOTE_READER;
	s[1] = kind & 4 ? in_byte(in) % 9 : (uint8_t)anc_state(d);
	s[2] = kind & 8 ? in_byte(in) : 0x01;
	s[3] = kind & 16 ? in_byte(in) : f->r.burn_seen;
	wire_put32(s + 4, d->epoch + (kind >> 5 & 3));
	wire_put32(s + 8,
		   (writer ? f->r.wait_seen : f->r.wait_done) + (kind >> 7));
	wire_put32(s + 12,
		   (writer ? f->r.kicks : f->r.kicks_asked) + in_byte(in) % 4);
	wire_put64(s + 24, in_near(in, count));
	wire_put64(s + 16, in_near(in, wire_get64(s + 24)));
}

/* Refused, it changes nothing; taken, what the room relies on holds. */
static void takes(struct far *f, struct input *in)
{
	uint8_t s[REMOTE_LEN];
	struct far was = *f;
	int news;

	snapshot(f, in, s);
	news = remote_take(&f->r, s);
	if (news < 0) {
		must(news == -EPROTO);
		must(!memcmp(&was, f, sizeof(was)));
		return;
	}
	must(!(news & ~0x7f));
	must(f->r.rx->sent >= was.r.rx->sent);
	must(anc_state(f->r.rx) < ANC_STATES &&
	     anc_state(f->r.tx) < ANC_STATES);
	must(anc_state(f->r.rx) != ANC_GONE);
	must(f->r.rx->kicks >= was.mirror.dir[1].kicks);
	must(s[0] != REMOTE_READER || anc_state(f->r.tx) != ANC_LIFTED ||
	     f->r.tx->taken <= f->at.sent);
	must(f->r.tx->taken >= was.mirror.dir[0].taken);
}

static void makes(struct far *f, struct input *in)
{
	uint8_t out[REMOTE_LEN], arg = in_byte(in);

	if (remote_make(&f->r, arg & 1 ? REMOTE_READER : REMOTE_WRITER, arg & 2,
			out))
		must(out[0] < REMOTE_HALVES && out[1] < ANC_STATES);
	remote_seen(&f->r);
	remote_sure(&f->r);
	remote_held(&f->r);
	if (arg & 4)
		remote_kicks_ahead(&f->r);
}

static void two_hosts(struct input *in)
{
	static struct far f;
	struct host h = { .page = &f.mirror,
			  .tx = &f.mirror.dir[0],
			  .rx = &f.mirror.dir[1] };

	memset(&f, 0, sizeof(f));
	remote_init(&f.r, &f.mirror, &f.at, &f.ar);
	while (in_more(in)) {
		h.at = f.at;
		h.ar = f.ar;
		switch (in_byte(in) % 8) {
		case 0:
		case 1:
		case 2:
			takes(&f, in);
			continue;
		case 3:
			makes(&f, in);
			continue;
		case 4:
			receives(&h, in);
			break;
		case 5:
			falls_back(&h, in);
			break;
		case 6:
			writes(&h, in);
			break;
		default:
			holds(&h, in);
			break;
		}
		f.at = h.at;
		f.ar = h.ar;
	}
}

/* --- the anchor behind a broken queue pair -------------------------------- */

static const uint8_t marker[RESUME_MARKER] = "sixteen bytes!!";
static const uint8_t secret[RESUME_SECRET] = "another sixteen";

static void begins(struct resume *r, struct input *in)
{
	uint8_t kind = in_byte(in);
	enum anc_state st = in_byte(in) % ANC_STATES;

	memset(r, 0, sizeof(*r));
	r->marker = marker;
	r->secret = secret;
	r->from = in_byte(in);
	resume_begin(r, st, kind & 1, kind & 2);
	if (r->phase == RESUME_AT_MARKER && kind & 4)
		r->marker_got = in_byte(in) % RESUME_MARKER;
	if (r->stalled)
		r->kicks = in_byte(in) +
			   (r->phase == RESUME_AT_MARKER ?
				    RESUME_MARKER - (uint64_t)r->marker_got :
				    0);
}

/* More of the stream: kicks, marker, records, or any bytes. */
static size_t comes(struct input *in, uint8_t *p, size_t room)
{
	uint8_t kind = in_byte(in);
	size_t n = 0;

	switch (kind % 6) {
	case 0:
		n = in_byte(in) % 40;
		memset(p, 0, n);
		break;
	case 1:
		n = RESUME_MARKER;
		memcpy(p, marker, n);
		break;
	case 2:
		n = RESUME_RECORD;
		resume_record(p, secret, in_byte(in));
		break;
	case 3:
		n = RESUME_RECORD;
		resume_give(p, secret, in_byte(in));
		break;
	default:
		n = in_byte(in) % room;
		in_bytes(in, p, n);
		break;
	}
	if (kind & 0x80 && n)
		p[in_byte(in) % n] ^= (uint8_t)(1 << (kind >> 4 & 7));
	return n;
}

/* What lies there is looked at until it says what it is, or needs more. */
static int looks(struct resume *r, const uint8_t *p, size_t n, uint64_t arrived,
		 size_t *gone)
{
	uint8_t *heap;
	size_t eat, left;
	int ret, turns = 0;

	*gone = 0;
	do {
		left = n - *gone;
		heap = malloc(left ? left : 1);
		must(heap);
		memcpy(heap, p + *gone, left);
		resume_called(r, heap, left);
		ret = resume_look(r, heap, left, arrived, &eat);
		free(heap);
		must(eat <= left);
		must(ret == 0 || ret == 1 || ret == -EPROTO);
		must(r->marker_got <= RESUME_MARKER);
		must(r->phase <= RESUME_SKIP);
		must(ret != 1 || r->phase == RESUME_PLAIN);
		*gone += eat;
		must(++turns < 100);
	} while (!ret && eat);
	return ret;
}

static void broken(struct input *in)
{
	uint8_t lies[512];
	uint64_t arrived;
	size_t n = 0, eaten;
	struct resume r;
	int ret = 0;

	begins(&r, in);
	arrived = in_near(in, r.from);
	while (in_more(in) && !ret) {
		if (n + 256 <= sizeof(lies))
			n += comes(in, lies + n, 200);
		else if (r.phase != RESUME_SKIP)
			return;
		ret = looks(&r, lies, n, arrived, &eaten);
		memmove(lies, lies + eaten, n - eaten);
		n -= eaten;
		resume_ended(&r);
		resume_fatal(&r);
		if (in_byte(in) > 250)
			resume_lost(&r, in_byte(in));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	switch (in_byte(&in) % 3) {
	case 0:
		one_host(&in);
		break;
	case 1:
		two_hosts(&in);
		break;
	default:
		broken(&in);
		break;
	}
	return 0;
}
