# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsocketbridge.a
$(libsocketbridge_a_OBJECTS): AM_CFLAGS += $(SDP_GUARD_CFLAGS)
libsocketbridge_a_SOURCES = \
	src/socket/bridge/bridge.c src/socket/bridge/bridge.h \
	src/socket/bridge/bridge_flow.c \
	src/socket/bridge/bridge_gate.c \
	src/socket/bridge/bridge_run.c
