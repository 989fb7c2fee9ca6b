# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LTLIBRARIES += libfabric.la
libfabric_la_SOURCES = \
	src/fabric/fabric.h \
	src/fabric/shm/end.c \
	src/fabric/shm/frame.h \
	src/fabric/shm/rx.c \
	src/fabric/shm/seg.c \
	src/fabric/shm/shm.h \
	src/fabric/shm/tx.c

# For tests only, never part of the library.
check_LTLIBRARIES += libfabricsim.la
libfabricsim_la_SOURCES = \
	src/fabric/fabric.h \
	src/fabric/sim/sim.c \
	src/fabric/sim/sim.h
