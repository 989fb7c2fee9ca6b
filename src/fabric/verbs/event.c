/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What there is to tell. Sources (the CM, completions, the devices, our own
 * time limits, the data path) set bits in an end and queue it; dispatch.c hands
 * them out one by one.
 */

#include "base/clock.h"
#include "base/sys.h"
#include "fabric/verbs/int.h"

void event_kick(struct verbs *v)
{
	uint64_t one = 1;

	if (v->rung)
		return;
	v->rung = true;
	sys_write(v->kick, &one, sizeof(one));
}

void event_late(struct vend *e, bool *what)
{
	*what = true;
	e->v->late = true;
	event_kick(e->v);
}

void event_due(struct vend *e, enum verbs_event_type type)
{
	e->due |= (uint16_t)(1u << type);
	if (list_empty(&e->due_at))
		list_add(&e->v->due, &e->due_at);
	if (!e->v->inside)
		event_kick(e->v);
}

void event_limit(struct vend *e, uint32_t ms)
{
	list_del(&e->timed);
	if (!ms)
		return;
	e->deadline = clock_ns() + (uint64_t)ms * 1000000u;
	list_add(&e->v->timed, &e->timed);
}

void event_stop(struct vend *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (e->qp)
		ibv_modify_qp(e->qp, &attr, IBV_QP_STATE);
}

void event_down(struct vend *e, int why)
{
	bool up = e->state == V_UP || e->state == V_CLOSING;

	if (e->state == V_DOWN)
		return;
	e->state = V_DOWN;
	e->why = why;
	event_limit(e, 0);
	event_stop(e);
	event_due(e, up ? VE_DOWN : VE_FAILED);
}

/*
 * A thread that is inside already learns it from the call that broke:
 * end_build(), whose caller tells, or what a signal handler interrupted.
 */
void event_broken(struct vend *e)
{
	CALM;

	if (lock_take(&e->v->lock) == -EDEADLK)
		return;
	event_down(e, e->error);
	lock_drop(&e->v->lock);
}
