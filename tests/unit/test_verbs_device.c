/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_util.h"

/* Devices that are made up: which count, and which have a context. */

static struct verbs v;
static struct ibv_device made[2] = {
	{ .name = "made0", .dev_name = "made-uverbs0" },
	{ .name = "made1", .dev_name = "made-uverbs1" },
};
static int count; /* of devices that are here */
static int opened, closed, open_err;
static struct ibv_pd pd;
static struct ibv_comp_channel chan;

int verbs_hide(struct verbs *of, int *fd)
{
	(void)of;
	(void)fd;
	return 0;
}

void verbs_unhide(const struct verbs *of, int fd)
{
	(void)of;
	(void)fd;
}

int verbs_watch(struct verbs *of, int fd, void *who)
{
	(void)of;
	(void)fd;
	(void)who;
	return 0;
}

void event_due(struct vend *e, enum verbs_event_type type)
{
	(void)e;
	(void)type;
	fail();
}

void event_limit(struct vend *e, uint32_t ms)
{
	(void)e;
	(void)ms;
	fail();
}

void event_down(struct vend *e, int why)
{
	(void)e;
	(void)why;
	fail();
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(3, sizeof(*list));

	assert_non_null(list);
	for (*n = 0; *n < count; ++*n)
		list[*n] = &made[*n];
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static bool says_nothing; /* it fails, and errno is 0 */

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *ctx;

	errno = says_nothing ? 0 : open_err;
	if (open_err)
		return NULL;
	ctx = calloc(1, sizeof(*ctx));
	assert_non_null(ctx);
	ctx->device = device;
	ctx->cmd_fd = ctx->async_fd = -1;
	ctx->num_comp_vectors = 2;
	opened++;
	return ctx;
}

int ibv_close_device(struct ibv_context *ctx)
{
	free(ctx);
	closed++;
	return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = (struct ibv_device_attr){ .max_qp_rd_atom = 16,
					  .max_qp_init_rd_atom = 2 };
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	(void)ctx;
	return &pd;
}

int ibv_dealloc_pd(struct ibv_pd *gone)
{
	(void)gone;
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	(void)ctx;
	chan.fd = -1;
	return &chan;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *gone)
{
	(void)gone;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
		     void **who)
{
	(void)channel;
	(void)cq;
	(void)who;
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	(void)cq;
	(void)n;
}

static bool fatal;

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	(void)ctx;
	if (!fatal)
		return -1;
	fatal = false;
	ev->event_type = IBV_EVENT_DEVICE_FATAL;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *ev)
{
	(void)ev;
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	(void)id;
	(void)event;
	return 0;
}

/* --- tests -------------------------------------------------------------- */

static int begin(void **state)
{
	(void)state;
	v = (struct verbs){ .ep = -1, .kick = -1 };
	v.conf.foreign_cm = true; /* contexts of librdmacm stay as they are */
	list_init(&v.ends);
	count = 2;
	opened = closed = open_err = lines = 0;
	return 0;
}

static bool second(const char *device)
{
	return !strcmp(device, "made1");
}

static bool none(const char *device)
{
	(void)device;
	return false;
}

static void which_count(void **state)
{
	(void)state;
	assert_int_equal(device_any(&v), 0);
	assert_int_equal(v.ps, RDMA_PS_IB);
	made[0].transport_type = IBV_TRANSPORT_IWARP;
	assert_int_equal(device_any(&v), 0);
	assert_int_equal(v.ps, RDMA_PS_IB);
	v.conf.may_use = none;
	assert_int_equal(device_any(&v), -EPERM);
	v.conf.may_use = NULL;
	count = 1;
	assert_int_equal(device_any(&v), 0);
	assert_int_equal(v.ps, RDMA_PS_TCP);
	made[0].transport_type = IBV_TRANSPORT_UNKNOWN;
	count = 0;
	assert_int_equal(device_any(&v), -ENODEV);
}

