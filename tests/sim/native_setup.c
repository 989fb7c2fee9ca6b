/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a native world begins: Hello and HelloAck [1.4, 1.5, 2.2], refused by
 * which end and with what.
 */
#include "native_world.h"

#include <errno.h>
#include <string.h>

static void names(struct kp_names *n, uint8_t ipv)
{
	memset(n, 0, sizeof(*n));
	n->ipv = ipv;
	n->port = (uint16_t)(1024 + native_rnd(60000));
	for (int i = ipv == 4 ? 12 : 0; i < 16; i++) {
		n->src[i] = (uint8_t)native_rnd(256);
		n->dst[i] = (uint8_t)native_rnd(256);
	}
}

static bool start_active(struct native_world *w, const struct kp_names *n)
{
	struct conn_names ours = { .ipv = n->ipv, .local_port = n->port };
	uint8_t buf[CONN_HELLO_ACK_LEN];
	struct conn_names got;
	size_t len;
	int ret;

	memcpy(ours.src, n->src, 16);
	memcpy(ours.dst, n->dst, 16);
	len = conn_hello(&w->c, &ours, buf);
	w->told = (uint32_t)(buf[2] << 8 | buf[3]);
	if (!kp_take_hello(&w->k, n, buf, len) && !w->set.hello_lost) {
		native_saw(SEEN_GEN1_REJ, w->set.family == KP_GEN1);
		native_saw(SEEN_IPV6_BSD,
			   w->set.family == KP_FREEBSD && n->ipv == 6);
		if (conn_on_disconnected(&w->c, w->now) != -ECONNREFUSED)
			native_fault(w, "a REJ is not ECONNREFUSED");
		return false;
	}
	kp_hello_ack(&w->k, buf);
	w->bufs = (uint32_t)(buf[2] << 8 | buf[3]);
	ret = conn_on_hello_ack(&w->c, buf, sizeof(buf), &got);
	native_saw(SEEN_GEN1_ACK, ret && w->set.family == KP_GEN1);
	if ((ret == -EPROTO) != (w->set.family == KP_GEN1))
		native_fault(w, "HelloAck: %d", ret);
	w->up = true;
	return !ret;
}

static bool start_passive(struct native_world *w, const struct kp_names *n)
{
	struct conn_names ours = { 0 };
	uint8_t buf[CONN_HELLO_ACK_LEN];
	struct conn_names got;
	int ret;

	kp_hello(&w->k, n, buf);
	w->bufs = (uint32_t)(buf[2] << 8 | buf[3]);
	ret = conn_on_hello(&w->c, buf, CONN_HELLO_MAX, &got);
	native_saw(SEEN_GEN1_HELLO, ret && w->set.family == KP_GEN1);
	if ((ret == -EPROTO) != (w->set.family == KP_GEN1))
		native_fault(w, "Hello: %d", ret);
	if (ret)
		return false;
	if (got.ipv != n->ipv || got.local_port != n->port ||
	    memcmp(got.src, n->src, 16) || memcmp(got.dst, n->dst, 16))
		native_fault(w, "Hello: names");
	conn_hello_ack(&w->c, &ours, buf);
	w->told = (uint32_t)(buf[2] << 8 | buf[3]);
	if (!kp_take_hello_ack(&w->k, buf, sizeof(buf)))
		native_fault(w, "HelloAck refused");
	w->kernel_up = true;
	return true;
}

void native_reset(struct native_world *w)
{
	struct native_setup set = w->set;
	FILE *trace = w->trace;

	memset(w, 0, offsetof(struct native_world, to_kernel));
	w->set = set;
	w->trace = trace;
	memset(&w->to_kernel, 0, offsetof(struct native_pipe, m));
	memset(&w->to_us, 0, offsetof(struct native_pipe, m));
}

bool native_start(struct native_world *w)
{
	struct kp_names n;
	bool up;

	w->now = KP_MS;
	w->rtu_at = w->now + 1 + native_pause(w->set.rtu);
	w->posted = w->set.conn.posted;
	conn_init(&w->c, &w->set.conn);
	kp_start(&w->k, w->set.family, &w->set.kernel);
	w->k.expect = w->set.plan.urgent;
	w->k.expected = w->set.plan.urgents;
	names(&n, w->set.ipv);
	up = w->set.active ? start_active(w, &n) : start_passive(w, &n);
	if (w->k.fault[0])
		native_fault(w, "kernel: %s", w->k.fault);
	if (up &&
	    (w->k.pay_max != w->set.conn.rcv_size - 16 || w->told != w->posted))
		native_fault(w, "receives announced wrongly");
	return up && !w->fault[0];
}
