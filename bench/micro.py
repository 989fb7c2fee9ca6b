# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Groups that measure with the probes of this directory."""
import shutil
import statistics

from harness import Absent, Failed, raise_limit
from table import absent, bytes_text, failed, row, value_row

SPIN0 = {"spin_us": 0}
# The probes with idle connections warm each by few messages.
SOON = {"lift_after_messages": 8}


def pins(h, one=False):
    """Options that put the ends on two processors, or on one."""
    if one:
        cpu = h.cpus[0] if h.cpus else 0
        return ["-a", cpu, "-b", cpu]
    if not h.cpus:
        raise Absent("one processor only")
    return ["-a", h.cpus[0], "-b", h.cpus[1]]


def millis(h):
    return ["-t", 80 if h.quick else 150]


def latency(h):
    """Ping-pong, two processors: F1, F2, F3 (spinning off)."""
    where = [*pins(h), *millis(h)]
    for size, aim in (1, 15), (64, 15), (1024, 10), (16384, 4):
        args = [*where, "-s", size]
        s = h.interleave({
            "tcp": lambda a=args: h.probe("pingpong", a),
            "sdp": lambda a=args: h.probe("pingpong", a, {}),
            "spin0": lambda a=args: h.probe("pingpong", a, SPIN0),
            "unix": lambda a=args: h.probe("pingpong", [*a, "-u"]),
            "line": lambda: h.probe("line", where),
        })
        small = size <= 64
        what = "ping-pong %s" % bytes_text(size)
        yield row("F1" if small else "F2", what, s["tcp"], s["sdp"], "ns",
                  ">=", aim)
        if small:
            yield row("F1", what, s["line"], s["sdp"], "ns", "<=", 3,
                      against="line")
        yield row("F3", what + ", spinning off", s["tcp"], s["spin0"], "ns",
                  ">=", 1)
        yield row("-", what, s["unix"], s["sdp"], "ns", ">=", None,
                  against="AF_UNIX")


def latency1(h):
    """Ping-pong, both ends on one processor: F3."""
    for size in 1, 64, 1024, 16384:
        args = [*pins(h, one=True), *millis(h), "-s", size]
        s = h.interleave({
            "tcp": lambda a=args: h.probe("pingpong", a),
            "sdp": lambda a=args: h.probe("pingpong", a, {}),
        })
        yield row("F3", "ping-pong %s, one processor" % bytes_text(size),
                  s["tcp"], s["sdp"], "ns", ">=", 2)


def streams(h, one):
    aims = {64: (10, 3), 1024: (5, 3)}
    for size in 64, 1024, 65536, 262144, 1048576:
        args = [*pins(h, one), *millis(h), "-s", size]
        variants = {
            "tcp": lambda a=args: h.probe("stream", a),
            "sdp": lambda a=args: h.probe("stream", a, {}),
        }
        small = size <= 1024
        if not small and not one:
            variants["unix"] = lambda a=args: h.probe("stream", [*a, "-u"])
        s = h.interleave(variants)
        what = "stream of %s" % bytes_text(size)
        if one:
            what += ", one processor"
        fig = "F4" if small else "F5"
        key = "rate" if small else "bytes_rate"
        aim = aims.get(size, (2, 5))[one]
        yield row(fig, what, s["tcp"], s["sdp"], key, ">=", aim)
        if "unix" in s:
            yield row(fig, what, s["unix"], s["sdp"], key, ">=", 1.5,
                      against="AF_UNIX")


def stream(h):
    """Streams, two processors: F4, F5."""
    yield from streams(h, False)


def stream1(h):
    """Streams, both ends on one processor: F4, F5."""
    yield from streams(h, True)


def zcopy(h):
    """Large writes: one copy of the bytes, TCP, by copy, and lent: F6."""
    for size in 65536, 262144, 1048576, 8388608:
        args = [*pins(h), *millis(h), "-s", size]
        what = "stream of %s" % bytes_text(size)

        def way(how, a=args):
            return h.probe("stream", a, {"zcopy": how})
        s = h.interleave({
            "copy": lambda a=args: h.probe("copy", a),
            "tcp": lambda a=args: h.probe("stream", a),
            "no": lambda: way("no"),
            "auto": lambda: way("auto"),
            "always": lambda: way("always"),
        })
        r = row("F6", what, s["copy"], s["auto"], "bytes_rate", ">=",
                0.85 if size > 65536 else None, against="copy")
        if any(x["by"] != "process_vm_readv" for x in s["copy"].results):
            r["note"] = r["note"] or "copy is memcpy here"
        yield r
        yield row("-", what, s["tcp"], s["auto"], "bytes_rate", ">=", None)
        for how in "auto", "always":
            r = row("-", what + ", zcopy " + how, s["no"], s[how],
                    "bytes_rate", ">=", None, against="zcopy no")
            if not any(x["zcopy_tx"] for x in s[how].results):
                r["note"] = r["note"] or "no transfer without a copy"
            yield r
            yield row("-", what + ", processor, zcopy " + how, s["no"],
                      s[how], "cpu_gb", "<=", None, against="zcopy no")
        yield row("-", what + ", processor", s["tcp"], s["auto"], "cpu_gb",
                  "<=", None)


