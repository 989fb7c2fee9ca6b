# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The groups of measurements, in the order they run."""
import apps
import micro

GROUPS = {f.__name__: f for f in (
    micro.latency, micro.latency1, micro.stream, micro.stream1, micro.zcopy,
    micro.zcopy_read,
    micro.crr, micro.pipe, apps.redis, apps.nginx, micro.calls, micro.idle,
    micro.resources, micro.many, micro.matrix)}
