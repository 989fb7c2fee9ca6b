# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libhandover.a
libhandover_a_SOURCES = \
	src/handover_proto/anchor.c src/handover_proto/anchor.h \
	src/handover_proto/remote.c src/handover_proto/remote.h \
	src/handover_proto/resume.c src/handover_proto/resume.h
