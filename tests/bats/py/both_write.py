# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""both_write.py server|client PORT ROUNDS BYTES

Both ends write BYTES before either reads any: what a fabric does not hold the
kernel has to. Every byte is checked."""
import socket
import sys

role, port, rounds, size = sys.argv[1], *map(int, sys.argv[2:])
if role == "server":
    sock, _ = socket.create_server(("", port)).accept()
else:
    sock = socket.create_connection(("10.99.0.2", port))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for i in range(rounds):
    data = bytes([i & 255]) * 1000
    data = (data * (size // 1000 + 1))[:size - 4] + i.to_bytes(4, "big")
    sock.sendall(data)
    got = b""
    while len(got) < size:
        part = sock.recv(size - len(got))
        assert part, "it ended"
        got += part
    assert got == data
