/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* plan.c - what a connection does, drawn from its key */
#include "mixed.h"

#include <string.h>

/* splitmix64 */
uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t s = a ^ (b + 1) * 0xd1b54a32d192ed03ull;

	return draw(&s);
}

/* Each power of two up to `bits` as likely as the next: from 1 on. */
uint32_t draw_size(uint64_t *state, unsigned int bits)
{
	uint64_t top = 1ull << draw(state) % (bits + 1);

	return (uint32_t)(1 + draw(state) % top);
}

static uint32_t among(uint64_t *state, uint32_t n)
{
	return (uint32_t)(draw(state) % n);
}

void plan_of(const struct hello *h, struct plan *p)
{
	uint64_t s = mix(h->key, 1);

	memset(p, 0, sizeof(*p));
	p->dies = h->dies;
	if (!among(&s, 24) && !p->dies && !(board->without & WITHOUT_KILLS))
		p->dies = SERVER_DIES;
	p->steps = draw_size(&s, 6);
	p->first = among(&s, 2);
	switch (among(&s, 8)) {
	case 0:
		p->ending = UNREAD;
		break;
	case 1:
		p->ending = RESETS;
		break;
	case 2:
	case 3:
	case 4:
		p->ending = PLAIN;
		break;
	default:
		p->ending = HALF;
		break;
	}
	p->tail[0] = draw_size(&s, 20);
	p->tail[1] = draw_size(&s, 20);
}

static enum deed draw_deed(uint64_t *s)
{
	uint32_t n = among(s, 128);

	if (n < 12)
		return DUPS;
	if (n < 18)
		return OPTIONS;
	if (n < 20)
		return DELAYS;
	if (n < 22)
		return COMMAND;
	if (n < 24)
		return HOLDS;
	if (n < 26)
		return FORKS;
	if (n < 28)
		return EXECS;
	if (n < 31)
		return PASSES;
	return NOTHING;
}

void step_fits(struct step *st, const uint32_t *bytes)
{
	int e;

	for (e = 0; e < 4; e++)
		if (st->piece[e % 2] < bytes[e / 2] / 256)
			st->piece[e % 2] = bytes[e / 2] / 256;
}

void step_of(const struct hello *h, const struct plan *p, uint32_t i,
	     struct step *st)
{
	uint64_t s = mix(h->key, 1000 + i);
	unsigned int bits = p->steps > 16 ? 14 : p->steps > 4 ? 18 : 22;
	int e;

	memset(st, 0, sizeof(*st));
	st->order = (enum order)among(&s, ORDERS);
	st->bytes[0] = among(&s, 8) ? draw_size(&s, bits) : 0;
	st->bytes[1] = among(&s, 8) ? draw_size(&s, bits) : 0;
	for (e = 0; e < 2; e++) {
		st->way[e] = (enum way)among(&s, WAYS);
		st->wait[e] = among(&s, 2) ? BLOCKS :
					     (enum waits)among(&s, WAITS);
		st->piece[e] = among(&s, 4) ? BUFFER :
					      draw_size(&s, PIECE_BITS);
		st->deed[e] = draw_deed(&s);
		st->what[e] = (uint32_t)draw(&s);
	}
	step_fits(st, st->bytes);
}

static uint64_t word(uint64_t key, int dir, uint64_t i)
{
	uint64_t s = key + (uint64_t)dir * UINT64_C(0xa0761d6478bd642f) +
		     i * UINT64_C(0xe7037ed1a0b428db);

	return draw(&s);
}

void pattern(uint64_t key, int dir, uint64_t off, void *buf, size_t n)
{
	uint8_t *p = buf;

	while (n) {
		uint64_t w = word(key, dir, off / 8);
		size_t skip = off % 8, k = 8 - skip < n ? 8 - skip : n;

		memcpy(p, (uint8_t *)&w + skip, k);
		p += k;
		off += k;
		n -= k;
	}
}

size_t pattern_differs(uint64_t key, int dir, uint64_t off, const void *buf,
		       size_t n)
{
	const uint8_t *p = buf;
	size_t done = 0, i;

	while (done < n) {
		uint64_t w = word(key, dir, (off + done) / 8);
		size_t skip = (off + done) % 8;
		size_t k = 8 - skip < n - done ? 8 - skip : n - done;

		if (memcmp(p + done, (uint8_t *)&w + skip, k))
			for (i = 0; i < k; i++)
				if (p[done + i] != ((uint8_t *)&w)[skip + i])
					return done + i;
		done += k;
	}
	return n;
}

bool pattern_find(uint64_t key, int dir, uint64_t end, const void *buf,
		  uint64_t *off)
{
	uint64_t next[8], w, i;
	unsigned int a;

	for (a = 0; a < 8; a++)
		memcpy(&next[a], (const uint8_t *)buf + a, 8);
	for (i = 0; i < end / 8; i++) {
		w = word(key, dir, i);
		for (a = 0; a < 8; a++)
			if (next[a] == w && i * 8 >= a) {
				*off = i * 8 - a;
				return true;
			}
	}
	return false;
}