def zcopy_read(h):
    """Large writes without a copy, read by the reader, against a copy of the
    bytes and the same by copy."""
    for size in 65536, 262144, 1048576, 8388608:
        args = [*pins(h), *millis(h), "-s", size]

        def way(zcopy, a=args):
            return h.probe("stream", a, {"zcopy": zcopy})
        s = h.interleave({
            "copy": lambda a=args: h.probe("copy", a),
            "no": lambda w=way: w("no"),
            "always": lambda w=way: w("always"),
        })
        what = "%s, read" % bytes_text(size)
        r = row("-", what, s["copy"], s["always"], "bytes_rate", ">=",
                None, against="copy")
        spared = [x["zcopy_tx"] / max(1, x["bytes"])
                  for x in s["always"].results]
        if spared and not r["note"]:
            r["note"] = "%.0f%% without a copy" % (
                100 * statistics.median(spared))
        yield r
        yield row("-", what, s["no"], s["always"], "bytes_rate", ">=",
                  None, against="zcopy no")
        yield row("-", what + ", processor", s["no"], s["always"],
                  "cpu_gb", "<=", None, against="zcopy no")


def traced(h, probe, args, sdp):
    """System calls per message, of all processes of the probe."""
    out = h.path("strace")
    x = h.probe(probe, args, sdp,
                prefix=["strace", "-f", "-c", "-qq", "-o", out])
    calls = 0
    with open(out, encoding="utf-8") as f:
        for line in f:
            words = line.split()
            if words and words[-1] == "total":
                calls = int(words[3])
    if not calls:
        raise Failed("strace counted nothing")
    return {**x, "calls": calls / x["messages"]}


def counted(h, probe, args, sdp):
    x = h.probe(probe, args, sdp)
    return {**x, "switched": x["switches"] / x["messages"]}


def calls(h):
    """System calls and context switches per message."""
    tools = [("switched", counted)]
    if shutil.which("strace"):
        tools.insert(0, ("calls", traced))
    else:
        yield absent("-", "system calls per message", "no strace")
    for probe in "pingpong", "stream":
        args = [*pins(h), *millis(h), "-s", 64]
        for key, tool in tools:
            def way(sdp, p=probe, a=args, t=tool):
                return lambda: t(h, p, a, sdp)
            s = h.interleave({"tcp": way(None), "sdp": way({}),
                              "spin0": way(SPIN0)}, 3)
            for name, more in ("sdp", ""), ("spin0", ", spinning off"):
                yield row("-", "%s 64 B%s" % (probe, more), s["tcp"],
                          s[name], key, "<=", None)


def crr(h):
    """Connections that never lift: F9."""
    args = [*pins(h), "-t", 200 if h.quick else 300, "-s", 1]
    s = h.interleave({
        "tcp": lambda: h.probe("crr", args),
        "sdp": lambda: h.probe("crr", args, {}),
    }, h.runs * 2 + 1)
    r = row("F9", "connect, request, reply, close", s["tcp"], s["sdp"],
            "rate", ">=", 0.98, lifted=False)
    if any(x["sockets"] < x["connections"] or x["sdp"]
           for x in s["sdp"].results):
        r["note"], r["reached"] = "no proof that they stayed on TCP", None
    yield r


def pipe(h):
    """read() and write() on a pipe: F10."""
    args = [*pins(h, one=True)[:2], *millis(h)]
    s = h.interleave({
        "tcp": lambda: h.probe("pipe", args),
        "sdp": lambda: h.probe("pipe", args, {}),
    }, h.runs * 2 + 1)
    r = row("F10", "write and read 1 B, pipe", s["tcp"], s["sdp"], "ns",
            "<=", 1.01, against="without", lifted=False)
    if not all(x["preloaded"] for x in s["sdp"].results):
        r["note"], r["reached"] = "the library was not there", None
    yield r


