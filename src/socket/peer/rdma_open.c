/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The module's life in this process. The service thread opens and closes it;
 * a thread that forks holds it still meanwhile: a child that inherited a lock
 * of librdmacm that was taken would wait for it for ever.
 */

#include "socket/peer/peer.h"

static void open_it(void)
{
	struct verbs_conf conf = {
		.allow_soft_rdma = settings.allow_soft_rdma,
		.may_use = rdma_may_use,
		.foreign_cm = rdma_foreign_cm(),
		.resolve_ms = 2000,
		.connect_ms = 10000,
		.disconnect_ms = 2000,
		.requests_max = 64,
		.host = { fd_hide, fd_unhide, rdma_say },
	};
	enum reason why;
	struct verbs *v;
	int ret;

	rdma_api = rdma_load();
	if (!rdma_api) {
		rdma_give_up(WHY_NO_VERBS);
		return;
	}
	ret = rdma_api->open(&v, &conf);
	if (ret) {
		why = ret == -EMFILE || ret == -ENFILE ? WHY_NO_FD :
							 rdma_no_way(ret);
		if (!why)
			why = WHY_REMOTE;
		log_once(LOG_WARN, "no RDMA: %s (error %d)", reason_text(why),
			 -ret);
		rdma_give_up(why);
		return;
	}
	rdma_module.v = v;
	service_watch(rdma_api->fd(v), &rdma_api);
}

bool rdma_open(void)
{
	if (!rdma_module.v && !rdma_hopeless()) {
		lock_take(&rdma_module.lock);
		open_it();
		lock_drop(&rdma_module.lock);
	}
	return rdma_module.v;
}

void rdma_rest(void)
{
	if (!rdma_module.v)
		return;
	rdma_unlisten();
	lock_take(&rdma_module.lock);
	rdma_api->close(rdma_module.v);
	rdma_module.v = NULL;
	lock_drop(&rdma_module.lock);
}

/* Off the queue pair, or to be found once more at a new listener. */
static void leave(struct sock *s, void *arg)
{
	unsigned int *left = arg;
	struct rdma *r;

	if (!s->rd || sock_lock(s))
		return;
	r = sock_here(s) ? s->rd : NULL;
	if (r && r->owner == sock_pid) {
		reports.broke(s, -EACCES);
		if (r->end && r->state < RDMA_UP) {
			r->end->ops->destroy(r->end);
			rdma_in_vain(s, -EAGAIN);
		}
		if (s->rd && (r->end || r->old))
			++*left;
		else if (s->rd && r->state == RDMA_WANTED && !r->seek.dials)
			r->seek.retry_at = 0;
		if (s->rd)
			r->due.restless = true;
	}
	sock_unlock(s);
}

void rdma_renew(void)
{
	unsigned int left = 0;

	if (!rdma_module.denied)
		return;
	service_each(leave, &left);
	if (left || rdma_busy())
		return;
	rdma_rest();
	rdma_module.denied = false;
}

void rdma_hold(void)
{
	if (!rdma_module.wanted || rdma_module.held ||
	    lock_take(&rdma_module.lock) == -EDEADLK)
		return;
	rdma_module.held = true;
	if (rdma_module.v)
		rdma_api->hold(rdma_module.v);
}

void rdma_resume(void)
{
	if (!rdma_module.held)
		return;
	if (rdma_module.v)
		rdma_api->resume(rdma_module.v);
	rdma_module.held = false;
	lock_drop(&rdma_module.lock);
}

void rdma_open_forked(void)
{
	if (rdma_module.v)
		rdma_api->forget(rdma_module.v);
	if (!rdma_module.wanted)
		return; /* not touched in vain: a child pays for each page */
	rdma_module.v = NULL;
	rdma_module.held = false;
	rdma_module.lock.word = 0;
}

int rdma_patience_ms(void)
{
	uint64_t ns;

	if (rdma_busy())
		return 5;
	if (!rdma_module.v)
		return -1;
	ns = rdma_api->patience(rdma_module.v);
	return ns > 1000000000u ? -1 : (int)(ns / 1000000u) + 1;
}
