# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Both ends. One takes hundreds of turns with what lies in the kernel, as one
of two netcats does that share a processor, before the other has read a byte:
neither gives up, and the dialogue that follows is lifted."""
import socket

TURNS, DIALOGUE = 180, 3000


def fill(sock):
    """As much as the kernel takes."""
    sock.setblocking(False)
    sent = 0
    try:
        while True:
            sent += sock.send(bytes(1 << 16))
    except BlockingIOError:
        sock.setblocking(True)
    return sent


def take(sock, count):
    while count:
        count -= len(sock.recv(min(count, 1 << 16)))


def run(turned):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        two, _ = listener.accept()
    if turned:
        one, two = two, one
    with one, two:
        lying = fill(two)
        piece = lying // TURNS
        assert piece > 8300, lying
        for _ in range(TURNS):
            take(one, piece)
            one.sendall(b"x" * 100)
        take(one, lying - TURNS * piece)
        take(two, TURNS * 100)
        for _ in range(DIALOGUE):
            one.sendall(b"x" * 100)
            take(two, 100)
            two.sendall(b"x" * 100)
            take(one, 100)


run(False)
run(True)
