#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""shown.py QUESTION PORT ARGUMENT...: is it so, by sdpstat? Of the processes in
the namespaces $A and $B only: others of this machine may have the same ports.
over PORT N BYTES: N ends at least go over SDP, both ways, and sent so much by it
writes PORT: its server sends by SDP
stays PORT END N REASON: N ends whose `local` or `peer` it is stay on TCP for that
reason, or one of those (A|B)
registered PORT N MIN MAX: so much memory by each of N ends
device PORT N NAME: N ends go over it; the sums are right; a line says so, too"""

import json
import os
import re
import subprocess
import sys

BOTH = {"tx": "rdma", "rx": "rdma"}


def sdpstat(*options):
    return subprocess.check_output(["sdpstat", *options], text=True)


def here():
    seen = json.loads(sdpstat("--json"))
    ours = set()
    for host in "A", "B":
        pids = ["ip", "netns", "pids", os.environ[host]]
        ours |= set(map(int, subprocess.check_output(pids).split()))
    return [proc for proc in seen if proc["pid"] in ours]


def rows(procs):
    return [row for proc in procs for row in proc["list"]]


def ends(port):
    """Over RDMA."""
    for row in rows(here()):
        if "device" in row and port in (row["local"]["port"],
                                        row["peer"]["port"]):
            yield row


def over(port, count, sent):
    return int(count) <= sum(row["path"] == BOTH and
                             row["bytes_sdp_tx"] >= int(sent)
                             for row in ends(port))


def writes(port):
    return any(row["local"]["port"] == port and row["path"]["tx"] == "rdma"
               for row in rows(here()))


def stays(port, end, count, reason):
    return int(count) == sum((row[end] or {}).get("port") == port and
                             row["reason"] in reason.split("|")
                             for row in rows(here()))


def registered(port, count, low, high):
    all_of = [row["registered"] for row in ends(port)]
    return len(all_of) == int(count) and all(
        int(low) <= bytes_of <= int(high) for bytes_of in all_of)


def device(port, count, name):
    with_it = 0
    for proc in here():
        mine = [row for row in proc["list"] if "device" in row]
        if proc.get("registered", 0) != sum(r["registered"] for r in mine):
            return False
        lines = sdpstat("--pid", str(proc["pid"])) if mine else ""
        said = re.findall(rf":{port}\b.* rdma .* {name} ", lines)
        good = [row for row in mine if row["path"] == BOTH and
                row["device"] == name and row["registered"] >= 65536 and
                port in (row["local"]["port"], row["peer"]["port"])]
        if len(good) != len(said):
            return False
        with_it += len(good)
    return with_it == int(count)


QUESTIONS = {"over": over, "writes": writes, "stays": stays,
             "registered": registered, "device": device}

sys.exit(not QUESTIONS[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:]))
