/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "fabric/verbs/int.h"

/*
 * The module where there is a device, but no way to its connection manager:
 * these definitions are the ones that it finds.
 */
#define FOUND __attribute__((visibility("default")))

static struct ibv_device made = { .name = "made0", .dev_name = "made-uverbs0" };
static int refusal; /* of rdma_cm's device file */

FOUND struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	assert_non_null(list);
	list[0] = &made;
	*n = 1;
	return list;
}

FOUND void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

FOUND const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

FOUND struct rdma_event_channel *rdma_create_event_channel(void)
{
	errno = refusal;
	return NULL;
}

static const struct verbs_api *api;
static char said[512];
static int lines, hidden;

static int hide(int fd)
{
	hidden++;
	return fd;
}

static void unhide(int fd)
{
	(void)fd;
	hidden--;
}

static void say(int level, const char *line)
{
	struct text t = TEXT_IN(said);

	(void)level;
	text_add(&t, "%s", line);
	lines++;
}

static int load(void **state)
{
	void *lib = dlopen(".libs/libsdp-verbs.so", RTLD_NOW | RTLD_LOCAL);

	(void)state;
	api = lib ? dlsym(lib, "libsdp_verbs") : NULL;
	return api ? 0 : -1;
}

/* Twice: said once, and nothing of it is left. What went wrong, or 0. */
static int opened(int err, int ret, const char *words)
{
	struct verbs_conf conf = { .allow_soft_rdma = true,
				   .host = { hide, unhide, say } };
	struct verbs *v = NULL;
	int i;

	refusal = err;
	for (i = 0; i < 2; i++)
		if (api->open(&v, &conf) != ret)
			return 1;
	if (v || hidden)
		return 2;
	if (lines != 1)
		return 3;
	return strstr(said, "/dev/infiniband/rdma_cm") && strstr(said, words) ?
		       0 :
		       4;
}

/* In a child, for what was said once is not said again. */
static void is_refused(int err, int ret, const char *words)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(opened(err, ret, words));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void the_file_is_another_user_s(void **state)
{
	(void)state;
	is_refused(EACCES, -ENXIO, "give it to this user");
	is_refused(EPERM, -ENXIO, "give it to this user");
}

static void there_is_no_such_file(void **state)
{
	(void)state;
	is_refused(ENOENT, -ENXIO, "is the kernel's module rdma_ucm there?");
	is_refused(ENODEV, -ENXIO, "is the kernel's module rdma_ucm there?");
}

/* That may pass, and is not the file's fault. */
static void descriptors_or_memory_are_short(void **state)
{
	(void)state;
	is_refused(EMFILE, -EMFILE, "error 24");
	is_refused(ENFILE, -ENFILE, "error 23");
	is_refused(ENOMEM, -ENOMEM, "error 12");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_file_is_another_user_s),
		cmocka_unit_test(there_is_no_such_file),
		cmocka_unit_test(descriptors_or_memory_are_short),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
