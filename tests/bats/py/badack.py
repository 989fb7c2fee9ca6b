# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""badack.py PORT

Sits on the pretended RDMA port (tests/fake) that stands for PORT and answers
every request by a HelloAck that is none. Says of each whether an RTU came."""
import socket
import struct
import sys

REQ, REP, RTU = 1, 2, 4


def take(sock, count):
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            break
        data += part
    return data


listener = socket.create_server(("", int(sys.argv[1]) ^ 0x4000), backlog=64)
print("ready", flush=True)
while True:
    sock, _ = listener.accept()
    kind, size = struct.unpack("=II", take(sock, 8))
    assert (kind, size) == (REQ, 56)
    take(sock, size)
    sock.sendall(struct.pack("=II", REP, 196) + bytes([1]) * 196)
    print("refused" if not take(sock, 8) else "accepted", flush=True)
    sock.close()
