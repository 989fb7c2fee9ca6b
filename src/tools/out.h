/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_OUT_H
#define LIBSDP_TOOLS_OUT_H

/* What the tools print: tables and JSON, on a stream. Out of memory ends. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct table;

/* Columns as "Pid>|Program|Fd>": `>` behind a name aligns to the right. */
struct table *table_new(const char *columns);
/* The next cell, row by row; what is not to be printed becomes `?`. */
void table_cell(struct table *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Bytes and counts in at most five characters: 1023, 9.8K, 12M. */
void table_count(struct table *t, uint64_t n);
/* Prints header and rows, no blanks at the ends of lines, and frees it. */
void table_print(struct table *t, FILE *f);

/* The same, without the header where it is not wanted. */
void table_body(struct table *t, FILE *f, bool header);

/* A JSON string with its quotes. */
void out_json(FILE *f, const char *s);
/* `s`, what is not to be printed as `?`. */
void out_clean(FILE *f, const char *s);

#endif
