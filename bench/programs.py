# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real programs, with the library and without, by turns: bench/run programs.

A cell is one load on one pair of servers, both started before it, one of them
preloaded; the load generator is preloaded with the second. Each round runs the
load against one and then against the other, so that what else the machine does
meets both. What counts is the median of the rounds.

`cpu` is the second witness: the processor time of servers and load generator
together for the same work, relative to TCP. It moves less than rates do where
others use the machine.
"""
import json
import os
import re
import resource
import shutil
import statistics
import time

from harness import Absent, Failed, free_port
from table import row

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = {"nginx": "nginx-light", "wrk": "wrk", "haproxy": "haproxy",
           "redis-server": "redis-server", "redis-benchmark": "redis-tools",
           "memcached": "memcached", "pgbench": "postgresql", "node": "nodejs",
           "java": "default-jdk-headless", "iperf3": "iperf3",
           "initdb": "postgresql", "python3": "python3"}
BOTH = ("tcp", "sdp")
SIZES = (1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20)


def need(*programs):
    for p in programs:
        if not shutil.which(p):
            raise Absent("n/a: package " + PACKAGE.get(p, p))


def size_name(n):
    for unit, size in ("MiB", 1 << 20), ("KiB", 1 << 10):
        if n >= size:
            return "%d %s" % (n // size, unit)
    return "%d B" % n


def plural(n, what):
    return "%d %s%s" % (n, what, "" if n == 1 else "s")


# --- one cell -----------------------------------------------------------------


def session_time(sids):
    """Processor seconds that the processes of these sessions have used."""
    ticks = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, encoding="utf-8",
                      errors="replace") as f:
                part = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(part[3]) in sids:
            ticks += int(part[11]) + int(part[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def children_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Side:
    """The servers of one way, and how a load is run against them."""

    def __init__(self, h, name):
        self.h = h
        self.name = name
        self.sdp = None if name == "tcp" else {}
        self.sids = set()

    def path(self, name):
        return self.h.path("%s.%s" % (name, self.name))

    def server(self, name, cmd, port, prefix=()):
        p = self.h.server("%s.%s" % (name, self.name), cmd, port, self.sdp,
                          prefix)
        self.sids.add(p.pid)
        return port

    def load(self, cmd, rate, timeout=60):
        """`rate` finds what counts in the output; cpu is for one unit of it."""
        before = session_time(self.sids) + children_time()
        out, proof = self.h.run(list(map(str, cmd)), self.sdp, timeout)
        used = session_time(self.sids) + children_time() - before
        value, work = rate(out)
        return {"rate": value, "cpu": used / work if work else 0, **proof}


def cell(h, what, sides, measure, lifted=True):
    """One row: `measure(side)` by turns."""
    s = h.interleave({n: lambda n=n: measure(sides[n]) for n in BOTH})
    h.say(what)
    r = row("-", what, s["tcp"], s["sdp"], "rate", ">=", None, lifted=lifted)
    r["noise"] = r["cpu"] = None
    if not r["note"].startswith("failed"):
        r["noise"] = max(noise(s[n].values("rate")) for n in BOTH)
        base = s["tcp"].median("cpu")
        r["cpu"] = s["sdp"].median("cpu") / base if base else None
    return r


def noise(values):
    """Half of what lies between the extremes, relative to the median."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / 2 / middle if middle else 0


def both(h, start):
    """{name: Side} with the servers that `start(side)` starts."""
    sides = {n: Side(h, n) for n in BOTH}
    for s in sides.values():
        start(s)
    return sides


# --- loads --------------------------------------------------------------------


