# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/unit/test_capture
tests_unit_test_capture_SOURCES = tests/unit/test_capture.c
tests_unit_test_capture_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS) \
	-lpthread
