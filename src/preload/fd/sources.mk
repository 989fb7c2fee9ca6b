# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libpreloadfd.a
libpreloadfd_a_SOURCES = \
	src/preload/fd/asleep.c src/preload/fd/asleep.h \
	src/preload/fd/deadline.h \
	src/preload/fd/fdtable.c src/preload/fd/fdtable.h \
	src/preload/fd/real.c src/preload/fd/real.h
