# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""edges.py: uploads to a reader of edges, as nginx is one.

The reader stops at a receive that brought less than it asked for, because then
there is no more, and whatever comes later is a new edge. It is slow at times,
so that the stream goes from one carrier to another in front of it.
"""
import hashlib
import os
import select
import socket
import sys
import time

ROUNDS = 6
SIZE = 12_000_000
PIECE = 65536


def upload(name, data):
    with socket.create_connection(name) as s:
        s.setblocking(False)
        at = 0
        while at < len(data):
            try:
                at += s.send(data[at:at + 100_000])
            except BlockingIOError:
                select.select([], [s], [], 30)
        s.shutdown(socket.SHUT_WR)
        s.setblocking(True)
        assert s.recv(100) == hashlib.sha256(data).digest()


def take(s, turn):
    s.setblocking(False)
    ep = select.epoll()
    ep.register(s, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
    total, digest, ended, last = 0, hashlib.sha256(), False, False
    while not ended:
        events = ep.poll(10)
        if not events:
            sys.exit(f"no edge behind byte {total}")
        last = last or events[0][1] & select.EPOLLRDHUP
        while True:
            try:
                data = s.recv(PIECE)
            except BlockingIOError:
                break
            total += len(data)
            digest.update(data)
            if not data:
                ended = True
                break
            if total // 1_000_000 != (total - len(data)) // 1_000_000:
                time.sleep(0.03 * (turn % 3))
            if len(data) < PIECE and not last:
                break
    s.setblocking(True)
    s.sendall(digest.digest())


def main():
    data = hashlib.shake_256(b"edges").digest(SIZE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for turn in range(ROUNDS):
            pid = os.fork()
            if pid == 0:
                name = listener.getsockname()
                listener.close()
                upload(name, data)
                return
            with listener.accept()[0] as s:
                take(s, turn)
            if os.waitpid(pid, 0)[1]:
                sys.exit("the upload failed")
    print("done")


main()
