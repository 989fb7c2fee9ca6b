# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""many_echo.py prefork PORT WORKERS [EACH] | dropped PORT WORKERS | forking PORT | client HOST PORT CONNECTIONS COUNT [ROUNDS SECONDS | until FILE]
echo HOST PORT CONNECTIONS COUNT [until FILE]

The servers answer each request with as many bytes of its digest as were asked
for: workers that share a listening socket, or a child for each connection.
With EACH a worker takes so many connections and no more; dropped ones have no
privileges. They end at SIGTERM.
The client has all connections open at once, asks COUNT times on each and checks
every byte; after each round it goes on to ask now and then for some seconds,
or until there is such a file, with a line for each time.
With echo it is to get back what it sent."""
import hashlib
import os
import random
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


def answer(data, count):
    digest = hashlib.sha256(data).digest()
    return (digest * (count // len(digest) + 1))[:count]


def serve(sock):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            size = int.from_bytes(take(sock, 4), "big")
            back = int.from_bytes(take(sock, 4), "big")
            sock.sendall(answer(take(sock, size), back))
    except (EOFError, ConnectionError):
        sock.close()


def worker(listener, each):
    while each != 0:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock,), daemon=True).start()
        each -= 1
    while True:
        signal.pause()


def leave(*_):
    sys.exit(0)


def drop():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def prefork(port, workers, each=-1, begin=lambda: None):
    listener = socket.create_server(("", port), backlog=256)
    children = []
    for _ in range(workers):
        child = os.fork()
        if not child:
            signal.signal(signal.SIGTERM, leave)
            begin()
            worker(listener, each)
        children.append(child)

    def end(*_):
        for child in children:
            os.kill(child, signal.SIGTERM)
        for child in children:
            os.waitpid(child, 0)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        signal.pause()


def forking(port):
    listener = socket.create_server(("", port), backlog=256)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        sock, _ = listener.accept()
        if not os.fork():
            listener.close()
            serve(sock)
            sys.exit(0)
        sock.close()


def echo(sock, count, seed):
    dice = random.Random(seed)
    for _ in range(count):
        data = dice.randbytes(dice.choice([1, 10, 100, 1000, 8000]))
        sock.sendall(data)
        assert take(sock, len(data)) == data


def ask(sock, count, seed):
    dice = random.Random(seed)
    for _ in range(count):
        size = dice.choice([1, 10, 100, 1000, 20000])
        back = dice.choice([1, 50, 3000, 40000])
        data = dice.randbytes(size)
        sock.sendall(size.to_bytes(4, "big") + back.to_bytes(4, "big") + data)
        assert take(sock, back) == answer(data, back)


def client(host, port, connections, count, rounds=1, seconds=0,
           ask=ask, until=None):
    wrong = []
    sockets = []
    # so that the machine is not kept busy by what is only to go on
    each = 0.02 if connections < 100 else 0.1
    nap = 0.1 + (connections * each if until else 0)

    def one(i):
        try:
            for _ in range(rounds):
                ask(sockets[i], count, i)
                end = time.monotonic() + seconds
                while (not os.path.exists(until) if until else
                       time.monotonic() < end):
                    ask(sockets[i], 5, i)
                    if until:
                        os.write(1, b"asked\n")
                    time.sleep(nap)
        except BaseException as e:
            wrong.append(e)

    for _ in range(connections):
        sock = socket.create_connection((host, port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets.append(sock)
    threads = [threading.Thread(target=one, args=(i,))
               for i in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    for sock in sockets:
        sock.close()


if sys.argv[1] == "prefork":
    prefork(*map(int, sys.argv[2:]))
elif sys.argv[1] == "dropped":
    prefork(*map(int, sys.argv[2:]), begin=drop)
elif sys.argv[1] == "forking":
    forking(int(sys.argv[2]))
else:
    ways = {"client": ask, "echo": echo}
    if "until" in sys.argv:
        client(sys.argv[2], *map(int, sys.argv[3:6]), ask=ways[sys.argv[1]],
               until=sys.argv[7])
    else:
        client(sys.argv[2], *map(int, sys.argv[3:]), ask=ways[sys.argv[1]])
