/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What both kinds of advertisement share: lists, memory that came free. */
#include "sdp_proto/state.h"

void advert_drop(struct conn_advert *list, uint32_t *count, uint32_t n)
{
	if (n > *count)
		n = *count;
	*count -= n;
	memmove(list, list + n, *count * sizeof(*list));
}

/* --- memory that came free --------------------------------------------- */

bool advert_fits(const struct conn *c)
{
	return c->src_count + c->sink_count + c->freed_count < 2 * CONN_ADVERTS;
}

static void add_freed(struct conn *c, const struct conn_advert *a, uint64_t at,
		      uint32_t bytes, bool sink)
{
	c->freed[c->freed_count++] = (struct conn_freed){
		.key = a->key,
		.at = at,
		.bytes = bytes,
		.sink = sink,
	};
}

void src_free(struct conn *c)
{
	const struct conn_advert *a = &c->src[0];

	add_freed(c, a, c->tx_stream - a->done, a->done, false);
	advert_drop(c->src, &c->src_count, 1);
	if (c->src_count)
		return;
	c->cancel_tx = false;
	c->want &= (uint16_t)~CONN_WANT_SRC_CANCEL;
}

void sink_free(struct conn *c, uint32_t bytes)
{
	add_freed(c, &c->sink[0], c->rx_stream, bytes, true);
	c->rx_stream += bytes;
	advert_drop(c->sink, &c->sink_count, 1);
	if (c->sink_count)
		return;
	c->sink_cancel = false;
	c->want &= (uint16_t)~CONN_WANT_SINK_CANCEL;
}

void src_over(struct conn *c)
{
	while (c->src_count)
		src_free(c);
}

void sink_over(struct conn *c)
{
	while (c->sink_count)
		sink_free(c, 0);
}

bool conn_freed(struct conn *c, struct conn_freed *f)
{
	if (!c->freed_count)
		return false;
	*f = c->freed[0];
	c->freed_count--;
	memmove(c->freed, c->freed + 1, c->freed_count * sizeof(*f));
	return true;
}

/* --- taking back ------------------------------------------------------- */

void conn_cancel_sources(struct conn *c)
{
	if (c->src_count && !c->cancel_tx && state_in(c, STATES_OPEN))
		c->want |= CONN_WANT_SRC_CANCEL;
}

void conn_cancel_sinks(struct conn *c)
{
	if (c->sink_count && !c->sink_cancel && state_in(c, STATES_OPEN))
		c->want |= CONN_WANT_SINK_CANCEL;
}

void zcopy_due(struct conn *c)
{
	if (!state_in(c, STATES_OPEN))
		return;
	if (c->rd_shut)
		conn_cancel_sinks(c);
	srcavail_due(c);
}
