# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""short_lives.py HOST PORT SECONDS FILE

One connection after the other to many_echo.py, each for so long at least, until
there is FILE."""
import os
import socket
import sys
import time


def take(sock, count):
    while count:
        part = sock.recv(count)
        assert part
        count -= len(part)


def main(host, port, seconds, file):
    while not os.path.exists(file):
        with socket.create_connection((host, port)) as sock:
            end = time.monotonic() + seconds
            asked = 0
            while asked < 200 or time.monotonic() < end:
                sock.sendall((4).to_bytes(4, "big") * 2 + b"libs")
                take(sock, 4)
                asked += 1
                if asked >= 200:
                    time.sleep(0.01)


main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
