/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* SipHash-2-4 against the vectors of its authors. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/siphash.h"

/* Key 00 01 .. 0f, message 00 01 .. (len - 1). */
static void vectors(void **state)
{
	static const struct {
		size_t len;
		uint64_t hash;
	} v[] = {
		{ 0, 0x726fdb47dd0e0e31ull },  { 1, 0x74f839c593dc67fdull },
		{ 2, 0x0d6c8009d9a94f5aull },  { 3, 0x85676696d7fb7e2dull },
		{ 4, 0xcf2794e0277187b7ull },  { 5, 0x18765564cd99a68dull },
		{ 6, 0xcbc9466e58fee3ceull },  { 7, 0xab0200f58b01d137ull },
		{ 8, 0x93f5f5799a932462ull },  { 9, 0x9e0082df0ba9e4b0ull },
		{ 15, 0xa129ca6149be45e5ull },
	};
	uint8_t m[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(m); i++)
		m[i] = (uint8_t)i;
	for (i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		assert_int_equal(siphash(0x0706050403020100ull,
					 0x0f0e0d0c0b0a0908ull, m, v[i].len),
				 v[i].hash);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(vectors) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
