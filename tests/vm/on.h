/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * on.h - how `vm-on` talks to the agent of a node
 *
 * One TCP connection per command, over the second network of the machines,
 * which no test disturbs. Both ends are of one build, so numbers travel as
 * they are. The command is told by ON_CWD, ON_ARGV, ON_ENV, ON_RUN in this
 * order; then input, output and signals flow until ON_EXIT. An end that
 * disappears is noticed by the other: a command whose caller is gone is
 * killed, with its process group.
 */
#ifndef TESTS_VM_ON_H
#define TESTS_VM_ON_H

#include <stddef.h>
#include <stdint.h>

#define ON_PORT	       911
#define ON_CHUNK       65536u /* most bytes of ON_IN, ON_OUT, ON_ERR */
#define ON_STRINGS_MAX (2u << 20) /* of ON_ARGV, ON_ENV */

enum on_type {
	ON_CWD = 1, /* path */
	ON_ARGV, /* strings, each with its zero */
	ON_ENV, /* the same */
	ON_RUN, /* nothing: go */
	ON_WANT, /* agent: ready for one ON_IN */
	ON_IN, /* bytes of standard input; none: its end */
	ON_SIGNAL, /* int32_t, for the command's process */
	ON_OUT, /* bytes of standard output */
	ON_ERR, /* bytes of standard error */
	ON_EXIT, /* int32_t, status as of waitpid() */
};

struct on_head {
	uint32_t type;
	uint32_t len; /* of what follows */
};

/* Serves until killed; returns only on an error, as exit status. */
int on_serve(const char *address);

/* All n bytes, or -1: error or end of stream (errno 0). */
int on_read(int fd, void *buf, size_t n);

#endif
