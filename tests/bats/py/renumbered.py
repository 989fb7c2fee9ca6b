# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""renumbered.py: a connection's first number is closed, another stays, and the
first becomes another socket's. Prints the numbers of the three sockets, and
those that sdpstat shows.
"""
import fcntl
import json
import os
import socket
import subprocess


def turns(a, b):
    for i in range(50):
        a.sendall(b"%d" % i)
        b.recv(100)
        b.sendall(b"%d" % i)
        a.recv(100)


def shown():
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    out = subprocess.check_output(
        ["sdpstat", "--json", "--pid", str(os.getpid())], env=env)
    return sorted(row["fd"] for row in json.loads(out)[0]["list"])


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    a = socket.create_connection(listener.getsockname())
    b = listener.accept()[0]
    turns(a, b)
    for again in (lambda fd: os.dup(fd),
                  lambda fd: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 50),
                  lambda fd: os.dup2(fd, 60)):
        old = a
        a = socket.socket(fileno=again(old.fileno()))
        old.close()
        with socket.socket(socket.AF_UNIX):
            print(*sorted(s.fileno() for s in (listener, a, b)))
            print(*shown())
    copy = socket.socket(fileno=os.dup(a.fileno()))
    with socket.socket(socket.AF_UNIX) as other:
        os.dup2(other.fileno(), a.fileno())
        print(*sorted(s.fileno() for s in (listener, copy, b)))
        print(*shown())
    turns(copy, b)


main()
