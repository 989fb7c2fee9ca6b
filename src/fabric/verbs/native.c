/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Dialling a kernel's SDP socket (sdp-protocol.md 2.5, 2.6). Its service id is
 * none that an IP address and a port lead to, so the connection is made by
 * GIDs (AF_IB). Those are found by resolving the IP address first, over IPoIB.
 */

#include <endian.h>
#include <infiniband/ib.h>
#include <string.h>

#include "fabric/verbs/int.h"

#define SDP_SERVICE 0x10000u /* and the port */

int verbs_dial_native(struct verbs *v, const union verbs_addr *local,
		      const union verbs_addr *peer, uint64_t tag,
		      struct end **end)
{
	return cm_dial(v, local, peer, SDP_SERVICE | ntohs(peer->in.sin_port),
		       tag, end);
}

/* RoCE has no net device for GIDs without an address: no route [2.5]. */
static bool infiniband(const struct vend *e)
{
	struct ibv_port_attr port;

	return e->id->verbs &&
	       !ibv_query_port(e->id->verbs, e->id->port_num, &port) &&
	       port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

static void by_gid(struct sockaddr_ib *a, const union ibv_gid *gid,
		   uint16_t pkey, uint64_t service)
{
	memset(a, 0, sizeof(*a));
	a->sib_family = AF_IB;
	a->sib_pkey = pkey;
	memcpy(&a->sib_addr, gid, sizeof(a->sib_addr));
	a->sib_sid = htobe64(service);
	a->sib_sid_mask = service ? UINT64_MAX : 0;
}

void native_found(struct verbs *v, struct vend *e)
{
	const struct rdma_ib_addr *ib = &e->id->route.addr.addr.ibaddr;
	struct rdma_cm_id *id;
	struct sockaddr_ib from, to;
	int ret;

	if (!infiniband(e)) {
		verbs_say(v, LOG_WARN,
			  "native: %s is no InfiniBand device, as kernel SDP "
			  "peers need it",
			  e->id->verbs ?
				  ibv_get_device_name(e->id->verbs->device) :
				  "it");
		event_down(e, -EHOSTUNREACH);
		return;
	}
	by_gid(&from, &ib->sgid, ib->pkey, 0);
	by_gid(&to, &ib->dgid, ib->pkey, e->service);
	ret = cm_err(rdma_create_id(v->chan, &id, &e->owner, RDMA_PS_IB));
	if (ret) {
		event_down(e, ret);
		return;
	}
	e->id->context = NULL;
	e->id = id;
	e->state = V_RESOLVING;
	cm_resolve(e, (struct sockaddr *)&from, (struct sockaddr *)&to);
}
