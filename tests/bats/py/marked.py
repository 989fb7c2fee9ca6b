# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The urgent mark ends a receive with MSG_WAITALL, which sleeps for more of the
stream when the urgent byte comes: not lifted, and lifted; the byte in line, and
not."""
import array
import fcntl
import socket
import threading
import time

FIONREAD = 0x541B


def unread(sock):
    count = array.array("i", [0])
    fcntl.ioctl(sock.fileno(), FIONREAD, count)
    return count[0]


def talk(one, two):
    for i in range(400):
        for writer, reader in (one, two), (two, one):
            data = i.to_bytes(4, "big") * 30
            writer.sendall(data)
            assert reader.recv(len(data), socket.MSG_WAITALL) == data


def ended_at_mark(writer, reader, in_line):
    got = []
    waits = threading.Thread(
        target=lambda: got.append(reader.recv(100, socket.MSG_WAITALL)))
    waits.start()
    writer.sendall(b"x" * 50)
    while unread(reader):  # the receive has them
        time.sleep(0.001)
    time.sleep(0.1)  # and most likely sleeps
    writer.send(b"!", socket.MSG_OOB)
    writer.sendall(b"y" * 80)
    waits.join()
    assert got == [b"x" * 50], got
    if in_line:
        assert reader.recv(1) == b"!"
    assert reader.recv(80, socket.MSG_WAITALL) == b"y" * 80


def run(in_line, lifted):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        two, _ = listener.accept()
    for sock in one, two:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, in_line)
    with one, two:
        if lifted:
            talk(one, two)
        ended_at_mark(one, two, in_line)
        ended_at_mark(two, one, in_line)


for in_line in 0, 1:
    for lifted in 0, 1:
        run(in_line, lifted)
