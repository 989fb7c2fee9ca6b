# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LTLIBRARIES += libconfig.la
libconfig_la_CFLAGS = $(AM_CFLAGS) $(SDP_GUARD_CFLAGS)
libconfig_la_SOURCES = \
	src/config/config.c \
	src/config/config.h \
	src/config/lists.c \
	src/config/lists.h \
	src/config/match.c \
	src/config/parse.c \
	src/config/parse.h \
	src/config/parse_target.c \
	src/config/reload.c \
	src/config/rules.c \
	src/config/rules.h \
	src/config/settings.c \
	src/config/settings.def \
	src/config/settings.h
