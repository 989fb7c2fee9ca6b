/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* After a broken queue pair, see resume.h. */

#include <errno.h>
#include <string.h>

#include "base/siphash.h"
#include "sdp_proto/wire.h"
#include "handover_proto/resume.h"

#define BEGINS	  1 /* no kick */
#define GIVES	  2 /* nor that */
#define FROM_AT	  20
#define CHECK_AT  28
#define KEY_CHECK 0x7364702d72736d65ull

static uint32_t check(const uint8_t *rec)
{
	return (uint32_t)siphash(wire_get64(rec + 1), KEY_CHECK, rec, CHECK_AT);
}

enum resume_tx resume_tx(enum anc_state st, bool confirmed)
{
	switch (st) {
	case ANC_SWITCHING: /* a receive of before may take all that comes */
		return RESUME_BACK;
	case ANC_RESTORING: /* R waits for a word, and there is no other */
		return RESUME_RECORDED;
	case ANC_LIFTED:
	case ANC_RECALLED:
	case ANC_PAUSED:
		return confirmed ? RESUME_RECORDED : RESUME_BACK;
	case ANC_DRAINING:
		return confirmed ? RESUME_NOTHING : RESUME_RECORDED;
	default:
		return RESUME_NOTHING;
	}
}

static void record(uint8_t *to, uint8_t first, const uint8_t *secret,
		   uint64_t from)
{
	memset(to, 0, RESUME_RECORD);
	to[0] = first;
	memcpy(to + 1, secret, RESUME_SECRET);
	wire_put64(to + FROM_AT, from);
	wire_put32(to + CHECK_AT, check(to));
}

void resume_record(uint8_t to[RESUME_RECORD],
		   const uint8_t secret[RESUME_SECRET], uint64_t from)
{
	record(to, BEGINS, secret, from);
}

void resume_give(uint8_t to[RESUME_RECORD], const uint8_t secret[RESUME_SECRET],
		 uint64_t from)
{
	record(to, GIVES, secret, from);
}

/* As much of a record as is there begins like one? */
static bool like(const uint8_t *secret, uint8_t first, const uint8_t *p,
		 size_t n)
{
	if (n && p[0] != first)
		return false;
	if (n > 1 + RESUME_SECRET)
		n = 1 + RESUME_SECRET;
	return n < 2 || !memcmp(p + 1, secret, n - 1);
}

int resume_given(const uint8_t secret[RESUME_SECRET], const uint8_t *p,
		 size_t n, uint64_t from)
{
	if (!like(secret, GIVES, p, n))
		return -EPROTO;
	if (n < RESUME_RECORD)
		return 0;
	return wire_get32(p + CHECK_AT) == check(p) &&
			       wire_get64(p + FROM_AT) == from ?
		       1 :
		       -EPROTO;
}

void resume_begin(struct resume *r, enum anc_state st, bool marker_wait,
		  bool sure)
{
	r->skip = 0;
	r->back = r->given = false;
	r->stalled = st == ANC_DRAINING;
	r->home = st == ANC_RESTORING;
	r->sure = sure;
	switch (st) {
	case ANC_SWITCHING:
	case ANC_LIFTED:
	case ANC_RECALLED:
	case ANC_PAUSED:
		r->phase = marker_wait ? RESUME_AT_MARKER : RESUME_AT_KICKS;
		break;
	case ANC_DRAINING:
		/* what the marker hides is let go of only behind it */
		r->phase = marker_wait ? RESUME_AT_MARKER :
			   sure	       ? RESUME_PLAIN :
					 RESUME_MAYBE;
		break;
	case ANC_TCP:
		r->phase = sure ? RESUME_PLAIN : RESUME_MAYBE;
		break;
	case ANC_RESTORING:
		r->phase = sure ? RESUME_PLAIN : RESUME_AT_GIVEN;
		break;
	default:
		r->phase = RESUME_PLAIN;
		break;
	}
}

static bool like_record(const struct resume *r, const uint8_t *p, size_t n)
{
	return like(r->secret, BEGINS, p, n);
}

/* n more bytes of the marker were there. */
static void marker_is(struct resume *r, size_t n)
{
	r->marker_got = (uint8_t)(r->marker_got + n);
	r->kicks -= n;
	if (r->marker_got < RESUME_MARKER)
		return;
	if (!r->stalled)
		r->phase = RESUME_AT_KICKS;
	else
		r->phase = r->sure ? RESUME_PLAIN : RESUME_MAYBE;
}

