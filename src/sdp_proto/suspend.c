/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hand-over of a connection [5.7]: SuspComm stops the asking half,
 * SuspCommAck is the last message of the answering one, which then ends the
 * fabric connection. DisConn wins over both.
 */
#include "sdp_proto/state.h"

int conn_suspend(struct conn *c, uint64_t service_id)
{
	if (c->error)
		return c->error;
	if (c->native || !(c->own_ext_flags & CONN_EXT_SUSPEND) ||
	    !(c->peer_ext_flags & CONN_EXT_SUSPEND))
		return -EOPNOTSUPP;
	if (c->state != CONN_EST)
		return -ENOTCONN;
	if (c->suspending || c->peer_suspends)
		return -EALREADY;
	c->suspending = true;
	c->suspend_service = service_id;
	c->want |= CONN_WANT_SUSP;
	zcopy_due(c);
	state_settle(c);
	return 0;
}

void suspend_forget(struct conn *c)
{
	if (c->suspending)
		c->timer_at = 0;
	c->suspending = false;
	c->peer_suspends = false;
	c->want &= (uint16_t) ~(CONN_WANT_SUSP | CONN_WANT_SUSPACK);
	state_settle(c);
}

int suspend_on_ask(struct conn *c, uint64_t now, const struct wire_msg *m,
		   struct conn_in *in)
{
	(void)now;
	if (c->native || !(c->own_ext_flags & CONN_EXT_SUSPEND) ||
	    !(c->peer_ext_flags & CONN_EXT_SUSPEND) || c->state != CONN_EST)
		return 0;
	if (c->suspending) { /* crossed: the active side's holds */
		if (c->active)
			return 0;
		suspend_forget(c);
	}
	c->peer_suspends = true;
	c->peer_suspend_service = m->service;
	in->suspend = true;
	return 0;
}

int suspend_on_ack(struct conn *c, uint64_t now, const struct wire_msg *m,
		   struct conn_in *in)
{
	(void)m;
	if (!c->suspending || (c->want & CONN_WANT_SUSP))
		return 0;
	c->suspended = true;
	c->deaf = true;
	c->mute = true;
	c->want = 0;
	c->timer_at = now + SUSPEND_LIMIT;
	in->suspended = true;
	return 0;
}

int conn_suspend_ack(struct conn *c)
{
	if (c->error)
		return c->error;
	if (!c->peer_suspends)
		return -EINVAL;
	c->want |= CONN_WANT_SUSPACK;
	zcopy_due(c);
	state_settle(c);
	return 0;
}
