# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
if HAVE_VERBS
check_PROGRAMS += tests/unit/test_verbs
tests_unit_test_verbs_SOURCES = tests/unit/test_verbs.c
tests_unit_test_verbs_LDADD = $(CMOCKA_LIBS) -ldl

check_PROGRAMS += tests/unit/test_verbs_open
tests_unit_test_verbs_open_SOURCES = tests/unit/test_verbs_open.c
tests_unit_test_verbs_open_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_open_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic
tests_unit_test_verbs_open_LDADD = libbase.a $(CMOCKA_LIBS) -ldl

check_PROGRAMS += tests/unit/test_cq
tests_unit_test_cq_SOURCES = tests/unit/test_cq.c src/fabric/verbs/cq.c
tests_unit_test_cq_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_cq_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread

check_PROGRAMS += tests/unit/test_rx
tests_unit_test_rx_SOURCES = tests/unit/test_rx.c src/fabric/verbs/rx.c
tests_unit_test_rx_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_rx_LDADD = libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_verbs_event
tests_unit_test_verbs_event_SOURCES = tests/unit/test_verbs_event.c \
	src/fabric/verbs/dispatch.c src/fabric/verbs/event.c
tests_unit_test_verbs_event_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_event_LDADD = libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_verbs_ear
tests_unit_test_verbs_ear_SOURCES = tests/unit/test_verbs_ear.c \
	src/fabric/verbs/dispatch.c src/fabric/verbs/ear.c \
	src/fabric/verbs/event.c
tests_unit_test_verbs_ear_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_ear_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread

check_PROGRAMS += tests/unit/test_verbs_cm
tests_unit_test_verbs_cm_SOURCES = tests/unit/test_verbs_cm.c
tests_unit_test_verbs_cm_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_cm_LDADD = libbase.a $(CMOCKA_LIBS) -ldl

check_PROGRAMS += tests/unit/test_verbs_mem
tests_unit_test_verbs_mem_SOURCES = tests/unit/test_verbs_mem.c \
	tests/unit/verbs_util.h \
	src/fabric/verbs/mem.c src/fabric/verbs/rdma.c
tests_unit_test_verbs_mem_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_mem_LDADD = libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_verbs_end
tests_unit_test_verbs_end_SOURCES = tests/unit/test_verbs_end.c \
	tests/unit/verbs_util.h \
	src/fabric/verbs/end.c src/fabric/verbs/mem.c
tests_unit_test_verbs_end_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_end_LDADD = libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_verbs_meet
tests_unit_test_verbs_meet_SOURCES = tests/unit/test_verbs_meet.c \
	tests/unit/verbs_util.h \
	src/fabric/verbs/cm.c src/fabric/verbs/cmevent.c
tests_unit_test_verbs_meet_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_meet_LDADD = libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_verbs_tx
tests_unit_test_verbs_tx_SOURCES = tests/unit/test_verbs_tx.c \
	src/fabric/verbs/tx.c
tests_unit_test_verbs_tx_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_tx_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread

check_PROGRAMS += tests/unit/test_verbs_device
tests_unit_test_verbs_device_SOURCES = tests/unit/test_verbs_device.c \
	tests/unit/verbs_util.h \
	src/fabric/verbs/device.c
tests_unit_test_verbs_device_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_device_LDADD = libbase.a $(CMOCKA_LIBS)
endif
