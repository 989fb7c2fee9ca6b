# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""stranger.py HOST PORT LOCAL-PORT COUNT

Requests to the pretended RDMA port (tests/fake) that stands for PORT, by
a process that has no connection, or does not know what went through one: rubbish,
a Hello for a connection that no process has, and one for that from LOCAL-PORT with a
guessed check. Each must be refused (REJ)."""
import os
import socket
import struct
import sys

host, port, local, count = sys.argv[1], *map(int, sys.argv[2:])
REQ, REJ = 1, 3


def hello(from_port, window):
    bsdh = struct.pack(">BBHIII", 0, 0, 4, 56, 0, 0)
    rest = struct.pack(">BBBBIIHH", 0x22, 0x40, 0, 1, 8208, 8208, from_port, 0)
    ext = struct.pack(">IBBHHHQI", 0x75534450, 2, 0x18, 1, port, window,
                      7, 0x12345678)
    return bsdh + rest + ext


def ask(data):
    with socket.create_connection((host, port ^ 0x4000), 60) as sock:
        sock.sendall(struct.pack("=II", REQ, 56) + data)
        got = b""
        while len(got) < 8:
            part = sock.recv(8 - len(got))
            assert part, "not answered"
            got += part
        assert struct.unpack("=II", got)[0] == REJ, got


for i in range(count):
    ask(os.urandom(56))
    ask(hello(1, i & 0x1fff))
    ask(hello(local, os.urandom(2)[0] << 8 | i & 0xff))
