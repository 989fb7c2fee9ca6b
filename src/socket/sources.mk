# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsocket.a
libsocket_a_SOURCES = src/socket/sock.h
libsocket_a_LIBADD = \
	$(libsocketlife_a_OBJECTS) \
	$(libsocketstream_a_OBJECTS) \
	$(libsocketbridge_a_OBJECTS) \
	$(libsocketwait_a_OBJECTS) \
	$(libsocketprogress_a_OBJECTS) \
	$(libsockethandover_a_OBJECTS) \
	$(libsocketzcopy_a_OBJECTS) \
	$(libsocketpeer_a_OBJECTS) \
	$(libsockettransport_a_OBJECTS) \
	$(libsocketcore_a_OBJECTS)
EXTRA_libsocket_a_DEPENDENCIES = $(libsocket_a_LIBADD)
