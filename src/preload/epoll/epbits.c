/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is remembered of numbers whose set is not tracked (yet). */
#include "base/sys.h"
#include "base/table.h"
#include "preload/epoll/epoll.h"
#include "preload/epoll/epset.h"

static TABLE uint64_t bits[EP_NUMBER_BITS][FDT_ROOT * FDT_LEAF / 64];

static uint64_t *word_of(enum ep_bit what, int fd, uint64_t *bit)
{
	if ((unsigned int)fd >= FDT_ROOT * FDT_LEAF)
		return NULL;
	*bit = 1ull << (fd & 63);
	return &bits[what][fd / 64];
}

void epbits_set(enum ep_bit what, int fd, bool on)
{
	uint64_t bit, *at = word_of(what, fd, &bit);

	if (!at || !!(__atomic_load_n(at, __ATOMIC_RELAXED) & bit) == on)
		return;
	if (on)
		__atomic_or_fetch(at, bit, __ATOMIC_RELAXED);
	else
		__atomic_and_fetch(at, ~bit, __ATOMIC_RELAXED);
}

bool epbits_get(enum ep_bit what, int fd)
{
	uint64_t bit, *at = word_of(what, fd, &bit);

	return at && (__atomic_load_n(at, __ATOMIC_RELAXED) & bit);
}

/* Anonymous inodes (sets, event descriptors) have no file type. */
static bool is_anon(int fd)
{
	struct stat st;

	return sys_fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0;
}

bool ep_is_set(int fd)
{
	if (fdt_has_set(fd))
		return true;
	if (!epbits_get(EP_SET, fd))
		return false;
	if (is_anon(fd))
		return true;
	epbits_set(EP_SET, fd, false);
	return false;
}

int ep_born(int fd)
{
	if (fd < 0)
		return fd;
	fdt_forget(fd); /* what was closed unseen */
	epbits_set(EP_SET, fd, true);
	epbits_set(EP_WAITED, fd, false);
	return fd;
}
