#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""left.py server PORT | client HOST PORT TURNS: once they have talked that much
the client sends until there is no room for a while, so that its last bytes went
to the anchor. The server reads all but a few of them and closes: a reset."""
import select
import socket
import sys

LEFT = 1000


def take(s, n):
    got = 0
    while got < n:
        b = s.recv(min(n - got, 65536))
        assert b, got
        got += len(b)
    return b


def serve(port):
    with socket.create_server(("", port)) as lis:
        s, _ = lis.accept()
        with s:
            for _ in range(int(take(s, 8))):
                s.sendall(take(s, 1))
            aside, _ = lis.accept()
            with aside:
                take(s, int(aside.recv(20)) - LEFT)


def fill(s):
    sent = 0
    s.setblocking(False)
    while select.select([], [s], [], 1.0)[1]:
        sent += s.send(b"y" * 30000)
    s.setblocking(True)
    return sent


def run(host, port, turns):
    with socket.create_connection((host, port)) as s:
        s.sendall(b"%8d" % turns)
        for _ in range(turns):
            s.sendall(b"x")
            assert take(s, 1) == b"x"
        sent = fill(s)
        with socket.create_connection((host, port)) as aside:
            aside.sendall(b"%d" % sent)
        try:
            raise SystemExit("%d bytes, and no reset" % len(s.recv(10)))
        except ConnectionResetError:
            pass


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    else:
        run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
