/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_TEXT_H
#define LIBSDP_BASE_TEXT_H

/*
 * Building strings in a buffer of the caller, without libc: no allocation,
 * no locale, no errno, so it may be used in signal handlers, constructors
 * and between fork and exec. The buffer always holds a terminated string;
 * what does not fit is cut off and `cut` is set.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	char *buf;
	size_t size, len; /* len < size, without the final zero */
	bool cut;
};

/*
 * Of a function with variable arguments, none of them floating-point: their
 * registers, 128 bytes, are not saved in its frame.
 */
#ifdef __x86_64__
#define VARIADIC __attribute__((target("general-regs-only")))
#else
#define VARIADIC
#endif

/* `array` is a char array, not a pointer. */
#define TEXT_IN(array)                                \
	{                                             \
		.buf = (array), .size = sizeof(array) \
	}

void text_char(struct text *t, char c);
void text_bytes(struct text *t, const char *s, size_t n);
/*
 * Conversions: d i u x X c s p % with flags '-' and '0', width, precision
 * (both also '*') and lengths hh h l ll z j t. Anything else is copied.
 */
void text_add(struct text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void text_vadd(struct text *t, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
/* Bytes of the printable UTF-8 character at `s`; 0: a control or no such. */
size_t text_utf8(const char *s);
/* A quoted JSON string; bytes that text_utf8() refuses become \u00XX. */
void text_json(struct text *t, const char *s);

/*
 * A decimal number without sign or leading zero at `s`, at most `max`.
 * Returns the number of digits, 0 when there is none or it is too large.
 */
size_t text_number(const char *s, uint64_t max, uint64_t *value);

/* Copy with termination, cutting off what does not fit. */
void text_copy(char *to, size_t size, const char *from);
/* What follows the last slash. */
const char *text_base_name(const char *path);

#endif
