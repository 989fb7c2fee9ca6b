# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""turns.py PORT COUNT: both ends of a connection say a byte by turns."""
import socket
import sys

with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    one = socket.create_connection(listener.getsockname())
    two, _ = listener.accept()
with one, two:
    for _ in range(int(sys.argv[2])):
        for writer, reader in (one, two), (two, one):
            writer.sendall(b"x")
            assert reader.recv(1) == b"x"
