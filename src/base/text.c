/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/text.h"

#include <string.h>

void text_char(struct text *t, char c)
{
	if (t->len + 1 >= t->size) {
		t->cut = true;
		return;
	}
	t->buf[t->len++] = c;
	t->buf[t->len] = '\0';
}

void text_bytes(struct text *t, const char *s, size_t n)
{
	size_t room = t->size - t->len;

	if (!t->size)
		return;
	if (n >= room) {
		n = room - 1;
		t->cut = true;
	}
	memcpy(t->buf + t->len, s, n);
	t->len += n;
	t->buf[t->len] = '\0';
}

/* One conversion, taken apart. */
struct spec {
	bool left, zero;
	int width, precision; /* precision < 0: not given */
	int length; /* 0 int, 1 long and all of its size, -1 short, -2 char */
	char conv;
};

static void text_fill(struct text *t, char c, int n)
{
	while (n-- > 0)
		text_char(t, c);
}

static void text_field(struct text *t, const struct spec *sp, const char *s,
		       size_t n)
{
	int pad = n < (size_t)sp->width ? sp->width - (int)n : 0;

	if (!sp->left)
		text_fill(t, ' ', pad);
	text_bytes(t, s, n);
	if (sp->left)
		text_fill(t, ' ', pad);
}

static void text_digits(struct text *t, const struct spec *sp, uint64_t v,
			unsigned int base, bool minus)
{
	const char *set = sp->conv == 'X' ? "0123456789ABCDEF" :
					    "0123456789abcdef";
	char buf[72];
	char *end = buf + sizeof(buf), *p = end;
	int want = sp->precision < 0 ? 1 : sp->precision;

	if (sp->zero && !sp->left && sp->precision < 0)
		want = sp->width - minus;
	if (want > 64)
		want = 64;
	for (; v || end - p < want; v /= base)
		*--p = set[v % base];
	if (minus)
		*--p = '-';
	text_field(t, sp, p, (size_t)(end - p));
}

static const char *spec_int(const char *p, int *value, va_list *ap)
{
	*value = 0;
	if (*p == '*') {
		*value = va_arg(*ap, int);
		return p + 1;
	}
	for (; *p >= '0' && *p <= '9'; p++)
		if (*value < 4096)
			*value = *value * 10 + (*p - '0');
	return p;
}

/* Reads the conversion behind a '%'; returns what follows it. */
static const char *spec_read(const char *p, struct spec *sp, va_list *ap)
{
	*sp = (struct spec){ .precision = -1 };
	for (; *p == '-' || *p == '0'; p++) {
		if (*p == '-')
			sp->left = true;
		else
			sp->zero = true;
	}
	p = spec_int(p, &sp->width, ap);
	if (sp->width < 0) {
		sp->left = true;
		sp->width = sp->width < -4096 ? 4096 : -sp->width;
	}
	if (*p == '.')
		p = spec_int(p + 1, &sp->precision, ap);
	for (;; p++) {
		if (*p == 'l' || *p == 'z' || *p == 'j' || *p == 't')
			sp->length = 1;
		else if (*p == 'h')
			sp->length--;
		else
			break;
	}
	sp->conv = *p;
	return *p ? p + 1 : p;
}

static void spec_signed(struct text *t, const struct spec *sp, va_list *ap)
{
	int64_t v = sp->length > 0 ? va_arg(*ap, long) : va_arg(*ap, int);

	if (sp->length == -1)
		v = (short)v;
	if (sp->length == -2)
		v = (signed char)v;
	text_digits(t, sp, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 10, v < 0);
}

static void spec_unsigned(struct text *t, const struct spec *sp, va_list *ap)
{
	uint64_t v = sp->length > 0 ? va_arg(*ap, unsigned long) :
				      va_arg(*ap, unsigned int);

	if (sp->length == -1)
		v = (unsigned short)v;
	if (sp->length == -2)
		v = (unsigned char)v;
	text_digits(t, sp, v, sp->conv == 'u' ? 10 : 16, false);
}

static void spec_string(struct text *t, const struct spec *sp, const char *s)
{
	if (!s)
		s = "(null)";
	text_field(t, sp, s,
		   sp->precision < 0 ? strlen(s) :
				       strnlen(s, (size_t)sp->precision));
}

static void spec_write(struct text *t, struct spec *sp, va_list *ap)
{
	char c;

	switch (sp->conv) {
	case 'd':
	case 'i':
		spec_signed(t, sp, ap);
		break;
	case 'u':
	case 'x':
	case 'X':
		spec_unsigned(t, sp, ap);
		break;
	case 'p':
		text_bytes(t, "0x", 2);
		text_digits(t, sp, (uintptr_t)va_arg(*ap, void *), 16, false);
		break;
	case 'c':
		c = (char)va_arg(*ap, int);
		text_field(t, sp, &c, 1);
		break;
	case 's':
		spec_string(t, sp, va_arg(*ap, const char *));
		break;
	case '\0':
		break;
	default:
		text_char(t, sp->conv);
	}
}

void text_vadd(struct text *t, const char *fmt, va_list ap)
{
	struct spec sp;
	va_list copy;

	va_copy(copy, ap);
	while (*fmt) {
		size_t plain = strcspn(fmt, "%");

		text_bytes(t, fmt, plain);
		fmt += plain;
		if (!*fmt)
			break;
		fmt = spec_read(fmt + 1, &sp, &copy);
		spec_write(t, &sp, &copy);
	}
	va_end(copy);
}

VARIADIC void text_add(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_vadd(t, fmt, ap);
	va_end(ap);
}

/* By the first byte; 0: none begins so. */
static size_t utf8_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >> 5 == 0x6)
		return 2;
	if (first >> 4 == 0xe)
		return 3;
	return first >> 3 == 0x1e ? 4 : 0;
}

size_t text_utf8(const char *s)
{
	static const uint32_t least[] = { 0, 0x20, 0xa0, 0x800, 0x10000 };
	unsigned char first = (unsigned char)*s;
	size_t n = utf8_length(first), i;
	uint32_t v = n > 1 ? first & (0x7fu >> n) : first;

	for (i = 1; i < n; i++) {
		if (((unsigned char)s[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | ((unsigned char)s[i] & 0x3f);
	}
	if (v < least[n] || v == 0x7f || v > 0x10ffff)
		return 0;
	return v >> 11 == 0x1b ? 0 : n; /* half of a pair of UTF-16 */
}

void text_json(struct text *t, const char *s)
{
	size_t n;

	text_char(t, '"');
	for (; *s; s += n ? n : 1) {
		n = text_utf8(s);
		if (!n)
			text_add(t, "\\u%04x", (unsigned char)*s);
		else if (*s == '"' || *s == '\\')
			text_add(t, "\\%c", *s);
		else
			text_bytes(t, s, n);
	}
	text_char(t, '"');
}

size_t text_number(const char *s, uint64_t max, uint64_t *value)
{
	uint64_t v = 0;
	size_t n = 0;

	for (; s[n] >= '0' && s[n] <= '9'; n++) {
		uint64_t digit = (uint64_t)(s[n] - '0');

		if ((n == 1 && s[0] == '0') || digit > max ||
		    v > (max - digit) / 10)
			return 0;
		v = v * 10 + digit;
	}
	if (n)
		*value = v;
	return n;
}

void text_copy(char *to, size_t size, const char *from)
{
	size_t n = strnlen(from, size - 1);

	memcpy(to, from, n);
	to[n] = '\0';
}

const char *text_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}
