# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LTLIBRARIES += libfabric.la
libfabric_la_SOURCES = \
	src/fabric/fabric.h \
	src/fabric/shm/ring.c \
	src/fabric/shm/seg.c \
	src/fabric/shm/shm.h
