/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * plugged NAME now|lazy PORT: opens the library NAME with RTLD_DEEPBIND, as
 * interpreters open their extensions, and has its plugged() do the work of
 * lines.c, which is in a library that NAME needs.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	int (*run)(int argc, char **argv);
	void *h;

	if (argc < 4)
		return 2;
	h = dlopen(argv[1],
		   RTLD_DEEPBIND |
			   (strcmp(argv[2], "now") ? RTLD_LAZY : RTLD_NOW));
	if (!h) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&run = dlsym(h, "plugged");
	return run ? run(2, argv + 2) : 1;
}
