# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/unit/test_shm tests/unit/test_shm_mem \
	tests/unit/test_shm_pay tests/unit/test_shm_peer
tests_unit_test_shm_SOURCES = tests/unit/test_shm.c tests/unit/shm_util.h
tests_unit_test_shm_LDADD = libfabric.a libbase.a $(CMOCKA_LIBS) -lpthread
tests_unit_test_shm_peer_SOURCES = tests/unit/test_shm_peer.c \
	tests/unit/shm_util.h
tests_unit_test_shm_peer_LDADD = libfabric.a libbase.a $(CMOCKA_LIBS) \
	-lpthread
tests_unit_test_shm_mem_SOURCES = tests/unit/test_shm_mem.c \
	tests/unit/shm_util.h
tests_unit_test_shm_mem_LDADD = libfabric.a libbase.a $(CMOCKA_LIBS) \
	-lpthread
tests_unit_test_shm_pay_SOURCES = tests/unit/test_shm_pay.c \
	tests/unit/shm_util.h
tests_unit_test_shm_pay_LDADD = libfabric.a libbase.a $(CMOCKA_LIBS) \
	-lpthread
