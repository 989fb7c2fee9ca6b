# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""one_shared.py server PORT | client HOST PORT FILE...

The server sends back what comes, on one connection at a time; its second one is
a child's, too, as long as the server lives. The client
asks on one connection after the other, on each until there is such a file."""
import os
import socket
import sys
import time


def server(port):
    listener = socket.create_server(("", port))
    shared, here = os.pipe()
    count = 0
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        count += 1
        if count == 2 and not os.fork():
            os.close(here)
            listener.close()
            os.read(shared, 1)  # until the server is no more
            os._exit(0)
        while True:
            data = sock.recv(64)
            if not data:
                break
            sock.sendall(data)
        sock.close()


def client(host, port, file):
    with socket.create_connection((host, port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        count = 0
        while not os.path.exists(file):
            for _ in range(20):
                data = count.to_bytes(64, "big")
                count += 1
                sock.sendall(data)
                got = b""
                while len(got) < len(data):
                    part = sock.recv(64)
                    assert part
                    got += part
                assert got == data
            time.sleep(0.05)


if sys.argv[1] == "server":
    server(int(sys.argv[2]))
else:
    for name in sys.argv[4:]:
        client(sys.argv[2], int(sys.argv[3]), name)