def wrk(side, port, name, conns, close=False):
    def rate(out):
        if "Non-2xx" in out or "Socket errors" in out:
            raise Failed("wrk had errors")
        per = re.search(r"Requests/sec:\s*([0-9.]+)", out)
        n = re.search(r"(\d+) requests in", out)
        if not per or not n or not int(n.group(1)):
            raise Failed("wrk said nothing")
        return float(per.group(1)), int(n.group(1))

    head = ["-H", "Connection: close"] if close else []
    return side.load(["wrk", "-c", conns, "-t", 1, "-d",
                      "1s" if side.h.quick else "2s", "--timeout", "20s",
                      *head, "http://127.0.0.1:%d/%s" % (port, name)], rate)


def load(side, port, size, conns, threads=1, key=None):
    def rate(out):
        got = json.loads(out)
        return got["rate"], got["messages"]

    return side.load([os.path.join(side.h.bin, "load"), "-p", port, "-c",
                      conns, "-j", threads, "-s", size, "-t",
                      800 if side.h.quick else 2000,
                      *(["-k", key] if key else [])], rate)


# --- nginx, haproxy -----------------------------------------------------------

NGINX = """%(user)s
daemon off;
worker_processes 1;
pid %(dir)s/pid;
error_log %(dir)s/error.log;
events { worker_connections 1024; }
http {
	access_log off;
	sendfile %(sendfile)s;
	keepalive_requests 100000000;
	client_body_temp_path %(dir)s/body;
	proxy_temp_path %(dir)s/proxy;
	fastcgi_temp_path %(dir)s/fastcgi;
	uwsgi_temp_path %(dir)s/uwsgi;
	scgi_temp_path %(dir)s/scgi;
	%(upstream)s
	server { listen 127.0.0.1:%(port)d; %(serve)s }
}
"""

UPSTREAM = "upstream back { server 127.0.0.1:%d; keepalive 256; " \
    "keepalive_requests 100000000; }"
PROXY = 'location / { proxy_pass http://back; proxy_http_version 1.1; ' \
    'proxy_set_header Connection ""; proxy_max_temp_file_size 0; }'

HAPROXY = """global
	maxconn 1000
defaults
	mode http
	timeout connect 10s
	timeout client 60s
	timeout server 60s
frontend front
	bind 127.0.0.1:%d
	default_backend back
backend back
	http-reuse always
	server one 127.0.0.1:%d
"""


def start_nginx(side, name, sendfile="on", back=None):
    port = free_port()
    where = side.path(name)
    os.mkdir(where)
    conf = os.path.join(where, "conf")
    with open(conf, "w", encoding="ascii") as f:
        f.write(NGINX % {
            "dir": where, "port": port, "sendfile": sendfile,
            "user": "" if os.getuid() else "user root;",
            "upstream": UPSTREAM % back if back else "",
            "serve": PROXY if back else "root %s;" % side.h.path("www")})
    return side.server(name, ["nginx", "-p", where, "-c", conf], port)


def start_haproxy(side, back):
    port = free_port()
    conf = side.path("haproxy.conf")
    with open(conf, "w", encoding="ascii") as f:
        f.write(HAPROXY % (port, back))
    return side.server("haproxy", ["haproxy", "-db", "-q", "-f", conf], port)


def www(h):
    os.mkdir(h.path("www"))
    for n in SIZES:
        with open(os.path.join(h.path("www"), str(n)), "wb") as f:
            f.write(os.urandom(n))


def web(h):
    """nginx, sendfile on and off, keep-alive and not."""
    need("nginx", "wrk")
    www(h)
    for sendfile in "on", "off":
        sides = both(h, lambda s, w=sendfile: setattr(
            s, "port", start_nginx(s, "nginx." + w, w)))
        for size in SIZES:
            for conns in 1, 10, 100:
                yield cell(h, "nginx, sendfile %s, %s, %s" % (
                    sendfile, size_name(size), plural(conns, "connection")),
                    sides, lambda s, z=size, c=conns: wrk(s, s.port, z, c))
        for size in (1 << 10, 64 << 10) if sendfile == "on" else ():
            yield cell(h, "nginx, %s, no keep-alive, 10 connections" %
                       size_name(size), sides, lambda s, z=size:
                       wrk(s, s.port, z, 10, True), lifted=False)
        h.stop_servers()


