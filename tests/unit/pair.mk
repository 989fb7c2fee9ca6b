# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/unit/test_diag tests/unit/test_pair \
	tests/unit/test_pair_lies
pair_sources = \
	src/socket/core/budget.c \
	src/socket/core/budget.h \
	src/socket/core/capture.c \
	src/socket/core/capture.h \
	src/socket/core/diag.c \
	src/socket/core/fdhide.c \
	src/socket/core/frame.c \
	src/socket/core/frame.h \
	src/socket/peer/pair.c \
	src/socket/core/pair.h
# Flags of their own: the same files are also in libsocket.a.
tests_unit_test_diag_CPPFLAGS = $(AM_CPPFLAGS)
tests_unit_test_diag_SOURCES = tests/unit/test_diag.c $(pair_sources)
tests_unit_test_diag_LDADD = libsdpproto.a libfabric.a libconfig.a \
	libbase.a $(CMOCKA_LIBS) -lpthread
tests_unit_test_pair_CPPFLAGS = $(AM_CPPFLAGS)
tests_unit_test_pair_SOURCES = tests/unit/test_pair.c \
	tests/unit/pair_util.h $(pair_sources)
tests_unit_test_pair_LDADD = libsdpproto.a libfabric.a libconfig.a \
	libbase.a $(CMOCKA_LIBS) -lpthread
tests_unit_test_pair_lies_CPPFLAGS = $(AM_CPPFLAGS)
tests_unit_test_pair_lies_SOURCES = tests/unit/test_pair_lies.c \
	tests/unit/pair_util.h $(pair_sources)
tests_unit_test_pair_lies_LDADD = libsdpproto.a libfabric.a libconfig.a \
	libbase.a $(CMOCKA_LIBS) -lpthread

check_PROGRAMS += tests/unit/test_fdshare
tests_unit_test_fdshare_SOURCES = tests/unit/test_fdshare.c
tests_unit_test_fdshare_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)
