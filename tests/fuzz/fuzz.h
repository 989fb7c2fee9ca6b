/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

/*
 * What the targets share. A target has LLVMFuzzerTestOneInput() and `target`.
 * Built with -DLIBFUZZER and linked with a fuzzing engine its inputs come from
 * there, else from replay.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const struct target {
	const char *name; /* its inputs are in tests/fuzz/corpus/NAME */
	unsigned int changes; /* of each of them */
	unsigned int random; /* inputs of no meaning */
} target;

#define must(x)                                                            \
	do {                                                               \
		if (!(x)) {                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
				#x);                                       \
			abort();                                           \
		}                                                          \
	} while (0)

/* An input as a list of steps: a byte each, its arguments behind it. */
struct input {
	const uint8_t *at, *end;
};

static inline bool in_more(const struct input *in)
{
	return in->at < in->end;
}

/* Zeros behind the end. */
static inline uint8_t in_byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static inline uint16_t in_16(struct input *in)
{
	uint16_t v = in_byte(in);

	return (uint16_t)(v << 8 | in_byte(in));
}

/* Two bytes, or four. */
static inline uint32_t in_word(struct input *in)
{
	uint32_t v = in_16(in);

	return v & 0x8000 ? v << 16 | in_16(in) : v;
}

static inline uint64_t in_64(struct input *in)
{
	uint64_t v = 0;
	int i;

	for (i = 0; i < 8; i++)
		v = v << 8 | in_byte(in);
	return v;
}

/* A number that is near `v`, or any. */
static inline uint64_t in_near(struct input *in, uint64_t v)
{
	uint8_t way = in_byte(in);

	switch (way >> 6) {
	case 0:
		return v + way;
	case 1:
		return v - (way & 63);
	case 2:
		return v ^ 1ull << (way & 63);
	default:
		return way & 1 ? in_64(in) : in_word(in);
	}
}

static inline void in_bytes(struct input *in, uint8_t *to, size_t n)
{
	while (n--)
		*to++ = in_byte(in);
}

#endif