def proxies(h):
    """haproxy and nginx in front of nginx."""
    need("nginx", "wrk")
    if not os.path.exists(h.path("www")):
        www(h)
    for name in "haproxy", "nginx":
        if name == "haproxy" and not shutil.which(name):
            yield h.absent("haproxy", PACKAGE[name])
            continue

        def start(s, name=name):
            back = start_nginx(s, "back." + name)
            s.port = start_haproxy(s, back) if name == "haproxy" else \
                start_nginx(s, "front", back=back)

        sides = both(h, start)
        for size in 1 << 10, 64 << 10, 1 << 20:
            for conns in 1, 50:
                yield cell(h, "%s in front of nginx, %s, %s" % (
                    name, size_name(size), plural(conns, "connection")),
                    sides, lambda s, z=size, c=conns: wrk(s, s.port, z, c))
        h.stop_servers()


# --- redis, memcached ---------------------------------------------------------


def start_redis(side):
    port = free_port()
    os.mkdir(side.path("redis"))
    side.port = side.server("redis", [
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save",
        "", "--appendonly", "no", "--dir", side.path("redis")], port)


def ask_redis(side, what, size, clients, deep, n):
    def rate(out):
        got = re.search(r'^"%s[^"]*","([0-9.]+)"' % what.upper(), out, re.M)
        if not got:
            raise Failed("redis-benchmark said nothing")
        return float(got.group(1)), n

    return side.load(["redis-benchmark", "-h", "127.0.0.1", "-p", side.port,
                      "-t", what, "-d", size, "-c", clients, "-P", deep, "-n",
                      n, "--csv"], rate)


def redis(h):
    """redis-benchmark: sizes, clients, pipelines."""
    need("redis-server", "redis-benchmark")
    sides = both(h, start_redis)
    for size, amount in (3, 10000), (1 << 10, 10000), (64 << 10, 2000):
        for clients in 1, 50, 200:
            for deep in 1, 16:
                n = amount * (4 if deep > 1 and size < 1 << 14 else 1)
                n = n // 2 if clients == 1 else n
                n = n if h.quick else 10 * n
                for what in "set", "get":
                    yield cell(h, "redis %s, %s, %s%s" % (
                        what, size_name(size), plural(clients, "client"),
                        ", pipeline %d" % deep if deep > 1 else ""), sides,
                        lambda s, w=what, z=size, c=clients, p=deep, k=n:
                        ask_redis(s, w, z, c, p, k))


def memcached(h):
    """memcached: get, by bench/load."""
    need("memcached")
    for threads in 1, 4:
        def start(s, t=threads):
            port = free_port()
            s.port = s.server("memcached", [
                "memcached", "-p", str(port), "-l", "127.0.0.1", "-U", "0",
                "-t", str(t), *(() if os.getuid() else ("-u", "root"))], port)

        sides = both(h, start)
        for size in 100, 8 << 10:
            for conns in 1, 50:
                yield cell(h, "memcached -t %d, get %s, %s" % (
                    threads, size_name(size), plural(conns, "connection")),
                    sides, lambda s, z=size, c=conns, t=threads:
                    load(s, s.port, z, c, min(t, c), "key"))
        h.stop_servers()


# --- PostgreSQL ---------------------------------------------------------------


def find_postgres():
    top = "/usr/lib/postgresql"
    for v in sorted(os.listdir(top) if os.path.isdir(top) else [], key=float,
                    reverse=True):
        if os.access("%s/%s/bin/postgres" % (top, v), os.X_OK):
            return "%s/%s/bin" % (top, v)
    where = shutil.which("postgres")
    if not where:
        raise Absent("n/a: package postgresql")
    return os.path.dirname(where)


