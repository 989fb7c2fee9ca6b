# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""order.py [ROUNDS]: an event loop hears of writes in their order.

One process writes to several connections, some of which were used much before
and some not at all, while the loop at their other ends is away. When it comes
back, it finds all of them ready, and in the order in which they were written
to: for levels, edges and one-shot members, with arrays of all sizes, and
through sets within a set. Nothing here depends on time.
"""
import os
import random
import select
import socket
import sys

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
WARM = 300
HOT = 6
FLAGS = {"level": 0, "edge": select.EPOLLET, "once": select.EPOLLONESHOT}


class Loop:
    """The reading end: told by `ctl` what to do, never by a connection."""

    def __init__(self, ctl, listener):
        self.ctl, self.listener = ctl, listener
        self.conns, self.flags, self.inner = {}, 0, {}
        self.set = select.epoll()

    def mask(self):
        return select.EPOLLIN | self.flags

    def accept(self, at):
        c, _ = self.listener.accept()
        self.conns[c.fileno()] = c
        at.register(c, self.mask())
        return c

    def warm(self, c, n):
        """Answers n messages, by way of the set."""
        while n:
            for fd, _ in self.set.poll():
                if fd in self.inner:
                    fd = self.inner[fd].poll()[0][0]
                if fd != c.fileno():
                    self.take(fd, [])
                    continue
                c.send(c.recv(100))
                n -= 1
                if self.flags & select.EPOLLONESHOT:
                    self.set.modify(c, self.mask())

    def add(self, n, nested):
        at = self.set
        if nested:
            at = select.epoll()
            self.inner[at.fileno()] = at
            self.set.register(at, select.EPOLLIN)
        self.warm(self.accept(at), n)

    def take(self, fd, heard):
        data = self.conns[fd].recv(100).decode()
        if not data:
            self.conns.pop(fd).close()
            return
        heard.append(data)
        if self.flags & select.EPOLLONESHOT:
            self.set.modify(fd, self.mask())

    def hear(self, room):
        """What is ready, in the order of the events; then nothing is."""
        heard = []
        while True:
            events = self.set.poll(0, room)
            if not events:
                return " ".join(heard)
            for fd, _ in events:
                if fd in self.inner:
                    for one, _ in self.inner[fd].poll(0):
                        self.take(one, heard)
                    assert not self.inner[fd].poll(0)
                else:
                    self.take(fd, heard)

    def drop(self):
        for fd in [*self.conns, *self.inner]:
            self.conns.pop(fd, self.inner.pop(fd, None)).close()

    def run(self):
        while True:
            word, *args = self.ctl.recv(100).decode().split()
            answer = "ok"
            if word == "flags":
                self.drop()
                self.flags = int(args[0])
            elif word == "add":
                self.ctl.send(b"soon")
                self.add(int(args[0]), args[1] == "True")
            elif word == "hear":
                answer = self.hear(int(args[0])) or "nothing"
            elif word == "quit":
                return
            self.ctl.send(answer.encode())


class Writer:
    def __init__(self, ctl, name):
        self.ctl, self.name, self.hot = ctl, name, []

    def ask(self, *words):
        self.ctl.send(" ".join(map(str, words)).encode())
        return self.ctl.recv(1000).decode()

    def connect(self, n, nested=False):
        c = socket.create_connection(self.name)
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert self.ask("add", n, nested) == "soon"
        for _ in range(n):
            c.send(b"ping")
            assert c.recv(100) == b"ping"
        assert self.ctl.recv(100) == b"ok"
        return c

    def begin(self, flags, nested=False):
        for c in self.hot:
            c.close()
        self.ask("flags", int(flags))
        self.hot = [self.connect(WARM, nested) for _ in range(HOT)]
        self.ask("hear", -1)

    def round(self, kinds, room):
        """One write to a connection of each kind, H or C, in a row."""
        hot = random.sample(self.hot, kinds.count("H"))
        cold = [self.connect(2) for k in kinds if k == "C"]
        random.shuffle(cold)
        assert self.ask("hear", -1) == "nothing"
        rest = {"H": list(hot), "C": list(cold)}
        names = [f"{k}{i}" for i, k in enumerate(kinds)]
        for k, name in zip(kinds, names):
            rest[k].pop().send(name.encode())
        heard = self.ask("hear", room).split()
        for c in cold:
            c.close()
        # the ends of those
        self.ask("hear", -1)
        if heard != names:
            print(names, "was heard as", heard)
        return heard == names


def judge(what, w, kinds, room):
    wrong = sum(not w.round(k, room) for k in kinds)
    print(f"{what}: {len(kinds) - wrong} of {len(kinds)}")
    return wrong


def write(w):
    random.seed(7)
    wrong = 0
    few = ["HH", "HC", "CH", "CC", "HCH", "CHC", "CCH", "HHC"]
    for name, flags in FLAGS.items():
        w.begin(flags)
        for room in -1, 1, 2, 3:
            kinds = few + ["".join(random.choice("HC") for _ in range(5))
                           for _ in range(ROUNDS)]
            wrong += judge(f"{name}, room {room}", w, kinds, room)
    w.begin(0, nested=True)
    for room in -1, 1:
        wrong += judge(f"nested, room {room}", w, ["HHHH"] * ROUNDS, room)
    w.ctl.send(b"quit")
    return wrong


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    child = os.fork()
    if not child:
        ours.close()
        Loop(theirs, listener).run()
        os._exit(0)
    theirs.close()
    name = listener.getsockname()
    listener.close()
    wrong = write(Writer(ours, name))
    assert os.waitpid(child, 0)[1] == 0
    sys.exit(wrong != 0)


main()
