#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""few.py server PORT | client HOST PORT BYTES: a download whose reader says now
and then how far it is, in a few bytes and without waiting, as HTTP/2 does. The
client prints how often, and how often there was no room for them."""
import hashlib
import select
import socket
import sys
import threading

SAYS = 65536  # so often
WHAT = bytes(55)


def serve(port):
    with socket.create_server(("", port)) as lis:
        s, _ = lis.accept()
    with s:
        total = int(s.recv(20))
        s.sendall(b"go")

        def take():
            while s.recv(4096):
                pass

        t = threading.Thread(target=take)
        t.start()
        piece = bytes(range(256)) * 256
        for _ in range(total // len(piece)):
            s.sendall(piece)
        s.shutdown(socket.SHUT_WR)
        t.join()


def fetch(host, port, total):
    told = refused = got = 0
    with socket.create_connection((host, port)) as s:
        s.sendall(b"%d" % total)
        assert s.recv(2) == b"go"
        s.setblocking(False)
        h = hashlib.sha256()
        while True:
            select.select([s], [], [])
            b = s.recv(16384)
            if not b:
                break
            h.update(b)
            got += len(b)
            if got // SAYS > told:
                told += 1
                try:
                    s.send(WHAT)
                except BlockingIOError:
                    refused += 1
    assert got == total, got
    print(told, refused)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    else:
        fetch(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
