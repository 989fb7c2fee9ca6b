# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Both ends; readers with their first turn after thousands of small writes."""
import socket

FIRST, NEXT, BURSTS = 7000, 300, 64
SMALL = b"x" * 16


def stream(writer, reader):
    sent = taken = 0
    for burst in range(BURSTS):
        for _ in range(NEXT if burst else FIRST):
            writer.sendall(SMALL)
            sent += len(SMALL)
        while taken < sent:
            taken += len(reader.recv(4096))
    writer.close()
    assert reader.recv(1) == b""
    reader.close()


with socket.create_server(("127.0.0.1", 0)) as listener:
    for turned in False, True:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        stream(*((server, client) if turned else (client, server)))