/* The route names the device; each has one context, and two ports share it. */
static void several_devices(void **state)
{
	struct ibv_context cm[2] = { { .device = &made[0] },
				     { .device = &made[1] } };
	struct rdma_cm_id a = { .verbs = &cm[0], .port_num = 1 };
	struct rdma_cm_id a2 = { .verbs = &cm[0], .port_num = 2 };
	struct rdma_cm_id b = { .verbs = &cm[1], .port_num = 1 };
	struct rdma_cm_id nowhere = { .port_num = 1 };
	struct device *d[3];

	(void)state;
	assert_int_equal(device_get(&v, &nowhere, &d[0]), -ENODEV);
	assert_int_equal(device_get(&v, &a, &d[0]), 0);
	assert_int_equal(device_get(&v, &b, &d[1]), 0);
	assert_int_equal(device_get(&v, &a2, &d[2]), 0);
	assert_ptr_equal(d[0]->dev, &made[0]);
	assert_ptr_equal(d[1]->dev, &made[1]);
	assert_ptr_equal(d[0], d[2]);
	assert_int_equal(d[0]->rd_atom, 2);
	assert_int_equal(opened, 2);
	/*
	 * one goes: it is not given out any more, the other is none the worse
	 */
	d[0]->gone = true;
	device_put(&v, d[0]);
	assert_int_equal(closed, 0);
	device_put(&v, d[2]);
	assert_int_equal(closed, 1);
	/* given back it is a new one */
	assert_int_equal(device_get(&v, &a, &d[0]), 0);
	assert_int_equal(opened, 3);
	device_put(&v, d[0]);
	device_put(&v, d[1]);
	assert_int_equal(closed, 1);
	/* it is not in use when it goes */
	fatal = true;
	device_async(&v, d[0]);
	assert_int_equal(closed, 2);
	fatal = true;
	device_async(&v, d[1]);
	assert_int_equal(closed, 3);
	assert_null(v.devices);
}

static void only_what_the_setting_names(void **state)
{
	struct ibv_context cm[2] = { { .device = &made[0] },
				     { .device = &made[1] } };
	struct rdma_cm_id a = { .verbs = &cm[0] }, b = { .verbs = &cm[1] };
	struct device *d;

	(void)state;
	v.conf.may_use = second;
	assert_int_equal(device_any(&v), 0);
	assert_int_equal(device_get(&v, &a, &d), -EPERM);
	assert_int_equal(device_get(&v, &b, &d), 0);
	assert_int_equal(opened, 1);
	fatal = true;
	d->uses = 0;
	device_async(&v, d);
	open_err = EACCES;
	assert_int_equal(device_get(&v, &b, &d), -ENXIO);
	open_err = EMFILE;
	assert_int_equal(device_get(&v, &b, &d), -EMFILE);
	says_nothing = true;
	assert_int_equal(device_get(&v, &b, &d), -EIO);
	says_nothing = false;
	assert_null(v.devices);
}

/* A /dev of its own, with such a file, and no capability to pass it by. */
static int in_a_world_without_rights(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct no[2] = { { 0 } };

	if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return 77;
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev", "tmpfs", 0, NULL) ||
	    mkdir("/dev/infiniband", 0755) ||
	    close(open("/dev/infiniband/made-uverbs0", O_CREAT | O_WRONLY,
		       0)) ||
	    syscall(SYS_capset, &head, no))
		return 77;
	count = 1;
	if (device_any(&v) != -ENXIO || device_any(&v) != -ENXIO)
		return 1;
	if (lines != 1 || !strstr(said, "made0: permission denied for "
					"/dev/infiniband/made-uverbs0"))
		return 2;
	/* the second one has another name there: it may be opened */
	count = 2;
	return device_any(&v) ? 3 : 0;
}

static void a_file_that_may_not_be_opened(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(in_a_world_without_rights());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* no namespaces for this user */
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(which_count, begin),
		cmocka_unit_test_setup(several_devices, begin),
		cmocka_unit_test_setup(only_what_the_setting_names, begin),
		cmocka_unit_test_setup(a_file_that_may_not_be_opened, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
