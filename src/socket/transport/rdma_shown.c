/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What people are shown of a connection over RDMA: sdpstat's row, a capture. */

#include "base/text.h"
#include "socket/transport/transport.h"

void rdma_row(const struct sock *s, struct page_row *r)
{
	struct text t = TEXT_IN(r->device);
	struct verbs_info info;

	r->carrier = PATH_RDMA;
	if (!rdma_here(s) || s->rd->state != RDMA_UP || !rdma_api) {
		memset(r->device, 0, sizeof(r->device));
		r->registered = 0;
		return;
	}
	rdma_api->info(s->rd->end, &info);
	text_add(&t, "%.*s", (int)sizeof(r->device) - 1, info.device);
	r->registered = info.registered;
}

struct conn_names rdma_shown_names(const struct sock *s)
{
	const struct diag_names *d = &s->rd->seek.names;
	struct conn_names n = { .ipv = d->v4 ? 4 : 6 };
	size_t at = d->v4 ? 12 : 0;

	n.local_port = d->local_port;
	n.remote_port = d->peer_port;
	memcpy(n.src + at, d->local, 16 - at);
	memcpy(n.dst + at, d->peer, 16 - at);
	return n;
}

bool rdma_peer_records(const struct sock *s)
{
	return s->rd->seek.records;
}
