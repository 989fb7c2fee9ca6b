# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Both ends, with SO_OOBINLINE, as Qt has it on every socket: that alone keeps
nothing on TCP. An urgent byte comes in its place, lifted or not, and its mark
ends a read."""
import array
import fcntl
import socket

TURNS = 400
SIOCATMARK = 0x8905


def at_mark(sock):
    mark = array.array("i", [0])
    fcntl.ioctl(sock.fileno(), SIOCATMARK, mark)
    return mark[0]


def take(sock, count):
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        assert part
        data += part
    return data


def talk(one, two):
    for i in range(TURNS):
        for writer, reader in (one, two), (two, one):
            data = i.to_bytes(4, "big") * 30
            writer.sendall(data)
            assert take(reader, len(data)) == data


def urgent(writer, reader):
    writer.sendall(b"x" * 50)
    assert writer.send(b"!", socket.MSG_OOB) == 1
    writer.sendall(b"y" * 30)
    assert not at_mark(reader)
    assert reader.recv(100, socket.MSG_WAITALL) == b"x" * 50
    assert at_mark(reader)
    assert take(reader, 31) == b"!" + b"y" * 30
    assert not at_mark(reader)


def run(early, late):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        two, _ = listener.accept()
    for sock in one, two:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    with one, two:
        if early:
            urgent(one, two)
        talk(one, two)
        if late:
            urgent(two, one)
            urgent(one, two)
            talk(one, two)
        one.shutdown(socket.SHUT_WR)
        assert two.recv(1) == b""


run(False, False)
run(False, True)
run(True, False)
run(True, True)
