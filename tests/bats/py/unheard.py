# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A listener closed while a thread sleeps in accept() hears one more."""
import os
import socket
import threading

TURNS, SIZE = 64, 1 << 16


def serve(listener):
    end, _ = listener.accept()
    with end:
        for _ in range(TURNS):
            end.sendall(b"x" * SIZE)
            assert end.recv(1) == b"."


def wait_for_accept(thread, fd):
    """Until the kernel has the thread in a call on that descriptor."""
    path = f"/proc/self/task/{thread.native_id}/syscall"
    while True:
        with open(path) as f:
            words = f.read().split()
        if len(words) > 1 and int(words[1], 16) == fd:
            return


listener = socket.create_server(("127.0.0.1", 0))
name = listener.getsockname()
server = threading.Thread(target=serve, args=(listener,))
server.start()
wait_for_accept(server, listener.fileno())
os.close(listener.detach())
with socket.create_connection(name) as client:
    for _ in range(TURNS):
        assert len(client.recv(SIZE, socket.MSG_WAITALL)) == SIZE
        client.sendall(b".")
server.join()
