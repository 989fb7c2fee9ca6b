/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Registered memory of pretended devices, and reading it; see fake.h. */

#include <sys/uio.h>

#include "fake.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct key keys[KEYS]; /* the other process reads it as it is */
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

void fake_dereg(struct end *end, struct verbs_region *r)
{
	struct key *k = r->mr;

	(void)end;
	pthread_mutex_lock(&lock);
	if (k && k->rkey == r->rkey)
		*k = (struct key){ 0 };
	pthread_mutex_unlock(&lock);
	*r = (struct verbs_region){ 0 };
}

bool fake_registered(void)
{
	return __atomic_load_n(&made, __ATOMIC_RELAXED);
}

void fake_who(struct fend *e)
{
	struct who me = { (uintptr_t)keys, sys_getpid() };

	fake_frame(e, WHO, &me, sizeof(me));
}

/* --- lending ------------------------------------------------------------ */

int fake_lend(struct end *end, const void *mem, uint32_t len, uint32_t *rkey)
{
	struct fend *e = of(end);
	int ret = e->loan.mr ? -EBUSY :
			       fake_reg(end, (void *)(uintptr_t)mem, len, true,
					false, &e->loan);

	if (!ret)
		*rkey = e->loan.rkey;
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
	fake_dereg(end, &of(end)->loan);
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
	if (e->rd.due)
		return -EAGAIN;
	if (!registered_here((uintptr_t)to, len))
		return -EFAULT;
	e->rd = (struct rd){ (uintptr_t)to, vaddr, len, id, rkey, true };
	return 0;
}

static bool far_read(const struct fend *e, void *to, uint64_t from, size_t len)
{
	struct iovec local = { to, len },
		     far = { (void *)(uintptr_t)from, len };

	return sys_call6(SYS_process_vm_readv, e->who.pid, (long)&local, 1,
			 (long)&far, 1, 0) == (ssize_t)len;
}

static bool allowed(const struct fend *e)
{
	const struct rd *rd = &e->rd;
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

static bool stuck(void)
{
	const char *at = getenv("FAKE_STUCK");
	static uint32_t reads;

	return at && *at && ++reads == (uint32_t)atoi(at);
}

/* The bytes arrive now: as late as they can. */
int fake_done(struct end *end, struct fab_done *d)
{
	struct fend *e = of(end);
	struct rd *rd = &e->rd;
	bool good;

	if (!rd->due)
		return 0;
	if (!e->broken && (e->stuck || fake_silent(e)))
		return 0;
	if (!e->broken && stuck()) {
		e->stuck = true;
		return 0;
	}
	rd->due = false;
	good = !e->broken && registered_here(rd->to, rd->len) && allowed(e) &&
	       far_read(e, (void *)(uintptr_t)rd->to, rd->from, rd->len) &&
	       allowed(e);
	*d = (struct fab_done){ rd->id, good ? 0 : -EPROTO,
				good ? rd->len : 0 };
	if (!good)
		fake_break(e, -EPROTO);
	return 1;
}

void fake_info(const struct end *end, struct verbs_info *i)
{
	const struct fend *e = (const struct fend *)end;

	*i = (struct verbs_info){
		.device = "fake0/1",
		.soft = true,
		.registered = VERBS_IDLE_MAX +
			      (e->rx.region ? VERBS_RCV_MOST * 8256 : 0),
		.posted = fake_rx_posted(e),
		.rcv_size = VERBS_RCV_SIZE,
	};
}
