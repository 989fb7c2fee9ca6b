/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/event.h"

#include "base/clock.h"
#include "base/page.h"
#include "base/probe.h"

/* Another thread may be at the same place, a whole round behind. */
#define PUT(to, value) __atomic_store_n(&(to), value, __ATOMIC_RELAXED)

static void probe(enum event what, uint64_t inode, int fd, enum reason why)
{
	switch (what) {
#define EVENT(code, name, text)               \
	case EVENT_##code:                    \
		PROBE3(name, inode, fd, why); \
		break;
#include "base/event.def"
#undef EVENT
	default:
		break;
	}
}

/* A reader takes an event whose number stands behind it. */
void event_note(enum event what, uint64_t inode, int fd, enum reason why)
{
	uint64_t n =
		__atomic_fetch_add(&page_self->events, 1, __ATOMIC_RELAXED);
	struct page_event *e = &page_self->event[n % PAGE_EVENTS];

	__atomic_store_n(&e->seq, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	PUT(e->at, clock_ns());
	PUT(e->inode, inode);
	PUT(e->fd, fd);
	PUT(e->what, (uint16_t)what);
	PUT(e->why, (uint16_t)why);
	__atomic_store_n(&e->seq, n + 1, __ATOMIC_RELEASE);
	probe(what, inode, fd, why);
}

const char *event_name(enum event what)
{
	static const char *const names[] = {
#define EVENT(code, name, text) #name,
#include "base/event.def"
#undef EVENT
	};

	return (unsigned int)what < EVENT_COUNT ? names[what] : "?";
}

const char *event_text(enum event what)
{
	static const char *const texts[] = {
#define EVENT(code, name, text) text,
#include "base/event.def"
#undef EVENT
	};

	return (unsigned int)what < EVENT_COUNT ? texts[what] : "?";
}
