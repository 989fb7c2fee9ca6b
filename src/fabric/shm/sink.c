/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of one end into which the other writes with process_vm_writev();
 * gate.h has when it may, and when its owner has it back.
 *
 * Marks and gates of a process lie at an address drawn at random. A process
 * that has the process's number by the time of a belated call has nothing
 * there, and the kernel stops at the first word. A child does not get them, nor
 * does an exec. A gate in front of which a writer may still stand is never used
 * again.
 */

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/sys.h"
#include "fabric/shm/frame.h"

#define PAGE	  4096u
#define SLOT	  (2 * PAGE) /* mark, gate */
#define SLOTS	  64u
#define ADDR_MASK 0x3ffffffff000ull
#define NAP_MIN	  20000
#define NAP_MAX	  1000000

static struct {
	uint8_t *mem; /* SLOTS of them; NULL: not yet */
	uint64_t taken; /* atomic: a bit for each */
	int32_t pid; /* whose they are */
} gates;

static int32_t my_pid(void)
{
	return (int32_t)sys_getpid();
}

/* --- the owner: gates -------------------------------------------------- */

/* In a child nothing is there, and there is no other thread yet that looks. */
static uint8_t *gates_get(int32_t pid)
{
	uint8_t *at = __atomic_load_n(&gates.mem, __ATOMIC_ACQUIRE), *was = at;
	uint64_t where;
	int i;

	if (at && __atomic_load_n(&gates.pid, __ATOMIC_ACQUIRE) == pid)
		return at;
	for (i = 0, at = NULL; i < 8 && !at; i++) {
		if (sys_call3(SYS_getrandom, &where, sizeof(where), 0) !=
		    sizeof(where))
			return NULL;
		at = sys_mmap((void *)(uintptr_t)(where & ADDR_MASK),
			      SLOTS * SLOT, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				      MAP_FIXED_NOREPLACE,
			      -1, 0);
		if (sys_is_err(at))
			at = NULL;
	}
	if (!at)
		return NULL;
	if (sys_call3(SYS_madvise, at, SLOTS * SLOT, MADV_DONTFORK) ||
	    !__atomic_compare_exchange_n(&gates.mem, &was, at, 0,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		sys_munmap(at, SLOTS * SLOT);
		return NULL;
	}
	__atomic_store_n(&gates.taken, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&gates.pid, pid, __ATOMIC_RELEASE);
	return at;
}

/* A slot of its own; its number plus 1, or 0. */
static uint32_t slot_take(void)
{
	uint64_t taken;
	uint32_t i;

	do {
		taken = __atomic_load_n(&gates.taken, __ATOMIC_ACQUIRE);
		if (taken == UINT64_MAX)
			return 0;
		i = (uint32_t)__builtin_ctzll(~taken);
	} while (__atomic_fetch_or(&gates.taken, 1ull << i, __ATOMIC_ACQ_REL) &
		 1ull << i);
	return i + 1;
}

static uint8_t *slot_at(uint32_t slot)
{
	return gates.mem + (size_t)(slot - 1) * SLOT;
}

static bool slot_ours(const struct shm_end *e)
{
	return e->gate && e->gate_pid == my_pid();
}

static int gate_page(const struct shm_end *e, int prot)
{
	return (int)sys_call3(SYS_mprotect, slot_at(e->gate) + PAGE, PAGE,
			      prot);
}

/* --- the owner: sinks -------------------------------------------------- */

int shm_sink(struct end *end, void *mem, uint32_t len, uint32_t *rkey)
{
	struct shm_end *e = shm_of(end);
	int32_t pid = my_pid();
	struct gate_mark *m;

	(void)mem;
	if (!len || len > GATE_COUNT)
		return -EINVAL;
	if (e->gate || !gates_get(pid))
		return -EBUSY;
	e->gate_pid = pid;
	e->gate = slot_take();
	if (!e->gate)
		return -EBUSY;
	m = (struct gate_mark *)(void *)slot_at(e->gate);
	__atomic_store_n(&m->in, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&m->out, 0, __ATOMIC_RELAXED);
	if (!++e->sink_id)
		e->sink_id = 1;
	e->sink_len = len;
	__atomic_store_n(&e->sink->mark, (uint64_t)(uintptr_t)m,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&e->sink->word, (uint64_t)e->sink_id << 32,
			 __ATOMIC_SEQ_CST);
	*rkey = e->sink_id;
	return 0;
}

/*
 * Is the thread that said it would write stopped or traced, or its process
 * dead? Its numbers are its own; where they are not ours, nothing is there.
 */
static bool writer_out(const struct shm_end *e)
{
	int32_t pid = shm_peer_pid(e);
	int32_t tid = __atomic_load_n(&e->sink->tid, __ATOMIC_RELAXED);

	if (shm_peer_lives(e) == -ESRCH)
		return true;
	return pid > 0 && pid == e->sink->pid && shm_thread_stopped(pid, tid);
}

/* A write that ended whole: as long as was said, if that can be. */
static uint32_t whole(const struct shm_end *e, uint64_t op)
{
	uint32_t len = __atomic_load_n(&e->sink->len, __ATOMIC_ACQUIRE);

	return len <= e->sink_len - (op & GATE_COUNT) ? len : 0;
}

static void nap(long *ns)
{
	struct timespec ts = { 0, *ns };

	sys_ppoll(NULL, 0, &ts, NULL);
	if (*ns < NAP_MAX)
		*ns *= 2;
}

/* A writer is inside, or stands in front of it. */
static void turn_out(struct shm_end *e, uint64_t op)
{
	const struct gate_mark *m = (void *)slot_at(e->gate);
	enum gate_way way = GATE_WAIT;
	long ns = NAP_MIN;
	bool out = false;
	uint32_t len;

	gate_page(e, PROT_NONE);
	for (;;) {
		way = gate_look(e->sink, m, op, out);
		if (way == GATE_CLEAR)
			break;
		len = way == GATE_TAKE ? whole(e, op) : 0;
		if (way != GATE_WAIT && gate_decide(e->sink, op, len))
			break;
		if (way != GATE_WAIT)
			continue;
		out = writer_out(e);
		if (!out)
			nap(&ns);
	}
	if (way == GATE_DROP)
		e->gate = 0; /* shut, and never given back */
	else
		gate_page(e, PROT_READ | PROT_WRITE);
}

int64_t shm_sunk(struct end *end, bool back)
{
	struct shm_end *e = shm_of(end);
	uint64_t word = __atomic_load_n(&e->sink->word, __ATOMIC_ACQUIRE);

	if (back && word >> 32 == e->sink_id) {
		word = gate_shut(e->sink);
		if ((word & GATE_BUSY) && !slot_ours(e))
			return -EAGAIN; /* its owner has to */
		if (word & GATE_BUSY)
			turn_out(e, word & ~(uint64_t)GATE_SHUT);
		word = __atomic_load_n(&e->sink->word, __ATOMIC_ACQUIRE);
	}
	if (word >> 32 != e->sink_id || (word & GATE_COUNT) > e->sink_len)
		return e->error = -EPROTO;
	return (int64_t)(word & GATE_COUNT);
}

void shm_unsink(struct end *end)
{
	struct shm_end *e = shm_of(end);

	if (slot_ours(e))
		__atomic_fetch_and(&gates.taken, ~(1ull << (e->gate - 1)),
				   __ATOMIC_ACQ_REL);
	e->gate = 0;
}

/* --- the writer -------------------------------------------------------- */

/* Bytes of `from` that are at `vaddr` now, or negative errno. */
static ssize_t put(const struct shm_end *e, const void *from, uint64_t vaddr,
		   size_t len, uint64_t mark, uint64_t op)
{
	uint8_t *far_mark = (uint8_t *)(uintptr_t)mark;
	struct iovec local[4] = { { &op, sizeof(op) },
				  { &op, sizeof(op) },
				  { (void *)(uintptr_t)from, len },
				  { &op, sizeof(op) } };
	struct iovec far[4] = {
		{ far_mark, sizeof(op) },
		{ far_mark + PAGE, sizeof(op) },
		{ (void *)(uintptr_t)vaddr, len },
		{ far_mark + offsetof(struct gate_mark, out), sizeof(op) },
	};
	int pid = shm_peer_pid(e), ret;
	ssize_t n;

	if (pid < 0)
		return pid;
	ret = shm_peer_lives(e);
	if (ret)
		return ret;
	n = sys_call6(SYS_process_vm_writev, pid, (long)local, 4, (long)far, 4,
		      0);
	if (n < 0)
		return n;
	if (n < (ssize_t)(2 * sizeof(op)))
		return -ECANCELED;
	n -= (ssize_t)(2 * sizeof(op));
	return n < (ssize_t)len ? n : (ssize_t)len;
}

int shm_write(struct end *end, const void *from, uint64_t vaddr, uint32_t rkey,
	      size_t len, uint64_t id)
{
	struct shm_end *e = shm_of(end);
	struct shm_sink *k = e->peer_sink;
	uint32_t counted = 0;
	ssize_t n = -ECANCELED;
	uint64_t op, mark;

	if (len > SHM_WRITE_MAX)
		return -EINVAL;
	__atomic_store_n(&k->pid, my_pid(), __ATOMIC_RELAXED);
	__atomic_store_n(&k->tid, (int32_t)sys_gettid(), __ATOMIC_RELAXED);
	__atomic_store_n(&k->len, (uint32_t)len, __ATOMIC_RELAXED);
	/* before it enters: by the time it calls there may be another sink */
	mark = __atomic_load_n(&k->mark, __ATOMIC_ACQUIRE);
	if (gate_enter(k, rkey, &op)) {
		n = put(e, from, vaddr, len, mark, op);
		while (!gate_leave(k, op, n > 0 ? (uint32_t)n : 0, &counted))
			;
	}
	e->rdma = (struct fab_done){
		.id = id,
		.status = n < 0		? (int)n :
			  counted < len ? -EFAULT :
					  0,
		.len = counted,
	};
	e->rdma_due = true;
	return 0;
}
