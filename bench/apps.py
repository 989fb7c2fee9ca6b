# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Groups that measure real programs."""
import os
import re
import shutil

from harness import Failed, free_port
from table import absent, row


def missing(*programs):
    for p in programs:
        if not shutil.which(p):
            return "no " + p
    return None


# --- redis ------------------------------------------------------------------


def start_redis(h, name, sdp):
    port = free_port()
    os.mkdir(h.path(name))
    h.server(name, ["redis-server", "--port", str(port), "--bind",
                    "127.0.0.1", "--save", "", "--appendonly", "no",
                    "--dir", h.path(name)], port, sdp)
    return port


def ask_redis(h, port, args, sdp):
    out, proof = h.run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(port),
                        "-t", "get,set", "--csv", *map(str, args)], sdp, 60)
    rates = dict(re.findall(r'^"(GET|SET)[^"]*","([0-9.]+)"', out, re.M))
    if len(rates) != 2:
        raise Failed("redis-benchmark said nothing")
    return {"get": float(rates["GET"]), "set": float(rates["SET"]), **proof}


def redis(h):
    """redis-benchmark, GET and SET: F7."""
    why = missing("redis-server", "redis-benchmark")
    if why:
        yield absent("F7", "redis-benchmark", why)
        return
    port = {"tcp": start_redis(h, "redis-tcp", None),
            "sdp": start_redis(h, "redis-sdp", {})}
    for conns, deep, n, aim in ((1, 1, 20000, 5), (50, 1, 60000, 2.5),
                                (50, 16, 500000, 1.3), (1, 16, 150000, None)):
        args = ["-c", conns, "-P", deep, "-n", n // 3 if h.quick else n]
        s = h.interleave({
            "tcp": lambda a=args: ask_redis(h, port["tcp"], a, None),
            "sdp": lambda a=args: ask_redis(h, port["sdp"], a, {}),
        })
        for key in "get", "set":
            what = "redis %s, %d client%s" % (key.upper(), conns,
                                              "s" if conns > 1 else "")
            if deep > 1:
                what += ", pipeline %d" % deep
            yield row("F7" if aim else "-", what, s["tcp"], s["sdp"], key,
                      ">=", aim)


# --- nginx ------------------------------------------------------------------

CONF = """%(user)s
daemon off;
worker_processes 1;
pid %(dir)s/pid;
error_log %(dir)s/error.log;
events { worker_connections 256; }
http {
	access_log off;
	sendfile on;
	keepalive_requests 100000000;
	client_body_temp_path %(dir)s/body;
	proxy_temp_path %(dir)s/proxy;
	fastcgi_temp_path %(dir)s/fastcgi;
	uwsgi_temp_path %(dir)s/uwsgi;
	scgi_temp_path %(dir)s/scgi;
	server { listen 127.0.0.1:%(port)d; root %(www)s; }
}
"""


def start_nginx(h, name, sdp):
    port = free_port()
    where = h.path(name)
    os.mkdir(where)
    conf = os.path.join(where, "conf")
    with open(conf, "w", encoding="ascii") as f:
        f.write(CONF % {"dir": where, "port": port, "www": h.path("www"),
                        "user": "" if os.getuid() else "user root;"})
    h.server(name, ["nginx", "-p", where, "-c", conf], port, sdp)
    return port


def ask_nginx(h, port, name, size, sdp):
    out, proof = h.run(["wrk", "-c", "16", "-t", "1", "-d", "1s",
                        "http://127.0.0.1:%d/%s" % (port, name)], sdp, 30)
    if "Non-2xx" in out or "Socket errors" in out:
        raise Failed("wrk had errors")
    rate = re.search(r"Requests/sec:\s*([0-9.]+)", out)
    if not rate or not float(rate.group(1)):
        raise Failed("wrk said nothing")
    rate = float(rate.group(1))
    return {"rate": rate, "bytes_rate": rate * size, **proof}


def nginx(h):
    """wrk -c 16 -t 1, keep-alive: F8."""
    why = missing("nginx", "wrk")
    if why:
        yield absent("F8", "nginx", why)
        return
    os.mkdir(h.path("www"))
    for name, size in ("page", 1024), ("big", 1 << 20):
        with open(os.path.join(h.path("www"), name), "wb") as f:
            f.write(os.urandom(size))
    port = {"tcp": start_nginx(h, "nginx-tcp", None),
            "sdp": start_nginx(h, "nginx-sdp", {})}
    for name, size, key, aim in (("page", 1024, "rate", 2),
                                 ("big", 1 << 20, "bytes_rate", 1.5)):
        s = h.interleave({
            "tcp": lambda n=name, z=size:
                ask_nginx(h, port["tcp"], n, z, None),
            "sdp": lambda n=name, z=size:
                ask_nginx(h, port["sdp"], n, z, {}),
        })
        yield row("F8", "nginx, %s" % ("1 KiB" if size == 1024 else "1 MiB"),
                  s["tcp"], s["sdp"], key, ">=", aim)
