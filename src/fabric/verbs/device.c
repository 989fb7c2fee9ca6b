/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Devices: which may be used, and the contexts we open on them. */

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "base/text.h"
#include "fabric/verbs/int.h"

#define SYSFS	     "/sys/class/infiniband/"
#define FILES	     "/dev/infiniband/"
#define RXE_VENDOR   0xffffffu
#define SIW_VENDOR   0x626d74u
#define CONTEXTS_MAX 64

/*
 * Contexts of librdmacm whose descriptors are out of the way already: the
 * process's. The lock of the struct verbs guards them; there is one at a time.
 */
static struct ibv_context *moved[CONTEXTS_MAX];

/* Soft-RoCE alone has the attribute `parent`. */
static bool is_rxe(const char *name)
{
	char path[128];
	struct text t = TEXT_IN(path);
	int fd;

	text_add(&t, SYSFS "%s/parent", name);
	fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0)
		sys_close(fd);
	return fd >= 0;
}

static bool may_use(const struct verbs *v, struct ibv_device *dev)
{
	return !v->conf.may_use || v->conf.may_use(ibv_get_device_name(dev));
}

/*
 * librdmacm would say of a device whose file may not be opened that there is
 * none. Where the file has another name than usual it is for libibverbs to
 * find.
 */
static bool may_open(const struct verbs *v, const struct ibv_device *dev)
{
	char path[sizeof(FILES) + IBV_SYSFS_NAME_MAX];
	struct text t = TEXT_IN(path);
	int fd;

	text_add(&t, FILES "%s", dev->dev_name);
	fd = sys_open(path, O_RDWR | O_CLOEXEC, 0);
	if (fd >= 0)
		sys_close(fd);
	if (fd != -EACCES && fd != -EPERM)
		return true;
	verbs_say_once(v, LOG_WARN,
		       "no RDMA by %s: permission denied for %s: give it to "
		       "this user (a udev rule)",
		       dev->name, path);
	return false;
}

int device_any(struct verbs *v)
{
	struct ibv_device **list;
	int n = 0, i, named = 0, allowed = 0, usable = 0, iwarp = 0;

	list = ibv_get_device_list(&n);
	if (!list)
		return cm_err(-1) == -ENOSYS ? -ENODEV : cm_err(-1);
	for (i = 0; i < n; i++) {
		if (!may_use(v, list[i]))
			continue;
		named++;
		if (!v->conf.allow_soft_rdma &&
		    is_rxe(ibv_get_device_name(list[i])))
			continue;
		allowed++;
		if (!may_open(v, list[i]))
			continue;
		usable++;
		iwarp += list[i]->transport_type == IBV_TRANSPORT_IWARP;
	}
	ibv_free_device_list(list);
	v->ps = usable && iwarp == usable ? RDMA_PS_TCP : RDMA_PS_IB;
	if (usable)
		return 0;
	if (allowed)
		return -ENXIO;
	return named ? -EOPNOTSUPP : n ? -EPERM : -ENODEV;
}

/*
 * librdmacm opens a context for itself at low numbers. No harm if this table
 * is full: then they stay there.
 */
static void move_foreign(struct verbs *v, struct ibv_context *ctx)
{
	int i, at = -1;

	if (v->conf.foreign_cm || !v->conf.host.hide)
		return;
	for (i = 0; i < CONTEXTS_MAX; i++) {
		if (moved[i] == ctx)
			return;
		if (!moved[i])
			at = i;
	}
	if (at < 0)
		return;
	moved[at] = ctx;
	verbs_hide(v, &ctx->cmd_fd);
	verbs_hide(v, &ctx->async_fd);
}

/*
 * The device goes. A driver without a way to take it from its users (rxe) waits
 * for every context, and librdmacm keeps its own: its descriptors get to stand
 * for nothing. It frees them when it notices that the device is no more.
 */
static void let_go(struct verbs *v, struct ibv_context *ctx)
{
	int null, i;

	if (v->conf.foreign_cm || !ctx)
		return;
	null = sys_open("/dev/null", O_RDWR | O_CLOEXEC, 0);
	if (null < 0)
		return;
	sys_call3(SYS_dup3, null, ctx->cmd_fd, O_CLOEXEC);
	sys_call3(SYS_dup3, null, ctx->async_fd, O_CLOEXEC);
	sys_close(null);
	for (i = 0; i < CONTEXTS_MAX; i++)
		if (moved[i] == ctx)
			moved[i] = NULL;
}

static uint32_t least(int a, int b)
{
	int n = a < b ? a : b;

	return n < 0 ? 0 : n < (int)RD_ATOM ? (uint32_t)n : RD_ATOM;
}

