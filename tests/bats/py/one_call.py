#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""one_call.py server HOW FILE: a whole file to the first client, by one call:
HOW is `send` or `sendfile`. Says its port, and how much the call took.
one_call.py client PORT: takes it and writes it to standard output."""

import os
import socket
import sys

PIECE = 262144


def server(how, path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        conn, _ = listener.accept()
    with conn, open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if how == "send":
            done = conn.send(file.read())
        else:
            done = os.sendfile(conn.fileno(), file.fileno(), None, size)
            assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == done
        assert done == size, done
        conn.shutdown(socket.SHUT_WR)
        assert conn.recv(1) == b""


def client(port):
    with socket.create_connection(("127.0.0.1", int(port))) as conn:
        while piece := conn.recv(PIECE):
            sys.stdout.buffer.write(piece)


if sys.argv[1] == "server":
    server(*sys.argv[2:])
else:
    client(*sys.argv[2:])
