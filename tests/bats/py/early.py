#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""early.py: an urgent byte before the other end was met. The end that offers to meet
gives up the descriptor it holds for that: it stays on TCP. Prints how many it
held before and behind the urgent byte, beside the socket itself."""

import os
import socket


def numbers():
    return len(os.listdir("/proc/self/fd"))


def offering():
    """A connection whose higher end is ours; the other is not accepted."""
    while True:
        listener = socket.create_server(("127.0.0.1", 0))
        bare = numbers() + 1
        sock = socket.create_connection(listener.getsockname())
        if sock.getsockname()[1] > sock.getpeername()[1]:
            return listener, sock, bare
        sock.close()
        listener.close()


listener, sock, bare = offering()
sock.send(b"x" * 10)
held = numbers()
sock.send(b"!", socket.MSG_OOB)
left = numbers()
peer, _ = listener.accept()
sock.send(b"y" * 10)
peer.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
got = b""
while len(got) < 21:
    got += peer.recv(100)
assert got == b"x" * 10 + b"!" + b"y" * 10, got
print(held - bare, left - bare)
