# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs programs with and without the library, and takes the proof.

A measurement returns a dict of numbers. `share`, if there, is the part of the
bytes that went over SDP, told by LIBSDP_STATS_FILE; None: nothing told.
"""
import json
import os
import platform
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from table import absent

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROBES = ("copy", "crr", "fan", "idle", "line", "load", "pingpong", "pipe",
          "stream")


class Failed(Exception):
    """A measurement that has no result; the text says why."""


class Absent(Exception):
    """The machine cannot do what a measurement takes."""


class Harness:
    def __init__(self, lib, build, runs, quick, full, settings):
        self.lib = lib
        self.runs = runs
        self.quick = quick
        self.full = full
        self.settings = settings
        self.tmp = tempfile.TemporaryDirectory(prefix="libsdp-bench.")
        self.dir = self.tmp.name
        os.chmod(self.dir, 0o755)  # nginx as root serves as another user
        self.bin = self.find_probes(os.path.join(build, "bench"))
        self.cpus = two_processors()
        self.servers = []
        self.progress = False
        self.begun = time.monotonic()
        self.rules = self.path("rules")
        with open(self.rules, "w", encoding="ascii"):
            pass  # no rule: both, and every setting at its default
        self.count = 0
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)

    def path(self, name):
        return os.path.join(self.dir, name)

    def find_probes(self, where):
        if all(os.access(os.path.join(where, p), os.X_OK) for p in PROBES):
            return where
        src = os.path.join(TOP, "bench")
        for p in PROBES:
            subprocess.run(
                [os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE",
                 "-O2", "-o", self.path(p), os.path.join(src, p + ".c"),
                 os.path.join(src, "probe.c"), "-lpthread"], check=True)
        return self.dir

    # --- environment and proof -------------------------------------------

    def env(self, sdp):
        """Of a process: sdp None is without the library, else settings."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("LIBSDP_") and k != "LD_PRELOAD"}
        env.pop("SIMPLE_LIBSDP", None)
        env.pop("ALWAYS_USE_SDP", None)
        env["LC_ALL"] = "C"
        if sdp is None:
            return env, None
        self.count += 1
        stats = self.path("stats.%d" % self.count)
        env["LD_PRELOAD"] = self.lib
        env["LIBSDP_CONFIG_FILE"] = self.rules
        env["LIBSDP_STATS_FILE"] = stats
        for name, value in {**self.settings, **sdp}.items():
            env["LIBSDP_" + name.upper()] = str(value)
        return env, stats

    @staticmethod
    def proof(stats):
        """What the processes of one run told when they ended."""
        if not stats:
            return {}
        sums = {"lifted": 0, "sockets": 0, "zcopy_tx": 0, "stalls": 0,
                "zcopy_rx": 0, "fallbacks": 0, "sdp": 0, "tcp": 0}
        lines = []
        if os.path.exists(stats):
            with open(stats, encoding="utf-8") as f:
                lines = [json.loads(line) for line in f]
            os.unlink(stats)
        for line in lines:
            for k in sums:
                sums[k] += line.get(k, 0)
            for way in "sdp", "tcp":
                sums[way] += line["bytes_%s_tx" % way]
                sums[way] += line["bytes_%s_rx" % way]
        moved = sums["sdp"] + sums["tcp"]
        sums["share"] = sums["sdp"] / moved if moved else None
        sums["told"] = len(lines)
        return sums

    # --- running ------------------------------------------------------------

    def behind(self, env, cmd, prefix):
        wanted = [k + "=" + env[k] for k in env
                  if k == "LD_PRELOAD" or k.startswith("LIBSDP_")]
        return self.env(None)[0], [*prefix, "env", *wanted, *cmd]

    def say(self, what):
        """Progress: this row is done."""
        if self.progress:
            print("run: %4d s: %s" % (time.monotonic() - self.begun, what),
                  file=sys.stderr, flush=True)

    @staticmethod
    def absent(what, package):
        return absent("-", what, "n/a: package " + package)

    def run(self, cmd, sdp=None, timeout=30, prefix=()):
        """One program to its end: its stdout and the proof.

        `prefix` is a command that runs `cmd` and is not itself preloaded.
        """
        env, stats = self.env(sdp)
        if prefix:
            env, cmd = self.behind(env, cmd, prefix)
        with subprocess.Popen(cmd, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, start_new_session=True) as p:
            try:
                out, err = p.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                raise Failed("no end after %d s" % timeout) from None
            finally:
                kill_group(p.pid)
        if p.returncode:
            last = (err.strip().splitlines() or ["no word"])[-1]
            raise Failed("status %d: %s" % (p.returncode, last[:80]))
        return out, self.proof(stats)

    def probe(self, name, args, sdp=None, timeout=30, prefix=()):
        cmd = [os.path.join(self.bin, name), *map(str, args)]
        out, proof = self.run(cmd, sdp, timeout, prefix)
        return {**json.loads(out), **proof}

    def server(self, name, cmd, port, sdp=None, prefix=()):
        """A server in the background, when it listens; `prefix` as in run()."""
        env, _ = self.env(sdp)
        if prefix:
            env, cmd = self.behind(env, cmd, prefix)
        with open(self.path(name + ".log"), "w", encoding="utf-8") as log:
            p = subprocess.Popen(cmd, env=env, stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=log,
                                 start_new_session=True)
        self.servers.append(p)
        end = time.monotonic() + 10
        while not listening(port):
            if p.poll() is not None or time.monotonic() > end:
                raise Failed(name + " did not start")
            time.sleep(0.02)
        return p

    def stop_servers(self):
        for p in self.servers:
            if p.poll() is None:
                p.terminate()
        for p in self.servers:
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                pass
            kill_group(p.pid)
            p.wait()
        self.servers = []

    def interleave(self, variants, runs=None):
        """A B C A B C ...: {name: Series}; a way that fails once is left out."""
        series = {name: Series() for name in variants}
        for _ in range(runs or self.runs):
            for name, measure in variants.items():
                s = series[name]
                if s.error:
                    continue
                try:
                    s.results.append(measure())
                except (Failed, OSError, ValueError) as e:
                    s.error = str(e)
        return series


