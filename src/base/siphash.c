/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/siphash.h"

static uint64_t rotl(uint64_t x, unsigned int n)
{
	return x << n | x >> (64 - n);
}

static void rounds(uint64_t v[4], int n)
{
	while (n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotl(v[1], 13) ^ v[0];
		v[3] = rotl(v[3], 16) ^ v[2];
		v[0] = rotl(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotl(v[1], 17) ^ v[2];
		v[3] = rotl(v[3], 21) ^ v[0];
		v[2] = rotl(v[2], 32);
	}
}

/* Up to eight bytes, little-endian. */
static uint64_t word(const uint8_t *p, size_t n)
{
	uint64_t w = 0;

	while (n--)
		w = w << 8 | p[n];
	return w;
}

uint64_t siphash(uint64_t k0, uint64_t k1, const void *data, size_t len)
{
	uint64_t v[4] = { k0 ^ 0x736f6d6570736575ull,
			  k1 ^ 0x646f72616e646f6dull,
			  k0 ^ 0x6c7967656e657261ull,
			  k1 ^ 0x7465646279746573ull };
	const uint8_t *p = data;
	uint64_t last = (uint64_t)len << 56, m;

	for (; len >= 8; p += 8, len -= 8) {
		m = word(p, 8);
		v[3] ^= m;
		rounds(v, 2);
		v[0] ^= m;
	}
	last |= word(p, len);
	v[3] ^= last;
	rounds(v, 2);
	v[0] ^= last;
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
