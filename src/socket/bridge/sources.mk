# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LTLIBRARIES += libsocketbridge.la
# Cancellation unwinds through these.
libsocketbridge_la_CFLAGS = $(AM_CFLAGS) -fexceptions $(SDP_GUARD_CFLAGS)
libsocketbridge_la_SOURCES = \
	src/socket/bridge/bridge.c src/socket/bridge/bridge.h \
	src/socket/bridge/bridge_flow.c \
	src/socket/bridge/bridge_gate.c \
	src/socket/bridge/bridge_run.c
