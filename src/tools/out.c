/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/out.h"

#include <err.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define COLUMNS_MAX 24

struct table {
	size_t columns, cells, room;
	size_t width[COLUMNS_MAX];
	bool right[COLUMNS_MAX];
	char **cell; /* the header is the first row */
};

/* How wide it looks: a column for each character. */
static size_t columns_of(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static void table_add(struct table *t, char *s)
{
	size_t col = t->cells % t->columns, len, n;
	char *p;

	if (!s)
		err(2, "memory");
	if (t->cells == t->room) {
		t->room = t->room ? t->room * 2 : 64;
		t->cell = reallocarray(t->cell, t->room, sizeof(*t->cell));
		if (!t->cell)
			err(2, "memory");
	}
	for (p = s; *p; p += n ? n : 1) {
		n = text_utf8(p);
		if (!n)
			*p = '?';
	}
	len = columns_of(s);
	if (len > t->width[col])
		t->width[col] = len;
	t->cell[t->cells++] = s;
}

struct table *table_new(const char *columns)
{
	struct table *t = calloc(1, sizeof(*t));
	const char *p;
	size_t n;

	if (!t)
		err(2, "memory");
	for (p = columns, t->columns = 1; *p; p++)
		t->columns += *p == '|';
	while (t->cells < t->columns) {
		n = strcspn(columns, "|>");
		t->right[t->cells] = columns[n] == '>';
		table_add(t, strndup(columns, n));
		columns += strcspn(columns, "|");
		columns += *columns == '|';
	}
	return t;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	table_add(t, s);
}

void table_count(struct table *t, uint64_t n)
{
	static const char units[] = "KMGTPE";
	double v = (double)n;
	int u = -1;

	if (n < 10000) {
		table_cell(t, "%lu", (unsigned long)n);
		return;
	}
	for (; v >= 999.5 && u < 5; u++)
		v /= 1024;
	table_cell(t, v < 9.95 ? "%.1f%c" : "%.0f%c", v, units[u]);
}

static void table_row(const struct table *t, size_t row, FILE *f)
{
	size_t c, last = t->columns, gap = 0;

	while (last && !*t->cell[row * t->columns + last - 1])
		last--;
	for (c = 0; c < last; c++) {
		const char *s = t->cell[row * t->columns + c];
		size_t pad = t->width[c] - columns_of(s);

		fprintf(f, "%*s%s", (int)(gap + (t->right[c] ? pad : 0)), "",
			s);
		gap = 1 + (t->right[c] ? 0 : pad);
	}
	fputc('\n', f);
}

void table_body(struct table *t, FILE *f, bool header)
{
	size_t i;

	for (i = !header; i < t->cells / t->columns; i++)
		table_row(t, i, f);
	for (i = 0; i < t->cells; i++)
		free(t->cell[i]);
	free(t->cell);
	free(t);
}

void table_print(struct table *t, FILE *f)
{
	table_body(t, f, true);
}

void out_json(FILE *f, const char *s)
{
	struct text t = { .size = 6 * strlen(s) + 3 }; /* all of it \u00XX */

	t.buf = malloc(t.size);
	if (!t.buf)
		err(2, "memory");
	text_json(&t, s);
	fputs(t.buf, f);
	free(t.buf);
}

void out_clean(FILE *f, const char *s)
{
	size_t n;

	for (; *s; s += n ? n : 1) {
		n = text_utf8(s);
		fwrite(n ? s : "?", 1, n ? n : 1, f);
	}
}
