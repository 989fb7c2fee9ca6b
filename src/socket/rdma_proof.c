/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The content check (anchor.md section 7). A request names a connection, and
 * anybody on the peer's host could name another's. Only the two ends of the
 * TCP connection, and who can read it, know the bytes that went through: each
 * shows a keyed hash of the same window of them.
 *
 * A window is told in 16 bits: direction, length, and the low bits of the
 * offset of its end.
 */

#include "base/siphash.h"
#include "sdp_proto/wire.h"
#include "socket/rdma.h"

#define BY_DIALLER 0x8000u /* bytes that the dialler sent, else took */
#define LEN_SHIFT  13
#define AT_MASK	   (RDMA_HIST - 1u)

#define KEY_ASK	   0x7364702d61736b21ull /* the roles of the hashes */
#define KEY_ANSWER 0x7364702d616e7377ull
#define KEY_TOKEN  0x7364702d746f6b65ull

static uint32_t window_len(unsigned int code)
{
	return 64u << (2 * code); /* 64, 256, 1024, 4096 */
}

/*
 * What moved without being seen (sendfile, another thread at the same time)
 * makes a gap: then the past is forgotten.
 */
void rdma_remember(struct sock *s, bool sent, const struct iovec *iov,
		   size_t cnt, size_t at, size_t n)
{
	struct rdma *r = s->rd;
	struct rdma_hist *h = r ? r->hist : NULL;
	int d = sent ? 0 : 1;
	uint64_t now;

	if (!h || r->owner != sock_pid ||
	    __atomic_exchange_n(&h->dir[d].busy, 1, __ATOMIC_ACQUIRE))
		return;
	now = __atomic_load_n(sent ? &s->at.sent : &s->ar.taken,
			      __ATOMIC_SEQ_CST);
	if (h->dir[d].end + n != now)
		h->dir[d].start = h->dir[d].end = now - n;
	for (; cnt && n; iov++, cnt--, at = 0) {
		const uint8_t *p = (const uint8_t *)iov->iov_base + at;
		size_t len = iov->iov_len - at < n ? iov->iov_len - at : n;

		n -= len;
		if (len > RDMA_HIST) {
			h->dir[d].end += len - RDMA_HIST;
			p += len - RDMA_HIST;
			len = RDMA_HIST;
		}
		while (len--)
			h->dir[d].ring[h->dir[d].end++ & AT_MASK] = *p++;
	}
	if (h->dir[d].end - h->dir[d].start > RDMA_HIST)
		h->dir[d].start = h->dir[d].end - RDMA_HIST;
	__atomic_store_n(&h->dir[d].busy, 0, __ATOMIC_RELEASE);
}

/* [end - len, end) of that direction into the window, if it is there. */
static bool window_take(struct rdma_hist *h, int d, uint64_t end, uint32_t len)
{
	bool ok;
	uint32_t i;

	if (__atomic_exchange_n(&h->dir[d].busy, 1, __ATOMIC_ACQUIRE))
		return false;
	ok = end <= h->dir[d].end && end >= len && end - len >= h->dir[d].start;
	for (i = 0; ok && i < len; i++)
		h->window[i] = h->dir[d].ring[(end - len + i) & AT_MASK];
	h->window_len = ok ? len : 0;
	__atomic_store_n(&h->dir[d].busy, 0, __ATOMIC_RELEASE);
	return ok;
}

/*
 * Bytes the dialler has taken are surely known to the other end, those it has
 * sent perhaps not yet; so the latter only when there are not enough of the
 * former.
 */
bool rdma_choose(struct rdma *r, uint16_t *window)
{
	unsigned int code;
	int d;

	for (d = 1; d >= 0; d--)
		for (code = 4; code--;) {
			uint64_t end = r->hist->dir[d].end;

			if (!window_take(r->hist, d, end, window_len(code)))
				continue;
			*window =
				(uint16_t)((d ? 0 : BY_DIALLER) |
					   code << LEN_SHIFT | (end & AT_MASK));
			return true;
		}
	return false;
}

bool rdma_find(struct rdma *r, uint16_t window)
{
	unsigned int code = window >> LEN_SHIFT & 3;
	int d = window & BY_DIALLER ? 1 : 0; /* what it sent we took */
	uint64_t now, end;

	if (!r->hist)
		return false;
	now = r->hist->dir[d].end;
	end = (now & ~(uint64_t)AT_MASK) | (window & AT_MASK);
	if (end > now && end >= RDMA_HIST)
		end -= RDMA_HIST;
	return window_take(r->hist, d, end, window_len(code));
}

uint32_t rdma_check(const struct rdma *r, bool dialler, uint64_t key)
{
	return (uint32_t)siphash(key, dialler ? KEY_ASK : KEY_ANSWER,
				 r->hist->window, r->hist->window_len);
}

static void token(const struct rdma *r, bool dialler, uint8_t *to)
{
	uint64_t d = r->dials ? r->token : r->peer_token;
	uint64_t a = r->dials ? r->peer_token : r->token;
	uint64_t half, i;

	for (i = 0; i < 2; i++) {
		half = siphash(d ^ KEY_TOKEN, a ^ (i << 1 | dialler),
			       r->hist->window, r->hist->window_len);
		wire_put64(to + 8 * i, half);
	}
}

void rdma_tokens(struct rdma *r)
{
	token(r, r->dials, r->token_tx);
	token(r, !r->dials, r->token_rx);
}
