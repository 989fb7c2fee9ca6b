# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Half-closed before anything is lifted: nothing more is sent, all comes."""
import socket
import threading

SIZE = 64 << 20


def serve(listener):
    end, _ = listener.accept()
    with end:
        assert end.recv(100) == b"please"
        assert end.recv(100) == b""
        for _ in range(SIZE >> 16):
            end.sendall(b"x" * (1 << 16))
        assert end.recv(100) == b""


with socket.create_server(("127.0.0.1", 0)) as listener:
    server = threading.Thread(target=serve, args=(listener,))
    server.start()
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(b"please")
        client.shutdown(socket.SHUT_WR)
        taken = 0
        while taken < SIZE:
            taken += len(client.recv(1 << 16))
            try:
                client.send(b"more")
            except BrokenPipeError:
                continue
            raise AssertionError("sent after shutdown(SHUT_WR)")
        assert client.recv(1) == b""
    server.join()
