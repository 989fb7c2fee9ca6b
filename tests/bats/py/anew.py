# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""anew.py HOST PORT DIRECTORY

Asks a server of many_echo.py on one connection until DIRECTORY/first is there;
then, when DIRECTORY/second is, and two seconds later, on another one until
DIRECTORY/enough is."""
import hashlib
import os
import socket
import sys
import time

host, port, room = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def here(name):
    return os.path.exists(os.path.join(room, name))


def ask_until(name):
    with socket.create_connection((host, port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not here(name):
            for _ in range(20):
                sock.sendall(b"\0\0\0\4\0\0\0\x20data")
                got = b""
                while len(got) < 32:
                    part = sock.recv(32 - len(got))
                    assert part
                    got += part
                assert got == hashlib.sha256(b"data").digest()
            time.sleep(0.05)


ask_until("first")
while not here("second"):
    time.sleep(0.05)
time.sleep(2)
ask_until("enough")
