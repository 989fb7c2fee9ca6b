# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
if HAVE_VERBS
check_PROGRAMS += tests/unit/test_verbs
tests_unit_test_verbs_SOURCES = tests/unit/test_verbs.c
tests_unit_test_verbs_LDADD = $(CMOCKA_LIBS) -ldl

check_PROGRAMS += tests/unit/test_cq
tests_unit_test_cq_SOURCES = tests/unit/test_cq.c src/fabric/verbs/cq.c
tests_unit_test_cq_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_cq_LDADD = libbase.la $(CMOCKA_LIBS) -lpthread

check_PROGRAMS += tests/unit/test_verbs_event
tests_unit_test_verbs_event_SOURCES = tests/unit/test_verbs_event.c \
	src/fabric/verbs/event.c
tests_unit_test_verbs_event_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_event_LDADD = libbase.la $(CMOCKA_LIBS)
endif