static int at_marker(struct resume *r, const uint8_t *p, size_t n, size_t *eat)
{
	size_t left = RESUME_MARKER - (size_t)r->marker_got;

	if (n && memcmp(p, r->marker + r->marker_got, n < left ? n : left)) {
		if (r->marker_got || r->stalled)
			return -EPROTO;
		r->phase = RESUME_PLAIN;
		r->back = true;
		return 1;
	}
	if (n < left)
		return 0;
	*eat = left;
	marker_is(r, left);
	return r->phase == RESUME_PLAIN;
}

void resume_lost(struct resume *r, uint64_t n)
{
	size_t part = RESUME_MARKER - (size_t)r->marker_got;

	if (r->phase == RESUME_AT_MARKER) {
		part = n < part ? (size_t)n : part;
		marker_is(r, part);
		n -= part;
	}
	r->kicks -= n < r->kicks ? n : r->kicks;
}

static int at_record(struct resume *r, const uint8_t *p, size_t n,
		     uint64_t arrived, size_t *eat)
{
	uint64_t from;

	if (n < RESUME_RECORD)
		return 0;
	from = wire_get64(p + FROM_AT);
	/* what W does not have any more has arrived */
	if (wire_get32(p + CHECK_AT) != check(p) || from > arrived)
		return -EPROTO;
	*eat = RESUME_RECORD;
	r->skip = arrived - from;
	r->phase = r->skip ? RESUME_SKIP : RESUME_PLAIN;
	return r->skip ? 0 : 1;
}

static int at_given(struct resume *r, const uint8_t *p, size_t n,
		    uint64_t arrived, size_t *eat)
{
	if (like(r->secret, GIVES, p, n)) {
		int ret = resume_given(r->secret, p, n, r->from);

		r->given = ret == 1;
		*eat = r->given ? RESUME_RECORD : 0;
		if (r->given)
			r->phase = RESUME_PLAIN;
		return ret;
	}
	if (like_record(r, p, n))
		return at_record(r, p, n, arrived, eat);
	r->phase = RESUME_PLAIN;
	return 1;
}

static size_t zeros(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && !p[i])
		i++;
	return i;
}

bool resume_turn(const struct resume *r, const struct anc_dir *rx,
		 const struct anc_rx *ar)
{
	return r->home ||
	       (!__atomic_load_n(&rx->tcp_rx, __ATOMIC_SEQ_CST) &&
		ar->taken >= __atomic_load_n(&rx->x, __ATOMIC_ACQUIRE));
}

int resume_look(struct resume *r, const uint8_t *p, size_t n, uint64_t arrived,
		size_t *eat)
{
	*eat = 0;
	switch (r->phase) {
	case RESUME_AT_MARKER:
		return at_marker(r, p, n, eat);
	case RESUME_AT_KICKS:
		*eat = zeros(p, n);
		if (*eat)
			return 0;
		if (!like_record(r, p, n))
			return -EPROTO;
		return at_record(r, p, n, arrived, eat);
	case RESUME_MAYBE:
		if (r->kicks && n) {
			*eat = zeros(p, n < r->kicks ? n : (size_t)r->kicks);
			r->kicks -= *eat;
			return *eat ? 0 : -EPROTO;
		}
		if (!like_record(r, p, n)) {
			r->phase = RESUME_PLAIN;
			return 1;
		}
		return at_record(r, p, n, arrived, eat);
	case RESUME_AT_GIVEN:
		return at_given(r, p, n, arrived, eat);
	case RESUME_SKIP:
		*eat = n < r->skip ? n : (size_t)r->skip;
		r->skip -= *eat;
		if (r->skip)
			return 0;
		r->phase = RESUME_PLAIN;
		return 1;
	default:
		return 1;
	}
}

bool resume_ended(const struct resume *r)
{
	return r->phase == RESUME_PLAIN || r->phase == RESUME_AT_GIVEN ||
	       (r->phase == RESUME_MAYBE && !r->kicks) ||
	       (r->phase == RESUME_AT_MARKER && !r->marker_got && !r->stalled);
}

bool resume_fatal(const struct resume *r)
{
	return (r->phase == RESUME_AT_MARKER || r->phase == RESUME_AT_KICKS) &&
	       !r->stalled;
}

bool resume_called(const struct resume *r, const uint8_t *p, size_t n)
{
	size_t left = RESUME_MARKER - (size_t)r->marker_got;

	if (r->phase == RESUME_AT_MARKER) {
		if (n <= left || memcmp(p, r->marker + r->marker_got, left))
			return false;
		p += left;
		n -= left;
	} else if (r->phase != RESUME_AT_KICKS) {
		return false;
	}
	while (n && !*p) {
		p++;
		n--;
	}
	return n > RESUME_SECRET && like_record(r, p, n);
}
