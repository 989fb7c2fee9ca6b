/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Registered memory of pretended devices, and what uses it; see fake.h. */

#include <sys/uio.h>

#include "fake.h"

#define GATES 256 /* more ends than that share them */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct key keys[KEYS]; /* the other process reads it as it is */
static struct gate gates[GATES]; /* and these */
static uint32_t made; /* keys are not used twice */

static bool limited(const char *name, uint32_t n)
{
	const char *at = getenv(name);

	return at && *at && n > (uint32_t)atoi(at);
}

int fake_reg(struct end *end, void *mem, size_t len, bool rr, bool rw,
	     struct verbs_region *r)
{
	int i, ret = -ENOMEM;

	(void)end;
	pthread_mutex_lock(&lock);
	for (i = 0; i < KEYS && keys[i].rkey; i++)
		;
	if (i < KEYS && !limited("FAKE_NOREG", ++made)) {
		keys[i] = (struct key){ (uintptr_t)mem, len, made, rr, rw };
		*r = (struct verbs_region){ &keys[i], made, made };
		ret = 0;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

static bool far_read(const struct fend *e, void *to, uint64_t from, size_t len)
{
	struct iovec local = { to, len },
		     far = { (void *)(uintptr_t)from, len };

	return sys_call6(SYS_process_vm_readv, e->who.pid, (long)&local, 1,
			 (long)&far, 1, 0) == (ssize_t)len;
}

/*
 * A write that found the key is out of it soon, or its process is dead, or
 * executes another program. Of a dead one nothing can be read, even if its
 * parent has not waited for it yet.
 */
static void await_idle(const struct fend *e)
{
	struct timespec nap = { 0, 20000 };
	struct gate g;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	while (far_read(e, &g, e->who.gate, sizeof(g)) &&
	       g.nonce == e->who.nonce && g.busy)
		sys_ppoll(NULL, 0, &nap, NULL);
}

/* Waits without the lock: the writer takes that of its own process. */
void fake_dereg(struct end *end, struct verbs_region *r)
{
	struct key *k = r->mr;
	bool ours;

	pthread_mutex_lock(&lock);
	ours = k && k->rkey == r->rkey;
	if (ours)
		__atomic_store_n(&k->rkey, 0, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&lock);
	if (ours)
		await_idle(of(end));
	*r = (struct verbs_region){ 0 };
}

bool fake_registered(void)
{
	return __atomic_load_n(&made, __ATOMIC_RELAXED);
}

struct gate *fake_gate(void)
{
	static uint32_t ends;
	struct gate *g = &gates[ends++ % GATES];
	int pid = sys_getpid();

	if (g->pid != pid)
		*g = (struct gate){ clock_ns() ^ (uint64_t)pid << 32, pid, 0 };
	return g;
}

void fake_who(struct fend *e)
{
	struct who me = { (uintptr_t)keys, (uintptr_t)e->gate, e->gate->nonce,
			  sys_getpid() };

	fake_frame(e, WHO, &me, sizeof(me));
}

/* --- lending ------------------------------------------------------------ */

int fake_lend(struct end *end, const void *mem, uint32_t len, uint32_t *rkey)
{
	struct fend *e = of(end);
	int ret = e->src.mr ? -EBUSY :
			      fake_reg(end, (void *)(uintptr_t)mem, len, true,
				       false, &e->src);

	if (!ret)
		*rkey = e->src.rkey;
	return ret;
}

int64_t fake_lent(struct end *end, bool back)
{
	(void)end;
	(void)back;
	return -EINPROGRESS;
}

void fake_unlend(struct end *end)
{
	fake_dereg(end, &of(end)->src);
}

/* --- reading ------------------------------------------------------------ */

static bool inside(const struct key *k, uint64_t at, uint64_t len)
{
	return k->rkey && at >= k->mem && len <= k->len &&
	       at - k->mem <= k->len - len;
}

static bool registered_here(uint64_t to, uint64_t len)
{
	bool yes = false;
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < KEYS && !yes; i++)
		yes = inside(&keys[i], to, len);
	pthread_mutex_unlock(&lock);
	return yes;
}

int fake_read(struct end *end, void *to, uint64_t vaddr, uint32_t rkey,
	      size_t len, uint64_t id)
{
	struct fend *e = of(end);

	if (e->broken)
		return -ECONNRESET;
	if (getenv("FAKE_NOREAD"))
		return -EOPNOTSUPP;
	if (e->rd[1].due)
		return -EAGAIN;
	if (!registered_here((uintptr_t)to, len))
		return -EFAULT;
	e->rd[e->rd[0].due] =
		(struct rd){ (uintptr_t)to, vaddr, len, id, rkey, true };
	return 0;
}

static bool allowed(const struct fend *e, const struct rd *rd)
{
	struct key there[KEYS];
	int i;

	if (!far_read(e, there, e->who.keys, sizeof(there)))
		return false;
	for (i = 0; i < KEYS; i++)
		if (there[i].rkey == rd->rkey)
			return there[i].remote_read &&
			       inside(&there[i], rd->from, rd->len);
	return false;
}

static bool numbered(const char *name, uint32_t *count)
{
	const char *at = getenv(name);

	return at && *at && ++*count == (uint32_t)atoi(at);
}

static bool stuck(void)
{
	static uint32_t reads;

	return numbered("FAKE_STUCK", &reads);
}

static bool wrote(struct fend *e, struct fab_done *d)
{
	if (e->wr.due && !fake_writing(e))
		fake_carry(e);
	if (!e->written)
		return false;
	e->written = false;
	*d = (struct fab_done){ e->wr.id, e->broken ? -EPROTO : 0,
				e->broken ? 0 : e->wr.len };
	return true;
}

/* The bytes arrive now: as late as they can. */
int fake_done(struct end *end, struct fab_done *d)
{
	struct fend *e = of(end);
	struct rd rd = e->rd[0];
	bool good;

	if (wrote(e, d))
		return 1;

	if (!rd.due)
		return 0;
	if (!e->broken && (e->stuck || fake_silent(e)))
		return 0;
	if (!e->broken && stuck()) {
		e->stuck = true;
		return 0;
	}
	e->rd[0] = e->rd[1];
	e->rd[1].due = false;
	good = !e->broken && registered_here(rd.to, rd.len) &&
	       allowed(e, &rd) &&
	       far_read(e, (void *)(uintptr_t)rd.to, rd.from, rd.len) &&
	       allowed(e, &rd);
	*d = (struct fab_done){ rd.id, good ? 0 : -ECONNRESET,
				good ? rd.len : 0 };
	if (!good)
		fake_break(e, -ECONNRESET);
	return 1;
}

/* --- writing ------------------------------------------------------------ */

int fake_reg_from(struct end *end, const void *mem, size_t len,
		  struct verbs_region *r)
{
	return fake_reg(end, (void *)(uintptr_t)mem, len, false, false, r);
}

int fake_sink(struct end *end, void *mem, uint32_t len, uint32_t *rkey)
{
	struct fend *e = of(end);
	int ret = e->sink.mr ? -EBUSY :
			       fake_reg(end, mem, len, false, true, &e->sink);

	if (!ret)
		*rkey = e->sink.rkey;
	return ret;
}

void fake_unsink(struct end *end)
{
	fake_dereg(end, &of(end)->sink);
}

int fake_write(struct end *end, const void *from, uint64_t vaddr, uint32_t rkey,
	       size_t len, uint64_t id)
{
	const char *late = getenv("FAKE_LATE");
	struct fend *e = of(end);

	if (e->broken)
		return -ECONNRESET;
	if (e->wr.due || e->written)
		return -EAGAIN;
	if (!registered_here((uintptr_t)from, len))
		return -EFAULT;
	e->wr = (struct rd){ vaddr, (uintptr_t)from, len, id, rkey, true };
	if (late && *late)
		e->wr_until = clock_ns() + (uint64_t)atoi(late) * 1000000;
	return 0;
}

static bool far_write(const struct fend *e, uint64_t to, const void *from,
		      size_t len)
{
	struct iovec local = { (void *)(uintptr_t)from, len },
		     far = { (void *)(uintptr_t)to, len };

	return sys_call6(SYS_process_vm_writev, e->who.pid, (long)&local, 1,
			 (long)&far, 1, 0) == (ssize_t)len;
}

/* Looked at behind the gate: a key that is found stays for as long. */
static bool may_write(const struct fend *e, const struct rd *wr)
{
	struct key there[KEYS];
	int i;

	if (!far_read(e, there, e->who.keys, sizeof(there)))
		return false;
	for (i = 0; i < KEYS && there[i].rkey != wr->rkey; i++)
		;
	return i < KEYS && there[i].remote_write &&
	       inside(&there[i], wr->to, wr->len) &&
	       registered_here(wr->from, wr->len);
}

void fake_carry(struct fend *e)
{
	static uint32_t writes;
	struct rd *wr = &e->wr;
	uint64_t was;
	bool good;

	wr->due = false;
	e->written = true;
	was = fake_calm();
	__atomic_add_fetch(&e->gate->busy, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	good = !e->broken && may_write(e, wr) &&
	       far_write(e, wr->to, (void *)(uintptr_t)wr->from, wr->len);
	__atomic_sub_fetch(&e->gate->busy, 1, __ATOMIC_SEQ_CST);
	fake_calm_end(was);
	if (good)
		e->lost = numbered("FAKE_LOSE", &writes);
	else
		fake_break(e, -EPROTO);
}

void fake_info(const struct end *end, struct verbs_info *i)
{
	const struct fend *e = (const struct fend *)end;

	*i = (struct verbs_info){
		.device = "fake0/1",
		.soft = true,
		.registered =
			VERBS_IDLE_MAX +
			(e->rx.region ? e->rx.load_count * e->rx.load_size : 0),
		.posted = fake_rx_posted(e),
		.rcv_size = fake_rx_smallest(e),
	};
}
