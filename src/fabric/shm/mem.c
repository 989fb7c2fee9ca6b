/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory that one end lends and the other reads with process_vm_readv().
 *
 * The source's word is the truth about how much was read. Its reader raises the
 * count after the bytes have arrived, by compare and swap; the lender marks
 * the word SHM_SRC_BACK. So the lender has its memory back at once, whatever
 * the reader is doing, stopped or slow: bytes that were read while it was
 * taken back do not count, and their reader throws them away.
 *
 * Whose memory is read. The process is the one whose credentials the kernel
 * keeps with the wake-up socket, of our own user, and alive after the read, so
 * that no other process can have had its number. The word `seal` is read by the
 * same system call, hence from the same address space, and proves that this
 * is the one that made the source: an exec has another, and so has a child.
 */

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "base/sys.h"
#include "fabric/shm/frame.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static uint64_t *seal; /* of this address space; zero after a fork */

/* Where it lies, or NULL: no memory. */
static uint64_t *seal_get(void)
{
	uint64_t *at = __atomic_load_n(&seal, __ATOMIC_ACQUIRE), *none = NULL;
	uint64_t zero = 0, value;

	if (!at) {
		at = sys_mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (sys_is_err(at))
			return NULL;
		if (sys_call3(SYS_madvise, at, 4096, MADV_WIPEONFORK) ||
		    !__atomic_compare_exchange_n(&seal, &none, at, 0,
						 __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE)) {
			sys_munmap(at, 4096);
			at = none;
		}
	}
	if (!at || __atomic_load_n(at, __ATOMIC_ACQUIRE))
		return at;
	if (sys_call3(SYS_getrandom, &value, sizeof(value), 0) !=
		    sizeof(value) ||
	    !value)
		return NULL;
	__atomic_compare_exchange_n(at, &zero, value, 0, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	return at;
}

/* --- the lender -------------------------------------------------------- */

int shm_lend(struct end *end, const void *mem, uint32_t len, uint32_t *rkey)
{
	struct shm_end *e = shm_of(end);
	uint64_t *at = seal_get();

	(void)mem;
	if (!at)
		return -ENOMEM;
	if (!len || len > SHM_SRC_MAX)
		return -EINVAL;
	if (!++e->src_id)
		e->src_id = 1;
	__atomic_store_n(&e->src->seal_at, (uint64_t)(uintptr_t)at,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&e->src->seal, *at, __ATOMIC_RELAXED);
	__atomic_store_n(&e->src->word, (uint64_t)e->src_id << 32,
			 __ATOMIC_SEQ_CST);
	*rkey = e->src_id;
	return 0;
}

int64_t shm_lent(struct end *end, bool back)
{
	struct shm_end *e = shm_of(end);
	uint64_t word;

	if (back)
		word = __atomic_fetch_or(&e->src->word, SHM_SRC_BACK,
					 __ATOMIC_SEQ_CST);
	else
		word = __atomic_load_n(&e->src->word, __ATOMIC_ACQUIRE);
	if (word >> 32 != e->src_id)
		return e->error = -EPROTO;
	return (int64_t)(word & SHM_SRC_MAX);
}

void shm_unlend(struct end *end)
{
	__atomic_store_n(&shm_of(end)->src->word, 0, __ATOMIC_SEQ_CST);
}

/* --- the reader -------------------------------------------------------- */

bool shm_recalled(struct end *end)
{
	return __atomic_load_n(&shm_of(end)->peer_src->word, __ATOMIC_ACQUIRE) &
	       SHM_SRC_BACK;
}

int shm_peer_pid(const struct shm_end *e)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (e->peer < 0 ||
	    sys_getsockopt(e->peer, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -EPERM;
	if (cred.pid <= 0 || cred.uid != (uid_t)sys_call3(SYS_geteuid, 0, 0, 0))
		return -EPERM;
	return cred.pid;
}

int shm_peer_lives(const struct shm_end *e)
{
	struct pollfd p = { .events = POLLIN };
	struct timespec now = { 0, 0 };
	socklen_t len = sizeof(p.fd);
	int ret =
		sys_getsockopt(e->peer, SOL_SOCKET, SO_PEERPIDFD, &p.fd, &len);

	if (ret)
		return ret == -ENOPROTOOPT ? ret : -ESRCH;
	ret = sys_ppoll(&p, 1, &now, NULL);
	sys_close(p.fd);
	return ret ? -ESRCH : 0;
}

/* Bytes that lie at `to` now and are the lender's, or negative errno. */
static ssize_t fetch(const struct shm_end *e, void *to, uint64_t vaddr,
		     size_t len)
{
	uint64_t there = 0, at, want;
	struct iovec local[2] = { { &there, sizeof(there) }, { to, len } };
	struct iovec far[2] = { { NULL, sizeof(there) }, { NULL, len } };
	int pid = shm_peer_pid(e), ret;
	ssize_t n;

	if (pid < 0)
		return pid;
	at = __atomic_load_n(&e->peer_src->seal_at, __ATOMIC_RELAXED);
	want = __atomic_load_n(&e->peer_src->seal, __ATOMIC_RELAXED);
	far[0].iov_base = (void *)(uintptr_t)at;
	far[1].iov_base = (void *)(uintptr_t)vaddr;
	n = sys_call6(SYS_process_vm_readv, pid, (long)local, 2, (long)far, 2,
		      0);
	if (n < 0)
		return n;
	if (n < (ssize_t)sizeof(there) || !there || there != want)
		return -ESTALE;
	ret = shm_peer_lives(e);
	if (ret)
		return ret;
	return n - (ssize_t)sizeof(there);
}

int shm_read(struct end *end, void *to, uint64_t vaddr, uint32_t rkey,
	     size_t len, uint64_t id)
{
	struct shm_end *e = shm_of(end);
	uint64_t *word = &e->peer_src->word;
	uint64_t was = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	ssize_t n = -ECANCELED;

	if (was >> 32 == rkey && !(was & SHM_SRC_BACK) &&
	    len <= SHM_SRC_MAX - (was & SHM_SRC_MAX)) {
		n = fetch(e, to, vaddr, len);
		if (n >= 0 && !__atomic_compare_exchange_n(
				      word, &was, was + (uint64_t)n, 0,
				      __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
			n = -ECANCELED;
	}
	e->rdma = (struct fab_done){
		.id = id,
		.status = n < 0		  ? (int)n :
			  (size_t)n < len ? -EFAULT :
					    0,
		.len = n < 0 ? 0 : (uint64_t)n,
	};
	e->rdma_due = true;
	return 0;
}

int shm_done(struct end *end, struct fab_done *d)
{
	struct shm_end *e = shm_of(end);

	if (!e->rdma_due)
		return 0;
	*d = e->rdma;
	e->rdma_due = false;
	return 1;
}
