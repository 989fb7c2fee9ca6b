# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libconfig.a
$(libconfig_a_OBJECTS): AM_CFLAGS += $(SDP_GUARD_CFLAGS)
libconfig_a_SOURCES = \
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
