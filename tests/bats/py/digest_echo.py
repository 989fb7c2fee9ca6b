# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""digest_echo.py server PORT
digest_echo.py client HOST PORT COUNT [large N] [forks N SECONDS]
    [[held] fork [FILE] | [held] killed HOW [again] | until FILE | rest DIR]

Requests of many sizes; the answer is the digest of the request's bytes and so
many of them again as were asked for. The client checks each byte. With forks it
goes on a little in a child, for so long in itself, and so N times; with fork it
goes on in a child, and then in itself; with held it forks when FILE.waits is
there, and the child removes FILE; with killed the child is killed in its sleep,
in recv or poll, or when it has closed it under a receive of its own, and FILE
removed; with again it forks once more behind until; with until it goes on until FILE
is there; with rest until DIR/rest is, is silent until DIR/on is, and goes on a
little. At the end come N large requests."""
import hashlib
import os
import random
import select
import signal
import socket
import sys
import threading
import time


def take(sock, count):
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def echo(data, count):
    return (data * (count // len(data) + 1))[:count]


def serve(port):
    listener = socket.create_server(("", port))
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            size = int.from_bytes(take(sock, 4), "big")
            back = int.from_bytes(take(sock, 4), "big")
            data = take(sock, size)
            sock.sendall(hashlib.sha256(data).digest() + echo(data, back))
    except EOFError:
        sock.close()


SMALL = [1, 10, 100, 1000, 20000], [0, 1, 50, 3000, 40000]
LARGE = [100, 30000, 300000, 1000000], [0, 50, 70000, 500000]


def ask(sock, count, sizes=SMALL):
    dice = random.Random(7)
    for _ in range(count):
        size = dice.choice(sizes[0])
        back = dice.choice(sizes[1])
        data = os.urandom(size)
        sock.sendall(size.to_bytes(4, "big") + back.to_bytes(4, "big") + data)
        assert take(sock, 32) == hashlib.sha256(data).digest()
        assert take(sock, back) == echo(data, back)


def in_child(sock, count):
    child = os.fork()
    if not child:
        ask(sock, count)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def killed_asleep(sock, how):
    ready = os.pipe()
    child = os.fork()
    if not child:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        if how == "close":
            threading.Thread(target=sock.recv, args=(1,), daemon=True).start()
            time.sleep(0.2)  # it has most likely begun
            os.close(sock.fileno())
        os.write(ready[1], b"x")
        if how == "close":
            time.sleep(60)
        elif how == "poll":
            poll.poll()
        else:
            sock.recv(1)
        os._exit(1)
    signal.alarm(60)  # what hangs has failed
    os.read(ready[0], 1)
    state = ""
    while state != "S":
        with open("/proc/%d/stat" % child, encoding="ascii") as f:
            state = f.read().rsplit(")", 1)[1].split()[0]
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    peer = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ask(peer, int(sys.argv[4]))
    while "held" in sys.argv and not os.path.exists(sys.argv[-1] + ".waits"):
        ask(peer, 20)
    if "fork" in sys.argv:
        child = os.fork()
        if not child:
            if "held" in sys.argv:
                os.unlink(sys.argv[-1])
            ask(peer, 1000 if "held" in sys.argv else 200)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        ask(peer, 200)
    if "killed" in sys.argv:
        killed_asleep(peer, sys.argv[sys.argv.index("killed") + 1])
        if "held" in sys.argv:
            os.unlink(sys.argv[-1])
    if "forks" in sys.argv:
        at = sys.argv.index("forks")
        for _ in range(int(sys.argv[at + 1])):
            in_child(peer, 30)
            end = time.monotonic() + float(sys.argv[at + 2])
            while time.monotonic() < end:
                ask(peer, 10)
    while "until" in sys.argv and not os.path.exists(sys.argv[-1]):
        ask(peer, 100)
    if "again" in sys.argv:
        in_child(peer, 30)
        ask(peer, 100)
    if "rest" in sys.argv:
        while not os.path.exists(sys.argv[-1] + "/rest"):
            ask(peer, 50)
        while not os.path.exists(sys.argv[-1] + "/on"):
            time.sleep(0.05)
        ask(peer, 300)
    if "large" in sys.argv:
        ask(peer, int(sys.argv[sys.argv.index("large") + 1]), LARGE)
    peer.close()
