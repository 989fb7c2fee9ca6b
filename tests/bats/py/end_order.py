# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""end_order.py ROUNDS: an event loop hears of an end before what follows it.

One process closes a connection, and then asks by another one whether the loop
at the other ends has heard of that. It has: for an end, for a reset, after a
child has held the connection for a while, whether the asking connection was used
much before or not at all, and for levels, edges and one-shots. Nothing here
depends on time.
"""
import os
import select
import socket
import struct
import sys

ROUNDS = int(sys.argv[1])
WARM = 250
KINDS = {"level": 0, "edge": select.EPOLLET, "oneshot": select.EPOLLONESHOT}


class Loop:
    """Answers each line; an end of the connection that said R is remembered."""

    def __init__(self, listener, kind):
        self.listener, self.conns, self.named, self.ended = listener, {}, 0, 0
        self.kind = kind
        self.set = select.epoll()
        self.set.register(listener, select.EPOLLIN)

    def accept(self):
        c, _ = self.listener.accept()
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.conns[c.fileno()] = c
        self.set.register(c, select.EPOLLIN | self.kind)

    def gone(self, fd):
        self.set.unregister(fd)
        self.conns.pop(fd).close()
        if fd == self.named:
            self.ended += 1
            self.named = 0

    def answer(self, fd, line):
        if line == b"R":
            self.named = fd
        if line == b"unread":
            line = b"answers\nmore"
        self.conns[fd].send(b"%d\n" % self.ended if line == b"?"
                            else line + b"\n")

    def run(self):
        while True:
            for fd, _ in self.set.poll(-1, 8):
                if fd == self.listener.fileno():
                    self.accept()
                    continue
                try:
                    data = self.conns[fd].recv(100)
                except ConnectionError:
                    data = b""
                if not data:
                    self.gone(fd)
                elif self.kind == select.EPOLLONESHOT:
                    self.set.modify(fd, select.EPOLLIN | self.kind)
                for line in data.splitlines():
                    if line == b"quit":
                        return
                    self.answer(fd, line)


def connect(name, rounds):
    c = socket.create_connection(name)
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(rounds):
        ask(c, b"ping")
    return c


def ask(c, line):
    c.sendall(line + b"\n")
    said = b""
    while not said.endswith(b"\n"):
        data = c.recv(100)
        assert data
        said += data
    return said.strip()


def held(c):
    """A child has it for a while."""
    child = os.fork()
    if not child:
        os._exit(0)
    for _ in range(20):
        ask(c, b"ping")
    os.waitpid(child, 0)
    for _ in range(20):
        ask(c, b"ping")


def end(c, how):
    if how == "unread":
        assert ask(c, b"unread").startswith(b"answers")
        c.sendall(b"ping\n")
        select.select([c], [], [])
    if how == "linger":
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()


def judge(name, kind, how, asks):
    """`asks`: messages of the asking connection before."""
    q = connect(name, asks)
    begin = int(ask(q, b"?"))
    late = 0
    for i in range(ROUNDS):
        r = connect(name, WARM)
        ask(r, b"R")
        if how == "held":
            held(r)
        end(r, how)
        late += int(ask(q, b"?")) != begin + i + 1
        while int(ask(q, b"?")) != begin + i + 1:
            pass
    q.close()
    print(f"{kind}, {how}, asked by one of {asks} messages: {late} of {ROUNDS} late")
    return late


def judge_all(kind):
    """How often a loop whose members are of this kind heard it too late."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    name = listener.getsockname()
    child = os.fork()
    if not child:
        Loop(listener, KINDS[kind]).run()
        os._exit(0)
    listener.close()
    late = sum(judge(name, kind, how, asks) for asks in (WARM, 0)
               for how in ("end", "held", "unread", "linger"))
    connect(name, 0).sendall(b"quit\n")
    assert os.waitpid(child, 0)[1] == 0
    return late


sys.exit(sum(judge_all(kind) for kind in KINDS) != 0)
