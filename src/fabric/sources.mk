# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libfabric.a
libfabric_a_SOURCES = \
	src/fabric/fabric.h \
	src/fabric/nowhere.c src/fabric/nowhere.h \
	src/fabric/shm/keep.c \
	src/fabric/shm/end.c \
	src/fabric/shm/frame.h \
	src/fabric/shm/mem.c \
	src/fabric/shm/pay.c \
	src/fabric/shm/rx.c \
	src/fabric/shm/seg.c \
	src/fabric/shm/shm.h \
	src/fabric/shm/tx.c

# For tests only, never part of the library.
check_LIBRARIES += libfabricsim.a
libfabricsim_a_SOURCES = \
	src/fabric/fabric.h \
	src/fabric/sim/rdma.c \
	src/fabric/sim/sim.c \
	src/fabric/sim/sim.h \
	src/fabric/sim/sim_int.h

# The RDMA fabric: a module of its own, opened on first need.
if HAVE_VERBS
lib_LTLIBRARIES += libsdp-verbs.la
libsdp_verbs_la_SOURCES = \
	src/fabric/fabric.h \
	src/fabric/verbs/cm.c \
	src/fabric/verbs/cmevent.c \
	src/fabric/verbs/cq.c \
	src/fabric/verbs/device.c \
	src/fabric/verbs/dispatch.c \
	src/fabric/verbs/ear.c \
	src/fabric/verbs/end.c \
	src/fabric/verbs/event.c \
	src/fabric/verbs/host.c \
	src/fabric/verbs/int.h \
	src/fabric/verbs/mem.c \
	src/fabric/verbs/module.c \
	src/fabric/verbs/native.c \
	src/fabric/verbs/rdma.c \
	src/fabric/verbs/rx.c \
	src/fabric/verbs/tx.c \
	src/fabric/verbs/verbs.h
libsdp_verbs_la_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
EXTRA_libsdp_verbs_la_DEPENDENCIES = libbase.a
libsdp_verbs_la_LIBADD = $(VERBS_LIBS)
libsdp_verbs_la_LDFLAGS = $(AM_LDFLAGS) $(SDP_HARD_LDFLAGS) -module \
	-avoid-version -Wl,libbase.a
endif
