/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The machine itself, with a step before each of its atomic accesses. */

#define SIM_ATOMS
#include "anchor_world.h"

#include "../../src/handover_proto/anchor.c"
