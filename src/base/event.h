/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_EVENT_H
#define LIBSDP_BASE_EVENT_H

/*
 * The flight recorder: the last PAGE_EVENTS events of a process lie in its page
 * (page.h), where sdpstat reads them, also when the process was killed. Each is
 * a probe (probe.h) as well.
 */

#include <stdint.h>

#include "base/reason.h"

enum event {
#define EVENT(code, name, text) EVENT_##code,
#include "base/event.def"
#undef EVENT
	EVENT_COUNT
};

/*
 * Notes one, of the connection with this inode and this number. No system call,
 * no lock; any thread, and signal handlers.
 */
void event_note(enum event what, uint64_t inode, int fd, enum reason why);

/* Never NULL; unknown codes give "?". */
const char *event_name(enum event what);
const char *event_text(enum event what);

#endif
