# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""sinks.py server PORT
sinks.py client HOST PORT SMALL LARGE

The client asks for bytes and waits for all of them in one receive: so many
SMALL ones, or until that file is there, then LARGE ones. Each byte is checked."""
import os
import random
import socket
import sys
import time


UNIT = bytes((i * 7 + (i >> 8)) & 255 for i in range(65536))


def pattern(start, size):
    whole = UNIT * (size // len(UNIT) + 2)
    return whole[start % len(UNIT):][:size]


def serve(port):
    listener = socket.create_server(("", port))
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    at = 0
    while True:
        head = sock.recv(4, socket.MSG_WAITALL)
        if not head:
            return
        size = int.from_bytes(head, "big")
        data = pattern(at, size)
        at += size
        time.sleep(0.02 if size >= 20000 else 0.002)  # its reader waits
        sock.sendall(data)


def ask(sock, size, at):
    sock.sendall(size.to_bytes(4, "big"))
    data = sock.recv(size, socket.MSG_WAITALL)
    assert len(data) == size
    assert data == pattern(at, size)
    return at + size


def turns(limit):
    count = 0
    while count < int(limit) if limit.isdigit() else \
            not os.path.exists(limit):
        yield count
        count += 1


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    dice = random.Random(3)
    at = 0
    peer = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in turns(sys.argv[4]):
        at = ask(peer, dice.randrange(1, 2000), at)
    for _ in turns(sys.argv[5]):
        at = ask(peer, dice.choice([20000, 100000, 700000]) +
                 dice.randrange(5000), at)
    peer.close()
