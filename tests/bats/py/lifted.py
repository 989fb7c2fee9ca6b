# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A lifted pair in one process: says its ports, and goes on at each line, or
waits in vain for 0.1 s at a line "wait"."""
import socket
import struct
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
            a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO,
                         struct.pack("ll", 0, 100000))
            for line in sys.stdin:
                if line == "wait\n":
                    try:
                        a.recv(1)
                    except BlockingIOError:
                        continue
                c.sendall(b"x" * 100000)
                got = 0
                while got < 100000:
                    got += len(a.recv(100000))
