# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""fork_unread.py server PORT | client HOST PORT FILE

When FILE is there the client forks with bytes unread; the child takes them, then
the parent goes on. Every byte is checked."""
import itertools
import os
import socket
import sys
import time

COUNT = 20000


def take(sock, count):
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def pattern(count):
    return bytes((i * 7) % 251 for i in range(count))


def serve(port):
    listener = socket.create_server(("", port))
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            sock.sendall(pattern(int.from_bytes(take(sock, 4), "big")))
    except EOFError:
        sock.close()


def ask(sock, count):
    sock.sendall(count.to_bytes(4, "big"))


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    peer = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for size in itertools.cycle(range(100, 800)):
        ask(peer, size)
        assert take(peer, size) == pattern(size)
        if os.path.exists(sys.argv[4]):
            break
    ask(peer, COUNT)
    assert take(peer, 10) == pattern(10)
    time.sleep(0.2)
    child = os.fork()
    if not child:
        assert take(peer, COUNT - 10) == pattern(COUNT)[10:]
        ask(peer, 500)
        assert take(peer, 500) == pattern(500)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for size in range(100, 300):
        ask(peer, size)
        assert take(peer, size) == pattern(size)
    peer.close()
