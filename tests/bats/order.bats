#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# An event loop hears of what one writer did in its order (D6).

load helpers

teardown() {
	stop_all
}

order() {
	mode "$1"
	client "$PY" "$BATS_TEST_DIRNAME/py/order.py"
	client "$PY" "$BATS_TEST_DIRNAME/py/end_order.py" "$2"
	proof 10000 "${PY##*/}"
}

@test "order: without the library" {
	order plain 8
}

@test "order: lifted, and beside connections that are not" {
	order lifted 40
}

@test "order: all lifted at once" {
	order now 40
}
