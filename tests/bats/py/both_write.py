# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""both_write.py server PORT BYTES | client PORT BYTES FILE

Both ends write BYTES before either reads any: what a fabric does not hold the
kernel has to. So often until FILE is there: the client's last byte says whether
it goes on. Every byte is checked."""
import os
import socket
import sys

role, port, size = sys.argv[1], *map(int, sys.argv[2:4])
if role == "server":
    sock, _ = socket.create_server(("", port)).accept()
else:
    sock = socket.create_connection(("10.99.0.2", port))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def block(i, last):
    data = bytes([i & 255]) * (size - 5)
    return data + i.to_bytes(4, "big") + last


def take():
    got = bytearray()
    while len(got) < size:
        part = sock.recv(size - len(got))
        assert part, "it ended"
        got += part
    return bytes(got)


i, last = 0, b"m"
while last == b"m":
    if role == "client" and os.path.exists(sys.argv[4]):
        last = b"e"
    sock.sendall(block(i, last))
    got = take()
    if role == "server":
        last = got[-1:]
    assert got == block(i, last if role == "server" else b"m")
    i += 1
if role == "client":
    assert sock.recv(1) == b""  # it has taken all
