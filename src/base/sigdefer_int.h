/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_SIGDEFER_INT_H
#define LIBSDP_BASE_SIGDEFER_INT_H

/* Between the files of sigdefer.h. */

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

struct guard;

/* The kernel's struct sigaction, on every processor that we know. */
struct kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

/* Handlers that ran in this thread; and those of them without SA_RESTART. */
extern __thread uint32_t sigdefer_ran
	__attribute__((tls_model("initial-exec")));
extern __thread uint32_t sigdefer_ended
	__attribute__((tls_model("initial-exec")));

/* Of what was put off, these are let in. Outside. */
void sigdefer_let_in(struct guard *g, uint64_t set);

/*
 * A handler is about to run in this thread, which is outside: a sleep that has
 * not begun yet does not, nor does one that the kernel would restart.
 */
void sigdefer_awake(ucontext_t *uc, bool restarts);

/* The sleep is over by itself, and the thread as good as inside again. */
bool sigdefer_back(const ucontext_t *uc);

#endif
