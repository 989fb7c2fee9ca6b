# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""said.py server|client|both HOST PORT [PREFIX [LARGE [FSIZE [UNTIL]]]]

A dialogue of lines, then LARGE bytes each way, then an orderly end; what each
end sent goes to PREFIX.server and PREFIX.client. both: one process and its
child. FSIZE: behind the lines no file of theirs may be larger. UNTIL: so many
lines more that this file is there."""
import os
import random
import resource
import socket
import sys
import time

ROUNDS = 100


def read(s, n):
    got = b""
    while len(got) < n:
        part = s.recv(n - len(got))
        if not part:
            sys.exit("ended after %d of %d" % (len(got), n))
        got += part
    return got


class End:
    def __init__(self, s, name, prefix):
        self.s, self.sent = s, b""
        self.path = prefix and prefix + "." + name

    def send(self, what):
        self.s.sendall(what)
        self.sent += what

    def end(self):
        self.s.shutdown(socket.SHUT_WR)
        if self.s.recv(1):
            sys.exit("more than was said")
        self.s.close()
        if self.path:
            with open(self.path, "wb") as f:
                f.write(self.sent)


def limit(n):
    if n:
        resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))


def large(seed, n):
    return random.Random(seed).getrandbits(8 * n).to_bytes(n, "big")


def server(listener, prefix, n, most):
    e = End(listener.accept()[0], "server", prefix)
    line, i = b"", 0
    while not line.startswith(b"last"):
        line = read(e.s, 12)
        e.send(b"%d: " % i + line)
        i += 1
    limit(most)
    if read(e.s, n) != large(1, n):
        sys.exit("other bytes than were sent")
    e.send(large(2, n))
    e.end()


def client(host, port, prefix, n, most, until):
    for _ in range(1000):
        try:
            e = End(socket.create_connection((host, port)), "client", prefix)
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    last, i = False, 0
    while not last:
        last = i + 1 >= ROUNDS and (not until or os.path.exists(until))
        e.send(b"%s %7d" % (b"last" if last else b"line", i))
        read(e.s, len(b"%d: " % i) + 12)
        i += 1
    limit(most)
    e.send(large(1, n))
    if read(e.s, n) != large(2, n):
        sys.exit("other bytes than were sent")
    e.end()


def main(role, host, port, prefix=None, n="100000", most="0", until=None):
    port, n, most = int(port), int(n), int(most)
    if role == "client":
        client(host, port, prefix, n, most, until)
        return
    listener = socket.socket(socket.AF_INET6 if ":" in host
                             else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen()
    if role == "both":
        child = os.fork()
        if not child:
            client(host, port, prefix, n, most, until)
            return
    server(listener, prefix, n, most)
    if role == "both" and os.waitpid(child, 0)[1]:
        sys.exit("the client failed")


main(*sys.argv[1:])
