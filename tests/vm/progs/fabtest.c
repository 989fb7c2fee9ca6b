/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fabtest MODULE CASE server|client ADDRESS PORT: one end of a case. The server
 * prints "ready" when it listens. Status 0: everything was as it must be.
 */

#include <string.h>

#include "fabtest.h"

static const struct {
	const char *name;
	void (*run)(struct rig *r);
} cases[] = {
#define FABTEST(name) { #name, fab_##name },
	FABTESTS
#undef FABTEST
};

int main(int argc, char **argv)
{
	static struct rig r;
	size_t i;

	if (argc != 6) {
		fprintf(stderr, "usage: fabtest MODULE CASE server|client "
				"ADDRESS PORT\n");
		return 2;
	}
	r.server = !strcmp(argv[3], "server");
	rig_load(&r, argv[1], argv[4], atoi(argv[5]));
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[2]))
			continue;
		cases[i].run(&r);
		return 0;
	}
	fprintf(stderr, "fabtest: no case %s\n", argv[2]);
	return 2;
}
