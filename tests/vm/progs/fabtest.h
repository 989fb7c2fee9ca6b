/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_VM_FABTEST_H
#define TESTS_VM_FABTEST_H

#include "rig.h"

/* Each is run by both ends. */
#define FABTESTS         \
	FABTEST(echo)    \
	FABTEST(stream)  \
	FABTEST(duplex)  \
	FABTEST(inlines) \
	FABTEST(lat)     \
	FABTEST(bw)

#define FABTEST(name) void fab_##name(struct rig *r);
FABTESTS
#undef FABTEST

#endif
