/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The module's one symbol, and the life of a struct verbs. */

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/sys.h"
#include "fabric/verbs/int.h"

static const struct fabric_ops verbs_ops = {
	.name = "verbs",
	.room = tx_room,
	.buf = tx_buf,
	.ctrl = tx_ctrl,
	.send = tx_send,
	.poll = rx_poll,
	.front = rx_front,
	.release = rx_release,
	.next = rx_next,
	.lend = rdma_op_lend,
	.lent = rdma_op_lent,
	.unlend = rdma_op_unlend,
	.sink = rdma_op_sink,
	.unsink = rdma_op_unsink,
	.read = rdma_op_read,
	.write = rdma_op_write,
	.done = rdma_op_done,
	.pending = cq_pending,
	.trim = end_trim,
	.destroy = end_destroy,
};

static int open_fds(struct verbs *v)
{
	int ret;

	v->ep = (int)sys_call3(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0);
	ret = verbs_hide(v, &v->ep);
	if (ret)
		return ret;
	v->kick =
		(int)sys_call3(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK, 0);
	ret = verbs_hide(v, &v->kick);
	if (!ret)
		ret = verbs_watch(v, v->kick, &v->kick);
	if (ret)
		return ret;
	v->chan = rdma_create_event_channel();
	if (!v->chan) {
		ret = cm_err(-1);
		verbs_say_once(
			v, LOG_WARN,
			"no RDMA: /dev/infiniband/rdma_cm: error %d: %s", -ret,
			ret == -EACCES || ret == -EPERM ?
				"give it to this user (a udev rule)" :
				"is the kernel's module rdma_ucm there?");
		return ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM ?
			       ret :
			       -ENXIO;
	}
	ret = verbs_hide(v, &v->chan->fd);
	return ret ? ret : verbs_watch(v, v->chan->fd, v->chan);
}

static void close_fd(struct verbs *v, int *fd)
{
	if (*fd < 0)
		return;
	verbs_unhide(v, *fd);
	sys_close(*fd);
	*fd = -1;
}

static void verbs_close(struct verbs *v)
{
	struct device *d, *next;

	if (lock_mine(&v->lock))
		return; /* a signal handler: all of it stays */
	while (v->listeners)
		verbs_unlisten(v, v->listeners->port);
	while (!list_empty(&v->requests))
		request_drop(v, LIST_OF(v->requests.next, struct verbs_request,
					all));
	if (v->chan) {
		verbs_unhide(v, v->chan->fd);
		rdma_destroy_event_channel(v->chan);
	}
	for (d = v->devices; d; d = next) {
		next = d->next;
		device_close(v, d);
	}
	close_fd(v, &v->kick);
	close_fd(v, &v->ep);
	free(v);
}

static int verbs_open(struct verbs **out, const struct verbs_conf *conf)
{
	struct verbs *v = calloc(1, sizeof(*v));
	int ret;

	if (!v)
		return -ENOMEM;
	v->conf = *conf;
	v->ops = &verbs_ops;
	v->ep = v->kick = -1;
	list_init(&v->ends);
	list_init(&v->due);
	list_init(&v->timed);
	list_init(&v->requests);
	ret = device_any(v);
	if (!ret)
		ret = open_fds(v);
	if (ret) {
		verbs_close(v);
		return ret;
	}
	*out = v;
	return 0;
}

/*
 * The objects stay as they are, and what librdmacm and libibverbs know of them
 * is leaked: to destroy is to tell the kernel or the device, and they are the
 * parent's. Closing the descriptors is enough, and needed: an inherited one
 * would keep the parent's connections alive (rdma-facts.md 1.2).
 */
static void verbs_forget(struct verbs *v)
{
	struct device *d, *dnext;
	struct list *l, *next;

	lock_forked();
	for (l = v->ends.next; l != &v->ends; l = next) {
		next = l->next;
		end_forget(LIST_OF(l, struct vend, all));
	}
	close_fd(v, &v->chan->fd);
	for (d = v->devices; d; d = dnext) {
		dnext = d->next;
		device_forget(v, d);
	}
	close_fd(v, &v->kick);
	close_fd(v, &v->ep);
	free(v);
}

/*
 * librdmacm has locks, and a child that inherits a taken one waits for ever: so
 * a fork waits until no thread is inside. Data go by without.
 */
static void verbs_hold(struct verbs *v)
{
	v->held = !verbs_enter(v);
}

static void verbs_resume(struct verbs *v)
{
	if (v->held)
		lock_drop(&v->lock);
	v->held = false;
}

static int verbs_fd(const struct verbs *v)
{
	return v->ep;
}

const struct verbs_api libsdp_verbs = {
	.version = VERBS_API,
	.open = verbs_open,
	.close = verbs_close,
	.hold = verbs_hold,
	.resume = verbs_resume,
	.forget = verbs_forget,
	.fd = verbs_fd,
	.event = verbs_event,
	.patience = verbs_patience,
	.listen = verbs_listen,
	.unlisten = verbs_unlisten,
	.dial = verbs_dial,
	.dial_native = verbs_dial_native,
	.connect = verbs_connect,
	.establish = verbs_establish,
	.prepare = verbs_prepare,
	.accept = verbs_accept,
	.refuse = verbs_refuse,
	.arm = verbs_arm,
	.ear = verbs_ear,
	.deaf = verbs_deaf,
	.heard = verbs_heard,
	.unacked = verbs_unacked,
	.flushed = verbs_flushed,
	.probe = verbs_probe,
	.disconnect = verbs_disconnect,
	.resize = verbs_resize,
	.shed = verbs_shed,
	.drop = verbs_drop,
	.info = verbs_info,
	.reg = verbs_reg,
	.dereg = verbs_dereg,
	.reg_from = verbs_reg_from,
};
