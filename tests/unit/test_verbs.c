/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "fabric/verbs/verbs.h"

/*
 * The module as libsdp.so finds it: by its file, taking one name. What
 * it does with devices is tests/vm's; here the machine decides what open() must
 * answer.
 */

static const struct verbs_api *api;

static bool devices_here(void)
{
	DIR *d = opendir("/sys/class/infiniband");
	struct dirent *e;
	bool any = false;

	while (d && (e = readdir(d)))
		any |= e->d_name[0] != '.';
	if (d)
		closedir(d);
	return any;
}

static unsigned int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int load(void **state)
{
	void *lib = dlopen(".libs/libsdp-verbs.so", RTLD_NOW | RTLD_LOCAL);

	(void)state;
	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
	api = dlsym(lib, "libsdp_verbs");
	return api ? 0 : -1;
}

static void it_is_complete(void **state)
{
	void *const *entry = (void *const *)(const void *)&api->open;
	void *const *end = (void *const *)(const void *)(api + 1);

	(void)state;
	assert_int_equal(api->version, VERBS_API);
	for (; entry != end; entry++)
		assert_non_null(*entry);
}

static void open_says_what_is_here(void **state)
{
	struct verbs_conf conf = { .allow_soft_rdma = true,
				   .resolve_ms = 1000,
				   .connect_ms = 1000,
				   .requests_max = 4 };
	unsigned int fds = descriptors();
	struct verbs *v;
	int ret;

	(void)state;
	ret = api->open(&v, &conf);
	if (!devices_here()) {
		assert_int_equal(ret, -ENODEV);
	} else {
		/* device files may be out of reach, e.g. in a container */
		assert_true(ret == 0 || ret == -ENXIO || ret == -ENODEV);
		if (!ret)
			api->close(v);
	}
	assert_int_equal(descriptors(), fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_complete),
		cmocka_unit_test(open_says_what_is_here),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