def ready(side, where, port):
    """It listens before it takes any connection."""
    for _ in range(100):
        try:
            side.h.run([where + "/pg_isready", "-q", "-h", "127.0.0.1", "-p",
                        str(port)])
            return
        except Failed:
            time.sleep(0.1)
    raise Failed("postgres did not start")


def start_postgres(side, where, user):
    port = free_port()
    data = side.path("data")
    os.mkdir(data)
    if user:
        shutil.chown(data, "postgres")
    side.h.run([*user, where + "/initdb", "-D", data, "-U", "bench", "-A",
                "trust", "--no-sync"], None, 60)
    side.port = side.server("postgres", [
        where + "/postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1",
        "-k", "", "-c", "fsync=off", "-c", "synchronous_commit=off"], port,
        user)
    side.sql = ["-h", "127.0.0.1", "-p", str(port), "-U", "bench", "postgres"]
    ready(side, where, port)
    side.h.run([where + "/pgbench", "-i", "-q", "-s", "5", *side.sql], None,
               60)


def postgres(h):
    """PostgreSQL, pgbench -S and -N."""
    where = find_postgres()
    user = () if os.getuid() else ("setpriv", "--reuid", "postgres",
                                   "--regid", "postgres", "--clear-groups")

    def rate(out):
        tps = re.search(r"^tps = ([0-9.]+)", out, re.M)
        n = re.search(r"actually processed: (\d+)", out)
        if not tps or not n:
            raise Failed("pgbench said nothing")
        return float(tps.group(1)), int(n.group(1))

    sides = both(h, lambda s: start_postgres(s, where, user))
    for kind in "-S", "-N":
        for clients in 1, 8:
            yield cell(h, "PostgreSQL, pgbench %s, %s" % (
                kind, plural(clients, "client")), sides,
                lambda s, k=kind, c=clients: s.load(
                    [where + "/pgbench", k, "-n", "-c", c, "-j", 1, "-T",
                     1 if h.quick else 3, *s.sql], rate))


# --- what programs are written in ---------------------------------------------


def echo(h):
    """Echo servers: node, Python's asyncio, Java NIO; by bench/load."""
    servers = os.path.join(HERE, "servers")
    for name, cmd in (
            ("node", ["node", servers + "/echo.js"]),
            ("Python asyncio", ["python3", servers + "/echo.py"]),
            ("Java NIO", ["java", "-Djava.net.preferIPv4Stack=true",
                          servers + "/Echo.java"])):
        if not shutil.which(cmd[0]):
            yield h.absent(name, PACKAGE[cmd[0]])
            continue

        def start(s, cmd=cmd):
            port = free_port()
            s.port = s.server(cmd[0], [*cmd, str(port)], port)

        sides = both(h, start)
        for size in 64, 16 << 10:
            for conns in 1, 50:
                yield cell(h, "%s, echo %s, %s" % (
                    name, size_name(size), plural(conns, "connection")),
                    sides, lambda s, z=size, c=conns: load(s, s.port, z, c))
        h.stop_servers()


def iperf(h):
    """iperf3: bytes per second."""
    need("iperf3")

    def start(s):
        port = free_port()
        s.port = s.server("iperf3", ["iperf3", "-s", "-B", "127.0.0.1", "-p",
                                     str(port)], port)

    def rate(out):
        got = json.loads(out)["end"]["sum_received"]
        return got["bits_per_second"] / 8, got["bytes"] / 1e9

    sides = both(h, start)
    for streams in 1, 4:
        r = cell(h, "iperf3 -P %d" % streams, sides, lambda s, p=streams:
                 s.load(["iperf3", "-c", "127.0.0.1", "-p", s.port, "-P", p,
                         "-t", 1 if h.quick else 3, "-J"], rate))
        r["unit"] = "B/s"
        yield r


PROGRAMS = {f.__name__: f for f in (
    web, proxies, redis, memcached, postgres, echo, iperf)}
