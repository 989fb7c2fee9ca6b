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
	FABTEST(badack)  \
	FABTEST(refused) \
	FABTEST(nobody)  \
	FABTEST(mapped)  \
	FABTEST(inuse)   \
	FABTEST(flood)   \
	FABTEST(slow)    \
	FABTEST(killed)  \
	FABTEST(silent)  \
	FABTEST(fork)    \
	FABTEST(setuid)  \
	FABTEST(removed) \
	FABTEST(memlock) \
	FABTEST(pending) \
	FABTEST(many)    \
	FABTEST(lengths) \
	FABTEST(norecv)  \
	FABTEST(toolong) \
	FABTEST(resize)  \
	FABTEST(larger)  \
	FABTEST(rdma)    \
	FABTEST(hostile) \
	FABTEST(lat)     \
	FABTEST(bw)

#define FABTEST(name) void fab_##name(struct rig *r);
FABTESTS
#undef FABTEST

#endif
