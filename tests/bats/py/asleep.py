# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""asleep.py server PORT FILE | client HOST PORT FILE

An echo whose server always sleeps in poll(), and nearly always in recv(), and
forks when FILE.waits is there: the child removes FILE and ends. The client goes
on until FILE is there again."""
import os
import select
import socket
import sys
import threading
import time

SIZE = 8000


def take(sock):
    data = b""
    while len(data) < SIZE:
        part = sock.recv(SIZE - len(data))
        if not part:
            break
        data += part
    return data


def echoes(sock):
    while data := take(sock):
        sock.sendall(data)


def sleeps(sock):
    poll = select.poll()
    poll.register(sock, select.POLLPRI)
    poll.poll()  # no urgent byte comes


def serve(port, file):
    sock, _ = socket.create_server(("", port)).accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    echo = threading.Thread(target=echoes, args=(sock,))
    echo.start()
    threading.Thread(target=sleeps, args=(sock,), daemon=True).start()
    while not os.path.exists(file + ".waits"):
        time.sleep(0.02)
    child = os.fork()
    if not child:
        os.unlink(file)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    echo.join()
    sock.close()


def ask(host, port, file):
    sock = socket.create_connection((host, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while os.path.exists(file):
        turn(sock)
    while not os.path.exists(file):
        turn(sock)
    sock.close()


def turn(sock):
    data = os.urandom(SIZE)
    sock.sendall(data)
    assert take(sock) == data
    time.sleep(0.02)


if sys.argv[1] == "server":
    serve(int(sys.argv[2]), sys.argv[3])
else:
    ask(sys.argv[2], int(sys.argv[3]), sys.argv[4])