def idle(h):
    """1,000 connections at rest, both ends together: F11."""
    n = 1000
    raise_limit(4 * n)
    secs = 2 if h.quick else 5
    args = [*pins(h), "-i", n, "-t", secs * 1000]
    s = h.interleave({
        "tcp": lambda: h.probe("idle", args, None, 60),
        "sdp": lambda: h.probe("idle", args, SOON, 60),
    }, 1)
    tcp, sdp = s["tcp"], s["sdp"]
    error = tcp.error or sdp.error
    if not error and sdp.results[0]["lifted"] < n:
        error = "not lifted: %d of %d" % (sdp.results[0]["lifted"], n)
    if error:
        yield failed("F11", "%d idle connections" % n, error)
        return
    a, b = tcp.results[0], sdp.results[0]
    yield value_row("F11", "%d idle, processor time in %d s" % (n, secs),
                    a["cpu_us"], b["cpu_us"], "us", "+ 0",
                    b["cpu_us"] - a["cpu_us"] < 100 * secs)
    for key, aim in ("pss", 16), ("shmem", None):
        per = [x[key] / n / 1024 for x in (a, b)]
        yield value_row("F11", "%d idle, memory each (%s)" % (n, key.upper()
                        if key == "pss" else "Shmem"), per[0], per[1], "KiB",
                        "+ <= %d" % aim if aim else "",
                        per[1] - per[0] <= aim if aim else None)


def resources(h):
    """What a connection takes of both ends together, idle and full: H7."""
    for n, what, more in (500, "idle", []), (50, "full both ways", ["-q"]):
        raise_limit(8 * n)
        args = [*pins(h), "-i", n, "-t", 500, *more]
        s = h.interleave({
            "tcp": lambda a=args: h.probe("idle", a, None, 60),
            "sdp": lambda a=args: h.probe("idle", a, SOON, 60),
        }, 1)
        error = s["tcp"].error or s["sdp"].error
        if error:
            yield failed("H7", "%d connections, %s" % (n, what), error)
            continue
        a, b = s["tcp"].results[0], s["sdp"].results[0]
        for key, name, unit, by in (
                ("pss", "memory each (PSS)", "KiB", 1024),
                ("shmem", "memory each (Shmem)", "KiB", 1024),
                ("space", "address space each", "KiB", 1024),
                ("maps", "mappings each", "", 1),
                ("fds", "descriptors each", "", 1)):
            yield value_row("H7", "%d %s, %s" % (n, what, name),
                            a[key] / n / by, b[key] / n / by, unit, "", None)


def many(h):
    """One active connection among many lifted ones in an epoll set: F12."""
    for n in (1000, 10000) if h.full else (1000,):
        what = "one active among %d, epoll" % n
        try:
            raise_limit(n * 4)
        except Absent as e:
            yield absent("F12", what, str(e))
            continue
        args = [*pins(h), *millis(h), "-c", 1]
        s = h.interleave({
            "alone": lambda a=args: h.probe("fan", a, SOON),
            "many": lambda a=args, i=n - 1:
                h.probe("fan", [*a, "-i", i], SOON, 120),
        }, 3 if n > 1000 else None)
        r = row("F12", what, s["alone"], s["many"], "ns", "<=", 1.05,
                against="alone")
        if any(x["lifted"] < n for x in s["many"].results):
            r["note"], r["reached"] = "not lifted: some of them", None
        yield r


def matrix(h):
    """Cells where the library might lose: F13. No processor is chosen."""
    cells = [("pingpong", s, j, 1) for s in (1, 16384, 1048576, 8388608)
             for j in (2, 8)]
    cells += [("stream", s, j, 1) for s in (1, 4096, 262144, 8388608)
              for j in (2, 8)]
    cells += [("fan", 64, 1, 16), ("fan", 16384, 1, 16), ("fan", 64, 1, 200),
              ("fan", 16384, 1, 200), ("fan", 64, 4, 200)]
    for probe, size, j, conns in cells[1::3] if h.quick else cells:
        args = [*millis(h), "-s", size, "-j", j, "-c", conns]
        s = h.interleave({
            "tcp": lambda p=probe, a=args: h.probe(p, a),
            "sdp": lambda p=probe, a=args: h.probe(p, a, {}),
        })
        what = "%s %s, %d processes" % (probe, bytes_text(size), 2 * j)
        if conns > 1:
            what += ", %d connections each" % conns
        yield row("F13", what, s["tcp"], s["sdp"], "rate", ">=", 1)
