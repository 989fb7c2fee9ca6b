/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The content check (anchor.md section 7). A request names a connection, and
 * any process on the peer's host could name another's. Only the two ends of the
 * TCP connection, and those that can read it, know the bytes that went through:
 * each shows a keyed hash of the same window of them.
 *
 * Which window? At rest the last bytes of a direction are the same at both
 * ends. While a stream runs its writer is ahead by what the kernels hold, maybe
 * megabytes: so both ends keep digests of the bytes behind each multiple of
 * MARK_STEP, and the dialler names one of those. Nothing has to be agreed on
 * beforehand, and no byte is kept for long.
 *
 * Nothing at all is shown between hosts that trust each other (a setting of
 * both) when too little was moved: in front of the first byte, as rules `sdp`
 * want it.
 *
 * A window is told in 16 bits: direction, kind, and the low bits of the offset
 * of its end or of the mark's number.
 */

#include "base/siphash.h"
#include "sdp_proto/wire.h"
#include "socket/peer/peer.h"

#define BY_DIALLER 0x8000u /* bytes that the dialler sent, else took */
#define KIND_SHIFT 13
#define KIND_MARK  3u /* less: the last 64, 512 or 4096 bytes */
#define AT_MASK	   (RDMA_HIST - 1u)

#define KEY_ASK	   0x7364702d61736b21ull /* the roles of the hashes */
#define KEY_ANSWER 0x7364702d616e7377ull
#define KEY_RECORD 0x7364702d7265636full
#define KEY_TOKEN  0x7364702d746f6b65ull
#define KEY_MARK   0x7364702d6d61726bull

static uint32_t window_len(unsigned int kind)
{
	return 64u << (3 * kind); /* 64, 512, 4096 */
}

/* --- remembering ------------------------------------------------------- */

/* Bytes of the program, and where the first of them lies in the stream. */
struct piece {
	const struct iovec *iov;
	size_t cnt, at;
	uint64_t from, len;
};

/* n of them from stream offset `off` on. False: they are not there any more. */
static bool piece_get(const struct piece *p, uint64_t off, void *to, size_t n)
{
	struct cursor c = { .iov = p->iov, .left = p->cnt, .at = p->at };

	cursor_skip(&c, (size_t)(off - p->from));
	return cursor_get(&c, to, n);
}

/* The last of them into the ring. */
static bool keep_last(struct rdma_dir *d, const struct piece *p)
{
	uint64_t n = p->len < RDMA_HIST ? p->len : RDMA_HIST;
	uint64_t off = d->end - n;
	size_t room = RDMA_HIST - (size_t)(off & AT_MASK);

	if (room > n)
		room = (size_t)n;
	return piece_get(p, off, d->ring + (off & AT_MASK), room) &&
	       (n == room ||
		piece_get(p, off + room, d->ring, (size_t)n - room));
}

/* What lies behind a mark is gathered until its window is full. */
static void gather(struct rdma_dir *d, uint64_t no, const struct piece *p)
{
	uint64_t at = no * MARK_STEP, end = at + MARK_LEN;
	struct rdma_mark *m = &d->mark[no % MARKS];
	uint64_t from = at > p->from ? at : p->from;
	uint64_t to = end < d->end ? end : d->end;

	if (from == at)
		d->got = 0;
	if (from - at != d->got || d->start > at)
		return; /* a part of it was not seen */
	if (!piece_get(p, from, d->behind + d->got, (size_t)(to - from))) {
		d->start = d->end;
		return;
	}
	d->got += (uint32_t)(to - from);
	if (d->got < MARK_LEN)
		return;
	m->no = no + 1;
	m->digest[0] = siphash(KEY_MARK, 0, d->behind, MARK_LEN);
	m->digest[1] = siphash(KEY_MARK, 1, d->behind, MARK_LEN);
}

/* Every mark whose window has bytes among these. */
static void keep_marks(struct rdma_dir *d, const struct piece *p)
{
	uint64_t no = p->from / MARK_STEP;

	if (p->from % MARK_STEP >= MARK_LEN)
		no++;
	for (; no * MARK_STEP < d->end; no++)
		gather(d, no, p);
}

/*
 * What moved without being seen (splice, another thread at the same time,
 * memory that is gone) makes a gap: then the past is forgotten.
 */
void rdma_remember(struct sock *s, bool sent, const struct iovec *iov,
		   size_t cnt, size_t at, size_t n)
{
	struct rdma *r = s->rd;
	struct rdma_hist *h = r ? r->seek.hist : NULL;
	struct piece p = { iov, cnt, at, 0, n };
	struct rdma_dir *d;
	uint64_t now;

	if (!h || r->owner != sock_pid)
		return;
	d = &h->dir[sent ? 0 : 1];
	if (__atomic_exchange_n(&d->busy, 1, __ATOMIC_ACQUIRE))
		return;
	now = __atomic_load_n(sent ? &s->at.sent : &s->ar.taken,
			      __ATOMIC_SEQ_CST);
	p.from = now - n;
	if (d->end != p.from)
		d->start = p.from;
	d->end = now;
	if (keep_last(d, &p))
		keep_marks(d, &p);
	else
		d->start = now;
	__atomic_store_n(&d->busy, 0, __ATOMIC_RELEASE);
}

/* --- windows ----------------------------------------------------------- */

