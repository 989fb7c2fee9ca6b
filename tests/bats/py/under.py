#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""under.py CASE: sockets that go or end under a thread that uses them.
state: TCP_INFO does not stand still while bytes in front of the end are unread.
forked: what a thread left behind in the parent is not buried by a child.
looking: a socket is closed under a thread that looks for its next byte.
polled, waited: the same under poll() and epoll_wait(), where a child has it
still, and where none has.
left: one is closed under a thread that sleeps in it and another that looks at
it: the last to go ends it.
kept: a parent closes what its child sleeps in: when the child is done with it,
nothing of it stays mapped.
falling_back: one is closed while it falls back: the others' business from then on,
and theirs to lift.
orphaned: a child reads on where its parent and the other end were killed in the
middle of a fallback.
renumbered: the number by which one falls back is closed, and is a pipe.
yielding: the same where it shall give up a descriptor; others stay open.
crowded: the same by many threads at once."""

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

wrong = []  # errors of threads


def failed(what):
    wrong.append(what)
    threading.__excepthook__(what)


threading.excepthook = failed


@contextlib.contextmanager
def but_for(number):
    """What may fail, but only with that error."""
    try:
        yield
    except OSError as err:
        if err.errno != number:
            raise


def take(sock, count):
    while count:
        piece = sock.recv(count)
        assert piece, "end of stream"
        count -= len(piece)


def talk(sock, first):
    for _ in range(200):
        if first:
            sock.send(b"y" * 10)
        take(sock, 10)
        if not first:
            sock.send(b"x" * 10)


def child(run):
    pid = os.fork()
    if not pid:
        run()
        os._exit(0)
    return pid


def reap(pid):
    assert os.waitpid(pid, 0)[1] == 0


ENV = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}


def shows(word):
    show = ["sdpstat", "--pid", str(os.getpid())]  # nothing, at first
    done = subprocess.run(show, env=ENV, check=False, capture_output=True)
    return word in done.stdout


def state(listener):
    def peer():
        with socket.create_connection(listener.getsockname()) as sock:
            talk(sock, True)
            sock.sendall(b"z" * 5000)
            sock.shutdown(socket.SHUT_WR)
            sock.recv(1)

    pid = child(peer)
    sock, _ = listener.accept()
    talk(sock, False)
    time.sleep(0.3)
    take(sock, 1)
    took = []
    for _ in range(5):
        start = time.monotonic()
        sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        took.append(time.monotonic() - start)
    assert min(took) < 0.05, took
    take(sock, 4999)
    assert sock.recv(1) == b""
    sock.close()
    reap(pid)


def forked(listener):
    go, went, closed = os.pipe(), os.pipe(), os.pipe()

    def peer():
        first = socket.create_connection(listener.getsockname())
        os.read(closed[0], 1)
        first.close()
        with socket.create_connection(listener.getsockname()) as sock:
            talk(sock, True)
            os.read(closed[0], 1)
            talk(sock, True)

    def bystander():
        os.read(go[0], 1)
        socket.socket().close()  # takes and gives memory for a socket
        os.write(went[1], b"1")

    def heir():
        os.write(closed[1], b"1")
        talk(sock, False)

    pid = child(peer)
    sock, _ = listener.accept()
    thread = threading.Thread(target=sock.recv, args=(1,))
    thread.start()
    time.sleep(0.2)
    os.close(sock.detach())  # the thread is inside
    other = child(bystander)
    os.write(closed[1], b"1")
    thread.join()
    sock, _ = listener.accept()
    talk(sock, False)
    os.write(go[1], b"1")
    os.read(went[0], 1)
    reap(other)
    last = child(heir)
    sock.close()
    spare = [socket.socket() for _ in range(5)]
    reap(last)
    reap(pid)
    assert spare


def looking(listener):
    def peer():
        for _ in range(8):
            with socket.create_connection(listener.getsockname()) as sock:
                talk(sock, True)
                try:
                    sock.recv(1)
                except ConnectionResetError:
                    pass

    def look(sock):
        with but_for(errno.EBADF):  # closed before it was called
            sock.recv(1)

    pid = child(peer)
    for _ in range(8):
        sock, _ = listener.accept()
        talk(sock, False)
        thread = threading.Thread(target=look, args=(sock,))
        thread.start()
        time.sleep(0.02)
        sock.shutdown(socket.SHUT_WR)
        os.close(sock.detach())
        thread.join()
    reap(pid)


def watching(listener, wait):
    """A child that has the socket still, or none, in turns."""

    def peer():
        for _ in range(16):
            with socket.create_connection(listener.getsockname()) as sock:
                talk(sock, True)
                try:
                    sock.recv(1)
                except ConnectionResetError:
                    pass

    def heir():
        os.close(done[1])
        os.read(done[0], 1)  # or its end, should the parent be no more

    pid = child(peer)
    for i in range(16):
        sock, _ = listener.accept()
        talk(sock, False)
        done = os.pipe()
        other = child(heir) if i & 1 else 0
        thread = threading.Thread(target=wait, args=(sock.fileno(),))
        thread.start()
        time.sleep(0.01)
        os.close(sock.detach())
        thread.join()
        os.close(done[1])
        if other:
            reap(other)
        os.close(done[0])
    reap(pid)


def polled(listener):
    def wait(number):
        poll = select.poll()
        poll.register(number, select.POLLIN)
        poll.poll(100)

    watching(listener, wait)


def waited(listener):
    def wait(number):
        with select.epoll() as poll, but_for(errno.EBADF):  # closed before
            poll.register(number, select.EPOLLIN)
            poll.poll(0.1)

    watching(listener, wait)


def left(listener):
    def peer():
        for _ in range(8):
            with socket.create_connection(listener.getsockname()) as sock:
                talk(sock, True)
                sock.settimeout(20)
                try:
                    assert sock.recv(1) == b""
                except ConnectionResetError:
                    pass

    def sleep(sock):
        try:
            sock.recv(1)
        except OSError:
            pass  # interrupted, and called again

    def look(number):
        poll = select.poll()
        poll.register(number, select.POLLIN)
        poll.poll(1)  # the sleeper spun in vain: not this time
        poll.poll(100)

    signal.signal(signal.SIGUSR1, lambda *_: None)
    pid = child(peer)
    for _ in range(8):
        sock, _ = listener.accept()
        talk(sock, False)
        sleeper = threading.Thread(target=sleep, args=(sock,))
        sleeper.start()
        time.sleep(0.05)
        looker = threading.Thread(target=look, args=(sock.fileno(),))
        looker.start()
        time.sleep(0.01)
        os.close(sock.detach())
        signal.pthread_kill(sleeper.ident, signal.SIGUSR1)
        sleeper.join()
        looker.join()
    reap(pid)


def kept(listener):
    def segments():
        with open("/proc/self/maps", encoding="ascii") as maps:
            return sum("libsdp" in line and "memfd" in line for line in maps)

    go = os.pipe()

    def peer():
        with socket.create_connection(listener.getsockname()) as sock:
            talk(sock, True)
            os.read(go[0], 1)
            sock.send(b"z")
            sock.recv(1)

    pid = child(peer)
    sock, _ = listener.accept()
    talk(sock, False)

    def heir():
        with sock:
            take(sock, 1)

    other = child(heir)
    time.sleep(0.2)  # it sleeps in there
    sock.close()
    os.write(go[1], b"1")
    reap(other)
    reap(pid)
    for _ in range(1000):
        socket.socket().close()  # each looks at two that it left behind
        if not segments():
            break
        time.sleep(0.01)
    assert not segments()


class Halted:
    """A lifted connection whose other end stands still, until ended. It has
    sent a byte more, and talks for each that it gets."""

    def __init__(self, listener):
        def peer():
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            with socket.create_connection(listener.getsockname()) as sock:
                talk(sock, True)
                sock.send(b"z")
                try:
                    while sock.recv(1):
                        talk(sock, True)
                except ConnectionResetError:
                    pass

        self.pid = child(peer)
        self.sock, _ = listener.accept()
        talk(self.sock, False)
        self.sock.recv(1, socket.MSG_PEEK)
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def end(self):
        os.kill(self.pid, signal.SIGCONT)
        reap(self.pid)


def falling_back(listener):
    go = os.pipe()
    own = os.getpid()

    def tell():
        os.read(go[0], 1)
        os.execvpe("sdpstat", ["sdpstat", "--fallback", str(own)], ENV)

    def heir():
        os.close(left[1])
        os.read(left[0], 1)
        take(at.sock, 1)
        until = time.monotonic() + 20
        while not shows(b" shm "):
            assert time.monotonic() < until
            at.sock.send(b"c")
            talk(at.sock, False)

    teller = child(tell)
    at = Halted(listener)
    left = os.pipe()
    other = child(heir)
    os.write(go[1], b"1")
    while not shows(b"requested"):  # it waits for the other end
        pass
    at.sock.close()
    reap(teller)
    os.kill(at.pid, signal.SIGCONT)
    os.close(left[1])
    reap(other)
    reap(at.pid)


def orphaned(listener):
    said = os.pipe()

    def middle():
        at = Halted(listener)
        left = os.pipe()

        def heir():
            os.close(left[1])
            os.read(left[0], 1)
            take(at.sock, 1)
            assert at.sock.recv(1) == b""
            os.write(said[1], b"1")

        def tell():
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            show = ["sdpstat", "--fallback", str(os.getppid())]
            os.execvpe("sdpstat", show, ENV)

        child(heir)
        child(tell)
        while not shows(b"requested"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)  # and with it the other end

    pid = child(middle)
    os.waitpid(pid, 0)
    os.close(said[1])
    assert select.select([said[0]], [], [], 20)[0]
    assert os.read(said[0], 1) == b"1"
    assert os.read(said[0], 1) == b""  # its statistics are written


def renumbered(listener):
    at = Halted(listener)
    other = os.dup(at.sock.fileno())
    number = at.sock.fileno()
    pair, pipe = socket.socketpair(), os.pipe()

    def send():
        socket.send_fds(pair[0], [b"x"], [number])

    thread = threading.Thread(target=send)
    thread.start()
    while "LD_PRELOAD" in os.environ and not shows(b"fd-passed"):
        pass  # it waits for the other end
    os.close(at.sock.detach())
    os.dup2(pipe[0], number)
    os.kill(at.pid, signal.SIGKILL)
    os.waitpid(at.pid, 0)
    thread.join()
    assert stat.S_ISFIFO(os.fstat(number).st_mode)
    assert os.read(other, 1) == b"z"


def yielding(listener, crowd=1):
    at = Halted(listener)
    pipe = os.pipe()
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    def fill():  # without being refused one, unless a thread was quicker
        for number in range(256):
            try:
                os.fstat(number)
            except OSError:
                quicker = threading.active_count() > 1
                with but_for(errno.EMFILE if quicker else None):
                    numbers.append(fcntl.fcntl(pipe[0], fcntl.F_DUPFD, number))

    def want():
        with but_for(errno.EMFILE):
            made.append(socket.socket())

    numbers, made = [], []
    fill()
    threads = [threading.Thread(target=want) for _ in range(crowd)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    os.close(at.sock.detach())
    fill()
    for thread in threads:
        thread.join()
    fill()
    assert len(set(numbers)) == len(numbers)
    at.end()


def crowded(listener):
    yielding(listener, 20)


CASES = {
    "state": state,
    "forked": forked,
    "looking": looking,
    "polled": polled,
    "waited": waited,
    "left": left,
    "kept": kept,
    "falling_back": falling_back,
    "orphaned": orphaned,
    "renumbered": renumbered,
    "yielding": yielding,
    "crowded": crowded,
}

with socket.create_server(("127.0.0.1", 0)) as on:
    CASES[sys.argv[1]](on)
assert not wrong, wrong
