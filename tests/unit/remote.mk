# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/unit/test_remote
tests_unit_test_remote_SOURCES = tests/unit/test_remote.c
tests_unit_test_remote_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_pace
tests_unit_test_pace_SOURCES = tests/unit/test_pace.c tests/unit/far_util.h
tests_unit_test_pace_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_way
tests_unit_test_way_SOURCES = tests/unit/test_way.c tests/unit/far_util.h
tests_unit_test_way_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_resume
tests_unit_test_resume_SOURCES = tests/unit/test_resume.c
tests_unit_test_resume_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_store
tests_unit_test_store_SOURCES = tests/unit/test_store.c
tests_unit_test_store_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_turn
tests_unit_test_turn_SOURCES = tests/unit/test_turn.c
tests_unit_test_turn_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_failover
tests_unit_test_failover_SOURCES = tests/unit/test_failover.c \
	tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_failover_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_file
tests_unit_test_file_SOURCES = tests/unit/test_file.c \
	tests/unit/sent_util.h tests/unit/conn_util.h
tests_unit_test_file_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_piped
tests_unit_test_piped_SOURCES = tests/unit/test_piped.c \
	tests/unit/sent_util.h tests/unit/conn_util.h
tests_unit_test_piped_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_noted
tests_unit_test_noted_SOURCES = tests/unit/test_noted.c \
	tests/unit/sent_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_noted_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_called
tests_unit_test_called_SOURCES = tests/unit/test_called.c
tests_unit_test_called_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_cqwait
tests_unit_test_cqwait_SOURCES = tests/unit/test_cqwait.c src/socket/transport/rdma_cqwait.c
tests_unit_test_cqwait_LDADD = libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_woken
tests_unit_test_woken_SOURCES = tests/unit/test_woken.c
tests_unit_test_woken_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_size
tests_unit_test_size_SOURCES = tests/unit/test_size.c tests/unit/conn_util.h
tests_unit_test_size_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_strayed
tests_unit_test_strayed_SOURCES = tests/unit/test_strayed.c \
	tests/unit/both_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_strayed_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_holder
tests_unit_test_holder_SOURCES = tests/unit/test_holder.c
tests_unit_test_holder_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_room
tests_unit_test_room_SOURCES = tests/unit/test_room.c tests/unit/conn_util.h
tests_unit_test_room_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_reset
tests_unit_test_reset_SOURCES = tests/unit/test_reset.c tests/unit/tcp_util.h
tests_unit_test_reset_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_adopt
tests_unit_test_adopt_SOURCES = tests/unit/test_adopt.c
tests_unit_test_adopt_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_over
tests_unit_test_over_SOURCES = tests/unit/test_over.c \
	tests/unit/both_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_over_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_orphan
tests_unit_test_orphan_SOURCES = tests/unit/test_orphan.c \
	tests/unit/both_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_orphan_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_number
tests_unit_test_number_SOURCES = tests/unit/test_number.c \
	tests/unit/both_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_number_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_inside
tests_unit_test_inside_SOURCES = tests/unit/test_inside.c
tests_unit_test_inside_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_naps
tests_unit_test_naps_SOURCES = tests/unit/test_naps.c \
	tests/unit/both_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_naps_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_rest
tests_unit_test_rest_SOURCES = tests/unit/test_rest.c \
	tests/unit/both_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_rest_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_returned
tests_unit_test_returned_SOURCES = tests/unit/test_returned.c \
	tests/unit/both_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_returned_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_revived
tests_unit_test_revived_SOURCES = tests/unit/test_revived.c \
	tests/unit/both_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_revived_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_front
tests_unit_test_front_SOURCES = tests/unit/test_front.c \
	tests/unit/both_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_front_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_owed
tests_unit_test_owed_SOURCES = tests/unit/test_owed.c \
	tests/unit/both_util.h tests/unit/conn_util.h tests/unit/tcp_util.h
tests_unit_test_owed_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)
