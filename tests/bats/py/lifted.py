# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A lifted pair in one process: says its ports, and goes on at each line."""
import socket
import sys

PORT = int(sys.argv[1])

with socket.create_server(("127.0.0.1", PORT)) as lst:
    with socket.create_connection(("127.0.0.1", PORT)) as c:
        with lst.accept()[0] as a:
            for _ in range(200):
                c.sendall(b"x" * 100)
                got = 0
                while got < 100:
                    got += len(a.recv(100 - got))
                a.sendall(b"y")
                c.recv(1)
            print("ready", c.getsockname()[1], flush=True)
            for _ in sys.stdin:
                c.sendall(b"x" * 100000)
                got = 0
                while got < 100000:
                    got += len(a.recv(100000))
