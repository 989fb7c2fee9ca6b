/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Urgent data [5.1]. The urgent byte is the last of its message (OOB_PRES).
 * OOB_PEND announces it: in the same message, and to our own kind as early as
 * a message can go, so that the signal does not wait for the bytes before it.
 */
#include "sdp_proto/state.h"

uint8_t urgent_flags(struct conn *c, const struct conn_offer *offer,
		     uint32_t payload)
{
	if (!offer->oob_last)
		return 0;
	if (payload == offer->bytes) {
		c->pend_told = false;
		return WIRE_OOB_PRES | WIRE_OOB_PEND;
	}
	return urgent_notice(c, offer);
}

uint8_t urgent_notice(struct conn *c, const struct conn_offer *offer)
{
	if (!offer->oob_last || !offer->bytes || c->dis_sent || c->pend_told ||
	    c->native)
		return 0;
	c->pend_told = true;
	return WIRE_OOB_PEND;
}

void urgent_received(struct conn *c, const struct wire_msg *m,
		     struct conn_in *in)
{
	bool here = (m->flags & WIRE_OOB_PRES) && m->mid == WIRE_DATA &&
		    m->len > m->hdr_len;

	if ((here || (m->flags & WIRE_OOB_PEND)) && !c->pend_heard) {
		in->oob_pending = true;
		c->pend_heard = true;
	}
	if (here) {
		in->oob = true;
		c->pend_heard = false;
	}
}
