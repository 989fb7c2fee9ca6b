/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time: limits of closing [5.3], the late credit update [3.4]. */
#include "sdp_proto/state.h"

static int limit_reached(struct conn *c, uint64_t now)
{
	c->timer_at = 0;
	if (c->state == CONN_SENT1) /* armed only when the program has closed */
		return state_die(c, -ETIMEDOUT, "no DisConn in 60 s");
	if (c->state != CONN_LAST) {
		state_move(c, CONN_CLOSED);
		return 0;
	}
	state_move(c, CONN_TW);
	c->timer_at = now + TW_LIMIT;
	c->want |= CONN_WANT_END;
	return 0;
}

int conn_on_timer(struct conn *c, uint64_t now)
{
	if (c->timer_at && now >= c->timer_at) {
		int ret = limit_reached(c, now);

		if (ret < 0)
			return ret;
	}
	if (!state_in(c, STATES_OPEN))
		return c->error;
	update_ripe(c, now);
	return 0;
}

uint64_t conn_deadline(const struct conn *c)
{
	uint64_t at = c->timer_at ? c->timer_at : UINT64_MAX;

	if (!state_in(c, STATES_OPEN))
		return at;
	if (c->update_late && c->credits && conn_view_low(c) &&
	    !conn_update_due(c) && c->update_at < at)
		at = c->update_at;
	return at;
}

int conn_on_done(struct conn *c, enum conn_op_type what, uint64_t len)
{
	if (what == CONN_READ)
		return srcavail_read_done(c, len);
	return what == CONN_WRITE ? sinkavail_write_done(c, len) : -EINVAL;
}