static int device_fill(struct verbs *v, struct device *d)
{
	struct ibv_device_attr attr;
	int ret;

	ret = verbs_hide(v, &d->ctx->cmd_fd);
	if (!ret)
		ret = verbs_hide(v, &d->ctx->async_fd);
	if (!ret)
		ret = -ibv_query_device(d->ctx, &attr);
	if (ret)
		return ret;
	d->iwarp = d->dev->transport_type == IBV_TRANSPORT_IWARP;
	d->soft = is_rxe(ibv_get_device_name(d->dev)) ||
		  attr.vendor_id == RXE_VENDOR || attr.vendor_id == SIW_VENDOR;
	if (d->soft && !v->conf.allow_soft_rdma)
		return -EOPNOTSUPP;
	d->vectors = d->ctx->num_comp_vectors > 0 ?
			     (uint32_t)d->ctx->num_comp_vectors :
			     1;
	d->rd_atom = least(attr.max_qp_rd_atom, attr.max_qp_init_rd_atom);
	d->pd = ibv_alloc_pd(d->ctx);
	d->chan = ibv_create_comp_channel(d->ctx);
	if (!d->pd || !d->chan)
		return cm_err(-1);
	ret = verbs_hide(v, &d->chan->fd);
	if (!ret)
		ret = verbs_watch(v, d->chan->fd, &d->chan);
	return ret ? ret : verbs_watch(v, d->ctx->async_fd, &d->ctx);
}

static int device_open(struct verbs *v, struct ibv_device *dev,
		       struct device **out)
{
	struct device *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return -ENOMEM;
	d->dev = dev;
	d->ctx = ibv_open_device(dev);
	if (!d->ctx) {
		ret = cm_err(-1);
		free(d);
		return ret;
	}
	ret = device_fill(v, d);
	if (ret) {
		device_close(v, d);
		return ret;
	}
	d->next = v->devices;
	v->devices = d;
	*out = d;
	return 0;
}

int device_get(struct verbs *v, struct rdma_cm_id *id, struct device **out)
{
	struct device *d;
	int ret;

	if (!id->verbs)
		return -ENODEV;
	move_foreign(v, id->verbs);
	for (d = v->devices; d; d = d->next)
		if (d->dev == id->verbs->device && !d->gone)
			break;
	if (!d) {
		if (!may_use(v, id->verbs->device))
			return -EPERM;
		ret = device_open(v, id->verbs->device, &d);
		if (ret == -EACCES || ret == -EPERM) {
			may_open(v, id->verbs->device);
			return -ENXIO;
		}
		if (ret)
			return ret;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): cm_err() is not 0 */
	d->cm_ctx = id->verbs;
	d->uses++;
	*out = d;
	return 0;
}

void device_close(struct verbs *v, struct device *d)
{
	if (d->chan) {
		verbs_unhide(v, d->chan->fd);
		ibv_destroy_comp_channel(d->chan);
	}
	if (d->pd)
		ibv_dealloc_pd(d->pd);
	verbs_unhide(v, d->ctx->cmd_fd);
	verbs_unhide(v, d->ctx->async_fd);
	ibv_close_device(d->ctx);
	free(d);
}

/* Its last end is gone, and so is it. */
static void device_drop(struct verbs *v, struct device *d)
{
	struct device **at = &v->devices;

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	let_go(v, d->cm_ctx);
	device_close(v, d);
}

void device_put(struct verbs *v, struct device *d)
{
	if (!--d->uses && d->gone)
		device_drop(v, d);
}

void device_forget(struct verbs *v, struct device *d)
{
	int fds[] = { d->chan->fd, d->ctx->cmd_fd, d->ctx->async_fd }, i;

	for (i = 0; i < 3; i++) {
		verbs_unhide(v, fds[i]);
		sys_close(fds[i]);
	}
	free(d);
}

/*
 * An end that was accepted and hears from its peer is up: the message overtook
 * the RTU [2.1].
 */
void device_told(struct vend *e)
{
	if (e->state == V_ACCEPTED) {
		e->state = V_UP;
		event_limit(e, 0);
		event_due(e, VE_UP);
	}
	event_due(e, VE_READABLE);
}

/* Completion events name a queue, and a queue its end. */
void device_completions(struct device *d)
{
	struct ibv_cq *cq;
	void *who;

	/* One a time: most often there is one, and the descriptor tells. */
	if (ibv_get_cq_event(d->chan, &cq, &who))
		return;
	ibv_ack_cq_events(cq, 1);
	device_told(who);
}

/* Every end of it is told; the last one closes it. */
static void device_gone(struct verbs *v, struct device *d)
{
	struct list *l;
	struct vend *e;

	d->gone = true;
	for (l = v->ends.next; l != &v->ends; l = l->next) {
		e = LIST_OF(l, struct vend, all);
		if (e->dev == d)
			event_down(e, -ENODEV);
	}
}

void device_async(struct verbs *v, struct device *d)
{
	struct ibv_async_event ev;
	struct vend *e;

	while (!ibv_get_async_event(d->ctx, &ev)) {
		switch (ev.event_type) {
		case IBV_EVENT_COMM_EST:
			e = ev.element.qp->qp_context;
			rdma_notify(e->id, IBV_EVENT_COMM_EST);
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
			e = ev.element.qp->qp_context;
			event_down(e, -EPROTO);
			break;
		case IBV_EVENT_DEVICE_FATAL:
			device_gone(v, d);
			break;
		default:
			break;
		}
		ibv_ack_async_event(&ev);
	}
	if (d->gone && !d->uses)
		device_drop(v, d);
}
