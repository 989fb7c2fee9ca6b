/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Set-up: Hello and HelloAck [1.4, 1.5, 2.2, 2.6], and what is refused in
 * them [6, rows 37 and 38].
 */
#include "sdp_proto/state.h"

#define MAJOR(version) ((version) >> 4)
#define MIN_BUFS       3 /* fewer would never let the peer send data */

static uint16_t own_bufs(struct conn *c)
{
	c->bufs_told = c->posted < UINT16_MAX ? c->posted : UINT16_MAX;
	return (uint16_t)c->bufs_told;
}

static void own_ext(const struct conn *c, const struct conn_names *n,
		    struct wire_ext *x)
{
	x->version = WIRE_EXT_VERSION;
	x->flags = c->own_ext_flags;
	x->max_adverts = c->max_adverts;
	x->remote_port = n->remote_port;
	x->window = n->window;
	x->token = n->token;
	x->check = n->check;
}

static void take_ext(struct conn *c, const struct wire_ext *x,
		     struct conn_names *n)
{
	c->peer_ext_flags = x->flags;
	n->remote_port = x->remote_port;
	n->window = x->window;
	n->token = x->token;
	n->check = x->check;
}

size_t conn_hello(struct conn *c, const struct conn_names *n,
		  uint8_t buf[CONN_HELLO_MAX])
{
	struct wire_hello h = {
		.bufs = own_bufs(c),
		.version = WIRE_VERSION,
		.ipv = n->ipv,
		.max_adverts = (uint8_t)c->max_adverts,
		.des_rcv_size = c->rcv_size,
		.rcv_size = c->rcv_size,
		.local_port = n->local_port,
	};

	if (c->native) {
		memcpy(h.src, n->src, sizeof(h.src));
		memcpy(h.dst, n->dst, sizeof(h.dst));
	} else {
		own_ext(c, n, &h.ext);
	}
	state_move(c, CONN_HELLO_SENT);
	return wire_hello_encode(&h, buf);
}

static const char *hello_fault(const struct conn *c, const struct wire_hello *h)
{
	if (c->native != !h->ext.version)
		return "Hello of the other kind";
	if (MAJOR(h->version) != MAJOR(WIRE_VERSION))
		return "Hello: major version";
	if (h->ipv != 4 && h->ipv != 6)
		return "Hello: IP version";
	if (!h->max_adverts)
		return "Hello: MaxAdverts 0";
	if (h->rcv_size <= WIRE_BSDH)
		return "Hello: receive size";
	if (h->bufs < MIN_BUFS)
		return "Hello: too few receives";
	return NULL;
}

int conn_on_hello(struct conn *c, const void *msg, size_t len,
		  struct conn_names *n)
{
	struct wire_hello h;
	const char *fault;

	memset(n, 0, sizeof(*n));
	if (c->state != CONN_NEW)
		return state_die(c, -EPROTO, "Hello after set-up");
	if (wire_hello_decode(msg, len, &h) < 0)
		return state_die(c, -EPROTO, "Hello: not one");
	fault = hello_fault(c, &h);
	if (fault)
		return state_die(c, -EPROTO, fault);
	c->credits = h.bufs;
	c->peer_rcv_size = c->peer_rcv_least = h.rcv_size;
	c->peer_max_adverts = h.max_adverts;
	if (h.cap & WIRE_CAP_EXT_ADVERTS)
		c->peer_max_adverts = h.ext.version ? h.ext.max_adverts :
						      h.ext_max_adverts;
	n->ipv = h.ipv;
	n->local_port = h.local_port;
	memcpy(n->src, h.src, sizeof(n->src));
	memcpy(n->dst, h.dst, sizeof(n->dst));
	take_ext(c, &h.ext, n);
	state_move(c, CONN_HELLO_RCVD);
	return 0;
}

void conn_hello_ack(struct conn *c, const struct conn_names *n,
		    uint8_t buf[CONN_HELLO_ACK_LEN])
{
	struct wire_hello_ack h = {
		.bufs = own_bufs(c),
		.version = WIRE_VERSION,
		.max_adverts = (uint8_t)c->max_adverts,
		.rcv_size = c->rcv_size,
	};

	if (!c->native)
		own_ext(c, n, &h.ext);
	wire_hello_ack_encode(&h, buf);
	state_move(c, CONN_EST);
	close_pending_shutdown(c);
}

int conn_on_hello_ack(struct conn *c, const void *msg, size_t len,
		      struct conn_names *n)
{
	struct wire_hello_ack h;

	memset(n, 0, sizeof(*n));
	if (c->state != CONN_HELLO_SENT)
		return state_die(c, -EPROTO, "HelloAck not asked for");
	if (wire_hello_ack_decode(msg, len, &h) < 0)
		return state_die(c, -EPROTO, "HelloAck: not one");
	if (MAJOR(h.version) != MAJOR(WIRE_VERSION))
		return state_die(c, -EPROTO, "HelloAck: major version");
	if (h.rcv_size <= WIRE_BSDH)
		return state_die(c, -EPROTO, "HelloAck: receive size");
	if (h.bufs < MIN_BUFS)
		return state_die(c, -ECONNREFUSED,
				 "HelloAck: too few receives");
	c->credits = h.bufs;
	c->peer_rcv_size = c->peer_rcv_least = h.rcv_size;
	c->peer_max_adverts = h.max_adverts;
	if (!c->native)
		take_ext(c, &h.ext, n);
	state_move(c, CONN_EST);
	close_pending_shutdown(c);
	return 0;
}
