/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The segment: made and sealed by one side, checked and mapped by the other. */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "base/page.h"
#include "base/sys.h"
#include "fabric/shm/shm.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; before: -EINVAL */
#endif

/* Bytes that are not ring. */
#define SEG_FIXED (SHM_HEAD_LEN + SHM_LANES_LEN)
#define SEG_PAGE  4096u /* the last one mapped leads to the keep areas */
#define SEG_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The first bytes of a segment. */
struct seg_head {
	uint64_t magic, size;
	uint32_t version, ring;
};

static bool ring_sound(uint64_t ring)
{
	return ring >= SHM_RING_LOW && ring <= SHM_RING_HIGH &&
	       !(ring & (ring - 1));
}

struct shm_account shm_account = { .most = UINT64_MAX, .look_at = UINT64_MAX };

static void account(uint64_t *sum, int64_t n)
{
	__atomic_add_fetch(sum, (uint64_t)n, __ATOMIC_RELAXED);
}

#define SEG_HEADS 12288u /* bytes that a connection uses beside its rings */

static void account_map(int64_t n, size_t len)
{
	account(&shm_account.maps, n);
	account(&shm_account.space, n * (int64_t)len);
	__atomic_add_fetch(&page_self->shm_heads, (uint64_t)n * SEG_HEADS,
			   __ATOMIC_RELAXED);
}

/*
 * Where mappings are born locked the kernel would bring in every page: what may
 * not be looked at is left out, and unlocked before it may be.
 */
static void *map_unlocked(int fd, size_t len)
{
	const int prot = PROT_READ | PROT_WRITE;
	void *mem = sys_mmap(NULL, len, PROT_NONE, MAP_SHARED, fd, 0);
	long err;

	if (sys_is_err(mem))
		return mem;
	err = sys_call3(SYS_munlock, mem, len, 0);
	if (!err)
		err = sys_call3(SYS_mprotect, mem, len, prot);
	if (!err)
		return mem;
	sys_munmap(mem, len);
	return (void *)err;
}

/* The pages that every connection uses: they cannot be refused later. */
static int seg_back(const struct shm_seg *s)
{
	const size_t at[] = { 0, SHM_HEAD_LEN + s->ring, s->len - SEG_PAGE };
	size_t i;
	int err = 0;

	for (i = 0; i < sizeof(at) / sizeof(at[0]) && !err; i++)
		err = sys_madvise((uint8_t *)s->mem +
					  at[i] / SEG_PAGE * SEG_PAGE,
				  SEG_PAGE, MADV_POPULATE_WRITE);
	return err;
}

static int seg_map(struct shm_seg *s, int fd, size_t len, uint32_t ring)
{
	const int prot = PROT_READ | PROT_WRITE;
	void *mem;
	int err;

	if (__atomic_load_n(&shm_account.locks, __ATOMIC_RELAXED))
		mem = map_unlocked(fd, len);
	else
		mem = sys_mmap(NULL, len, prot, MAP_SHARED, fd, 0);
	if (sys_is_err(mem))
		return (int)(long)mem;
	sys_madvise(mem, len, MADV_DONTDUMP);
	s->mem = mem;
	s->len = len;
	s->ring = ring;
	shm_keep_spare();
	account_map(1, len);
	if (!__atomic_load_n(&shm_account.strict, __ATOMIC_RELAXED))
		return 0;
	err = seg_back(s);
	if (err)
		shm_unmap(s);
	return err ? -ENOMEM : 0;
}

int shm_make(struct shm_seg *s, uint32_t ring)
{
	const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	size_t len = SEG_FIXED + 2 * (size_t)ring;
	struct seg_head *h;
	int fd, err;

	if (!ring_sound(ring))
		return -EINVAL;
	fd = sys_memfd_create("libsdp", flags | MFD_NOEXEC_SEAL);
	if (fd == -EINVAL) /* before Linux 6.3 */
		fd = sys_memfd_create("libsdp", flags);
	if (fd < 0)
		return fd;
	err = sys_ftruncate(fd, (off_t)(len + 2 * (size_t)SHM_KEEP));
	if (!err)
		err = sys_fcntl(fd, F_ADD_SEALS, SEG_SEALS);
	if (!err)
		err = seg_map(s, fd, len, ring);
	if (err) {
		sys_close(fd);
		return err;
	}
	h = s->mem;
	h->size = len;
	h->version = SHM_VERSION;
	h->ring = ring;
	h->magic = SHM_MAGIC;
	return fd;
}

/*
 * Everything that could make an access to the mapping fail later is checked
 * here: a file that can shrink raises SIGBUS (anchor.md 3.3).
 */
static int seg_check(int fd, size_t stated)
{
	struct statfs fs;
	struct stat st;
	int seals;

	if (stated <= SEG_FIXED || !ring_sound((stated - SEG_FIXED) / 2) ||
	    stated % 2)
		return -EPROTO;
	seals = sys_fcntl(fd, F_GET_SEALS, 0);
	if (seals < 0 || (seals & SEG_SEALS) != SEG_SEALS)
		return -EPROTO;
	if (sys_fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    st.st_size != (off_t)(stated + 2 * (size_t)SHM_KEEP))
		return -EPROTO;
	if (sys_call3(SYS_fstatfs, fd, &fs, 0) || fs.f_type != TMPFS_MAGIC)
		return -EPROTO;
	return 0;
}

int shm_open_seg(struct shm_seg *s, int memfd, size_t stated)
{
	uint32_t ring = (uint32_t)((stated - SEG_FIXED) / 2);
	struct seg_head h;
	int err = seg_check(memfd, stated);

	if (err)
		return err;
	err = seg_map(s, memfd, stated, ring);
	if (err)
		return err;
	h = *(volatile struct seg_head *)s->mem;
	if (h.magic == SHM_MAGIC && h.version == SHM_VERSION &&
	    h.size == stated && h.ring == ring)
		return 0;
	shm_unmap(s);
	return -EPROTO;
}

void shm_unmap(struct shm_seg *s)
{
	if (s->mem) {
		sys_munmap(s->mem, s->len);
		account_map(-1, s->len);
	}
	s->mem = NULL;
	s->len = 0;
}
