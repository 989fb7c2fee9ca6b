/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/sums.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/text.h"

static struct sums *mapped;

/*
 * No other user may have written to it. A name that another user has taken is
 * left alone: this user's sums are lost then, nothing else.
 */
static int sums_check(int fd, const struct stat *st)
{
	if (!S_ISREG(st->st_mode) || st->st_uid != sys_geteuid() ||
	    (st->st_mode & 077) || st->st_nlink != 1)
		return -EPERM;
	if (st->st_size >= (off_t)sizeof(struct sums))
		return 0;
	if (!sys_may_grow((off_t)sizeof(struct sums)))
		return -EFBIG;
	return sys_fallocate(fd, 0, 0, (off_t)sizeof(struct sums));
}

/* Apart: its room on the stack is gone when a refusal is logged. */
static __attribute__((noinline)) int sums_map(int fd)
{
	struct stat st;
	int err = sys_fstat(fd, &st);
	void *at;

	if (!err)
		err = sums_check(fd, &st);
	if (err)
		return err;
	at = sys_mmap(NULL, sizeof(struct sums), PROT_READ | PROT_WRITE,
		      MAP_SHARED, fd, 0);
	if (sys_is_err(at))
		return (int)(long)at;
	__atomic_store_n(&mapped, at, __ATOMIC_RELEASE);
	return 0;
}

int sums_open(bool anew)
{
	const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC |
			  O_NONBLOCK;
	char path[64];
	struct text t = TEXT_IN(path);
	int fd, err;

	if (mapped && !anew)
		return 0;
	mapped = NULL;
	text_add(&t, PAGE_DIR "/" SUMS_PREFIX "%u.%u", sys_geteuid(),
		 PAGE_VERSION);
	fd = sys_open(path, flags, 0600);
	err = fd < 0 ? fd : sums_map(fd);
	if (fd >= 0)
		sys_close(fd);
	if (err)
		log_once(LOG_WARN, "no sums of ended processes: %s (%d)", path,
			 -err);
	return err;
}

static void sums_count(uint64_t *word, uint64_t n)
{
	__atomic_add_fetch(word, n, __ATOMIC_SEQ_CST);
}

/* Into the sums first: killed between the two, a word is there twice. */
static void sums_words(struct sums *s, const struct page_counters *now,
		       struct page_counters *had)
{
	const uint64_t *from = (const void *)now;
	uint64_t *to = (void *)had;
	size_t i;

	for (i = 0; i < PAGE_WORDS; i++) {
		if (from[i] <= to[i])
			continue;
		sums_count(&s->word[i], from[i] - to[i]);
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
	}
}

void sums_add(const struct page_counters *now, struct page_counters *had)
{
	struct sums *s = __atomic_load_n(&mapped, __ATOMIC_ACQUIRE);

	if (!s)
		return;
	sums_count(&s->begun, 1);
	sums_words(s, now, had);
	sums_count(&s->done, 1);
}

/*
 * Of all processes that find the page of a killed one a single one takes it. It
 * is the last one of its user from then on, which sdpstat --log reads; where
 * that name is not to be had it goes.
 */
static bool claim(int dir, const char *name)
{
	const bool whole = strchr(name, '/');
	char kept[64];
	struct text t = TEXT_IN(kept);

	text_add(&t, "%s" PAGE_KILLED "%u", whole ? PAGE_DIR "/" : "",
		 (unsigned int)sys_geteuid());
	if ((!whole || !strncmp(name, PAGE_DIR "/", sizeof(PAGE_DIR))) &&
	    !sys_call6(SYS_renameat2, dir, (long)name, dir, (long)kept, 0, 0))
		return true;
	return !sys_call3(SYS_unlinkat, dir, name, 0);
}

void sums_inherit(const struct page_counters *now, struct page_counters *had,
		  int dir, const char *name)
{
	struct sums *s = __atomic_load_n(&mapped, __ATOMIC_ACQUIRE);

	if (s)
		sums_count(&s->begun, 1);
	if (claim(dir, name) && s)
		sums_words(s, now, had);
	if (s)
		sums_count(&s->done, 1);
}

void sums_mend(uint64_t begun, uint64_t done)
{
	struct sums *s;

	if (sums_open(false))
		return;
	s = mapped;
	if (__atomic_load_n(&s->begun, __ATOMIC_SEQ_CST) == begun)
		__atomic_compare_exchange_n(&s->done, &done, begun, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}
