/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/mem.h"
#include "socket/stream/stream.h"

#define PIECE 32768 /* of a send, in the kernel */

/* --- receiving -------------------------------------------------------------- */

/* What is there can be filled, if it is enough for what has come. */
static bool want_cut(struct want *w, size_t there)
{
	w->len = w->done + there;
	w->torn = true;
	w->all = w->peek_all = false;
	return there > 0;
}

bool want_torn(struct want *w)
{
	return want_cut(w, iov_sound(&w->c, true));
}

bool want_faulted(struct want *w)
{
	size_t there;

	if (w->done || w->torn)
		return false;
	mem_forget();
	there = iov_there(&w->c, true);
	return there < w->len && want_cut(w, there);
}

/* --- sending ---------------------------------------------------------------- */

/*
 * The kernel copies in pieces, and sends those in front of the one that fails;
 * without any it looks first whether the connection has ended.
 */
static bool load_cut(struct load *w, size_t there)
{
	w->len = w->done + there / PIECE * PIECE;
	return w->len > w->done;
}

bool load_torn(struct load *w)
{
	return load_cut(w, iov_sound(&w->c, false));
}

bool load_faulted(struct load *w)
{
	size_t there;

	if (w->done)
		return false;
	mem_forget();
	there = iov_there(&w->c, false);
	return there < w->len && load_cut(w, there);
}
