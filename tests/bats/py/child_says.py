#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""child_says.py server PORT | client HOST PORT MESSAGES: once they have talked
that much the client runs a program that writes to the socket, as an inetd or a
CGI server does, and goes on. The socket's number is the lowest that the child
has free, so that something else has it before the program is executed."""
import os
import socket
import subprocess
import sys

SAYS = b"from a child" * 700


def take(s, n):
    got = b""
    while len(got) < n:
        b = s.recv(n - len(got))
        assert b, len(got)
        got += b
    return got


def talk(s, count):
    for _ in range(count):
        s.sendall(b"x" * 100)
        assert take(s, 100) == b"y" * 100


def serve(port):
    with socket.create_server(("", port)) as lis:
        s, _ = lis.accept()
    with s:
        s.settimeout(20)
        count = int(take(s, 8))
        for _ in range(2):
            for _ in range(count):
                assert take(s, 100) == b"x" * 100
                s.sendall(b"y" * 100)
            assert take(s, len(SAYS)) == SAYS
        s.sendall(b"all")


def run(host, port, count):
    s = socket.create_connection((host, port))
    if s.fileno() != 3:
        os.dup2(s.detach(), 3)
        s = socket.socket(fileno=3)
    with s:
        s.sendall(b"%8d" % count)
        for _ in range(2):
            talk(s, count)
            subprocess.run(["cat"], input=SAYS, stdout=s.fileno(), check=True)
        assert take(s, 3) == b"all"


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    else:
        run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