/* [end - len, end) of that direction into the window, if it is there. */
static bool window_take(struct rdma_hist *h, int dir, uint64_t end,
			uint32_t len)
{
	struct rdma_dir *d = &h->dir[dir];
	uint64_t first;
	uint32_t i;
	bool ok;

	if (__atomic_exchange_n(&d->busy, 1, __ATOMIC_ACQUIRE))
		return false;
	first = d->end > RDMA_HIST ? d->end - RDMA_HIST : 0;
	if (first < d->start)
		first = d->start;
	ok = end <= d->end && end >= len && end - len >= first;
	for (i = 0; ok && i < len; i++)
		h->window[i] = d->ring[(end - len + i) & AT_MASK];
	h->window_len = ok ? len : 0;
	__atomic_store_n(&d->busy, 0, __ATOMIC_RELEASE);
	return ok;
}

/* The digest of that mark instead. */
static bool mark_take(struct rdma_hist *h, int dir, uint64_t no)
{
	struct rdma_dir *d = &h->dir[dir];
	struct rdma_mark *m = &d->mark[no % MARKS];
	bool ok;

	if (__atomic_exchange_n(&d->busy, 1, __ATOMIC_ACQUIRE))
		return false;
	ok = m->no == no + 1;
	if (ok)
		memcpy(h->window, m->digest, sizeof(m->digest));
	h->window_len = ok ? sizeof(m->digest) : 0;
	__atomic_store_n(&d->busy, 0, __ATOMIC_RELEASE);
	return ok;
}

/* The newest mark with all its window in front of `end`; UINT64_MAX: none. */
static uint64_t mark_before(uint64_t end)
{
	return end < MARK_LEN ? UINT64_MAX : (end - MARK_LEN) / MARK_STEP;
}

static bool choose_mark(struct rdma_hist *h, int dir, uint64_t end,
			uint16_t *window)
{
	uint64_t no = mark_before(end);

	if (no == UINT64_MAX || !mark_take(h, dir, no))
		return false;
	*window = (uint16_t)((dir ? 0 : BY_DIALLER) | KIND_MARK << KIND_SHIFT |
			     (no & AT_MASK));
	return true;
}

static bool choose_last(struct rdma_hist *h, int dir, uint16_t *window)
{
	uint64_t end = h->dir[dir].end;
	unsigned int kind;

	for (kind = KIND_MARK; kind--;)
		if (window_take(h, dir, end, window_len(kind))) {
			*window = (uint16_t)((dir ? 0 : BY_DIALLER) |
					     kind << KIND_SHIFT |
					     (end & AT_MASK));
			return true;
		}
	return false;
}

/*
 * The dialler cannot know what of this the other end knows: how far that is
 * ahead with what we took, or behind with what we sent. So each try shows
 * something else: the last bytes, a mark among the bytes it took, and one that
 * it had sent when it tried before.
 */
bool rdma_choose(struct rdma *r, uint16_t *window)
{
	struct rdma_hist *h = r->seek.hist;
	unsigned int i;

	for (i = 0; i < 3; i++)
		switch ((r->seek.tries + i) % 3) {
		case 0:
			if (choose_last(h, 1, window) ||
			    choose_last(h, 0, window))
				return true;
			break;
		case 1:
			if (choose_mark(h, 1, h->dir[1].end, window))
				return true;
			break;
		default:
			if (choose_mark(h, 0, r->seek.sent_then, window))
				return true;
			break;
		}
	h->window_len = 0;
	*window = 0;
	return r->seek.trusted;
}

bool rdma_find(struct rdma *r, uint16_t window)
{
	unsigned int kind = window >> KIND_SHIFT & 3;
	int d = window & BY_DIALLER ? 1 : 0; /* what it sent we took */
	uint64_t now, at;

	if (!r->seek.hist)
		return false;
	now = r->seek.hist->dir[d].end;
	if (kind == KIND_MARK)
		now = mark_before(now);
	if (now == UINT64_MAX)
		return false;
	at = (now & ~(uint64_t)AT_MASK) | (window & AT_MASK);
	if (at > now && at >= RDMA_HIST)
		at -= RDMA_HIST;
	if (kind == KIND_MARK)
		return mark_take(r->seek.hist, d, at);
	return window_take(r->seek.hist, d, at, window_len(kind));
}

bool rdma_find_bare(struct rdma *r)
{
	if (!r->seek.hist || !r->seek.trusted)
		return false;
	r->seek.hist->window_len = 0;
	return true;
}

uint32_t rdma_check(const struct rdma *r, bool dialler, uint64_t key)
{
	return (uint32_t)siphash(key, dialler ? KEY_ASK : KEY_ANSWER,
				 r->seek.hist->window,
				 r->seek.hist->window_len);
}

static void token(const struct rdma *r, bool dialler, uint64_t key, uint8_t *to)
{
	uint64_t d = r->seek.dials ? r->seek.token : r->seek.peer_token;
	uint64_t a = r->seek.dials ? r->seek.peer_token : r->seek.token;
	uint64_t half, i;

	for (i = 0; i < 2; i++) {
		half = siphash(d ^ key, a ^ (i << 1 | dialler),
			       r->seek.hist->window, r->seek.hist->window_len);
		wire_put64(to + 8 * i, half);
	}
}

void rdma_markers(struct rdma *r)
{
	token(r, r->seek.dials, KEY_TOKEN, r->mark.marker_tx);
	token(r, !r->seek.dials, KEY_TOKEN, r->mark.marker_rx);
	token(r, r->seek.dials, KEY_RECORD, r->mark.secret_tx);
	token(r, !r->seek.dials, KEY_RECORD, r->mark.secret_rx);
}
