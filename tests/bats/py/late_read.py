# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""late_read.py server PORT COUNT FILE | client HOST PORT COUNT FILE

The client sends COUNT bytes, closes, says so by FILE.closed, and ends when FILE
is there. The server reads nothing before its FILE is there, and then has to get
every byte and the end."""
import os
import socket
import sys
import time


def pattern(count):
    return bytes((i * 7) % 251 for i in range(count))


def wait():
    while not os.path.exists(sys.argv[-1]):
        time.sleep(0.01)


if sys.argv[1] == "server":
    listener = socket.create_server(("", int(sys.argv[2])))
    sock, _ = listener.accept()
    wait()
    data = b""
    while True:
        part = sock.recv(4096)
        if not part:
            break
        data += part
    assert data == pattern(int(sys.argv[3])), len(data)
else:
    sock = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    sock.sendall(pattern(int(sys.argv[4])))
    sock.close()
    open(sys.argv[-1] + ".closed", "w").close()
    wait()
