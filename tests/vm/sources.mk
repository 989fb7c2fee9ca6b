# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# vm-on, the command of the virtual machines' tests that reaches the other
# node. The scripts beside it need no building.

EXTRA_DIST += \
	tests/vm/fabric.bats \
	tests/vm/failover.bats \
	tests/vm/guest \
	tests/vm/harness.bats \
	tests/vm/init \
	tests/vm/lib.bash \
	tests/vm/lift.bats \
	tests/vm/prepare \
	tests/vm/progs.bats \
	tests/vm/programs.bats \
	tests/vm/reading.bats \
	tests/vm/run \
	tests/vm/run-suites \
	tests/vm/smoke.bats \
	tests/vm/soak.bats \
	tests/vm/streams.bash \
	tests/vm/tcp.bats \
	tests/vm/wire.bats \
	tests/vm/wire.py

check_PROGRAMS += tests/vm/vm-on

tests_vm_vm_on_SOURCES = \
	tests/vm/on.h \
	tests/vm/on_agent.c \
	tests/vm/on_main.c
tests_vm_vm_on_CPPFLAGS = -D_GNU_SOURCE
# No sanitizer in here: commands inherit what is around it.
tests_vm_vm_on_CFLAGS = -std=gnu11 -O2
