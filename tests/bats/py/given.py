#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""given.py server PORT | client HOST PORT TURNS: once they have talked that much
the client sends, runs a program that writes to the socket, and sends again. The
server has read none of it when it forks; then it reads."""
import os
import socket
import subprocess
import sys

SAYS = [b"a" * 8900, b"b" * 9000, b"c" * 5000]


def take(s, n):
    got = b""
    while len(got) < n:
        b = s.recv(n - len(got))
        assert b, len(got)
        got += b
    return got


def serve(port):
    with socket.create_server(("", port)) as lis:
        s, _ = lis.accept()
        with s:
            for _ in range(int(take(s, 8))):
                s.sendall(take(s, 100))
            aside, _ = lis.accept()
            with aside:
                assert take(aside, 4) == b"sent"
            pid = os.fork()
            if not pid:
                assert take(s, sum(map(len, SAYS))) == b"".join(SAYS)
                os._exit(0)
            assert not os.waitpid(pid, 0)[1]
            s.sendall(b"all")


def run(host, port, turns):
    with socket.create_connection((host, port)) as s:
        s.sendall(b"%8d" % turns)
        for _ in range(turns):
            s.sendall(b"x" * 100)
            assert take(s, 100) == b"x" * 100
        s.sendall(SAYS[0])
        # a child of fork(), not of vfork()
        subprocess.run(["cat"], input=SAYS[1], stdout=s.fileno(), check=True,
                       preexec_fn=lambda: None)
        s.sendall(SAYS[2])
        with socket.create_connection((host, port)) as aside:
            aside.sendall(b"sent")
        assert take(s, 3) == b"all"


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    else:
        run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
