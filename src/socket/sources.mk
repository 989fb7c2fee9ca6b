# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LTLIBRARIES += libsocket.la
libsocket_la_SOURCES = src/socket/sock.h
libsocket_la_LIBADD = \
	libsocketlife.la \
	libsocketstream.la \
	libsocketbridge.la \
	libsocketwait.la \
	libsocketprogress.la \
	libsockethandover.la \
	libsocketzcopy.la \
	libsocketpeer.la \
	libsockettransport.la \
	libsocketcore.la
