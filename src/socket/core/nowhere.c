/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The fabric of an end that belongs to another process, and the module. */

#include "fabric/nowhere.h"
#include "socket/core/core.h"

struct end rdma_nowhere = { &nowhere_ops, 0, 0 };

const struct verbs_api *rdma_api;
