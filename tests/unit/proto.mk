# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += \
	tests/unit/test_wire \
	tests/unit/test_conn \
	tests/unit/test_conn_back \
	tests/unit/test_conn_burn \
	tests/unit/test_conn_close \
	tests/unit/test_conn_cross \
	tests/unit/test_conn_errors \
	tests/unit/test_conn_modes \
	tests/unit/test_conn_stream \
	tests/unit/test_conn_trace \
	tests/unit/test_conn_words \
	tests/unit/test_conn_zcopy
tests_unit_test_wire_SOURCES = tests/unit/test_wire.c
tests_unit_test_wire_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_SOURCES = tests/unit/test_conn.c tests/unit/conn_util.h
tests_unit_test_conn_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_back_SOURCES = \
	tests/unit/test_conn_back.c \
	tests/unit/conn_util.h
tests_unit_test_conn_back_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_burn_SOURCES = \
	tests/unit/test_conn_burn.c \
	tests/unit/conn_util.h
tests_unit_test_conn_burn_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_close_SOURCES = \
	tests/unit/test_conn_close.c \
	tests/unit/conn_util.h
tests_unit_test_conn_close_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_cross_SOURCES = \
	tests/unit/test_conn_cross.c \
	tests/unit/conn_util.h tests/unit/wire_name.h
tests_unit_test_conn_cross_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_errors_SOURCES = \
	tests/unit/test_conn_errors.c \
	tests/unit/conn_util.h
tests_unit_test_conn_errors_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_modes_SOURCES = \
	tests/unit/test_conn_modes.c \
	tests/unit/conn_util.h
tests_unit_test_conn_modes_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_stream_SOURCES = \
	tests/unit/test_conn_stream.c \
	tests/unit/conn_util.h
tests_unit_test_conn_stream_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_words_SOURCES = \
	tests/unit/test_conn_words.c \
	tests/unit/conn_util.h
tests_unit_test_conn_words_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_trace_SOURCES = \
	tests/unit/test_conn_trace.c \
	tests/unit/conn_util.h tests/unit/zcopy_util.h
tests_unit_test_conn_trace_LDADD = libsdpproto.a $(CMOCKA_LIBS)
tests_unit_test_conn_zcopy_SOURCES = \
	tests/unit/test_conn_zcopy.c \
	tests/unit/conn_util.h tests/unit/zcopy_util.h
tests_unit_test_conn_zcopy_LDADD = libsdpproto.a $(CMOCKA_LIBS)
