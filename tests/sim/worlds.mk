# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += \
	tests/sim/test_remote tests/sim/test_scenes tests/sim/test_worlds \
	tests/sim/test_zcopy
world_sources = \
	tests/sim/seen.c \
	tests/sim/tricks.c \
	tests/sim/world.c tests/sim/world.h \
	tests/unit/wire_name.h \
	tests/sim/zcopy.c
tests_sim_test_scenes_SOURCES = tests/sim/test_scenes.c $(world_sources)
tests_sim_test_scenes_LDADD = libfabricsim.a libsdpproto.a $(CMOCKA_LIBS)
tests_sim_test_zcopy_SOURCES = tests/sim/test_zcopy.c $(world_sources)
tests_sim_test_zcopy_LDADD = libfabricsim.a libsdpproto.a $(CMOCKA_LIBS)
tests_sim_test_worlds_SOURCES = tests/sim/test_worlds.c $(world_sources)
tests_sim_test_worlds_LDADD = libfabricsim.a libsdpproto.a
tests_sim_test_remote_SOURCES = tests/sim/test_remote.c \
	tests/sim/scale.h \
	tests/sim/remote_home.c \
	tests/sim/remote_world.c tests/sim/remote_world.h \
	tests/sim/remote_break.c \
	tests/sim/remote_end.c \
	tests/sim/remote_source.c \
	tests/sim/remote_sink.c
tests_sim_test_remote_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)
# For hand and scripts/test: each rule of zero copy removed, worlds must fail.
EXTRA_DIST += tests/sim/mutants