class Series:
    """The results of one variant."""

    def __init__(self):
        self.results = []
        self.error = None

    def values(self, key):
        return [r[key] for r in self.results]

    def median(self, key):
        return statistics.median(self.values(key))

    def share(self):
        """The smallest of all runs; None: at least one without proof."""
        shares = [r.get("share") for r in self.results]
        return None if None in shares or not shares else min(shares)


# --- the machine --------------------------------------------------------------


def kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def two_processors():
    """Two that are not one core, if there are; () with one only."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return ()
    name = "/sys/devices/system/cpu/cpu%d/topology/core_id" % cpus[0]
    same = set()
    try:
        with open(name.replace("core_id", "thread_siblings_list"),
                  encoding="ascii") as f:
            for part in f.read().strip().split(","):
                lo, _, hi = part.partition("-")
                same.update(range(int(lo), int(hi or lo) + 1))
    except OSError:
        pass
    others = [c for c in cpus[1:] if c not in same] or cpus[1:]
    return (cpus[0], others[0])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port):
    want = ":%04X" % port
    with open("/proc/net/tcp", encoding="ascii") as f:
        return any(x[3] == "0A" and x[1].endswith(want)
                   for x in map(str.split, f))


def raise_limit(n):
    """Room for `n` descriptors, or Failed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= n:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (n, max(hard, n)))
    except (ValueError, OSError):
        raise Absent("no %d descriptors" % n) from None


def machine():
    """For the record; nothing in it names the host or a path."""
    info = {}
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            key, _, value = line.partition(":")
            info.setdefault(key.strip(), value.strip())
    with open("/proc/meminfo", encoding="ascii") as f:
        mem = int(f.readline().split()[1]) >> 20
    git = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty"],
                         capture_output=True, text=True, check=False)
    return {
        "cpu": info.get("model name") or platform.machine(),
        "mhz": info.get("cpu MHz", "?"),
        "cpus": os.cpu_count(),
        "virtual": "hypervisor" in info.get("flags", "").split(),
        "memory_gib": mem,
        "kernel": "%s %s" % (platform.system(), platform.release()),
        "libc": " ".join(platform.libc_ver()),
        "version": git.stdout.strip() or "unknown",
        "load": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
    }
