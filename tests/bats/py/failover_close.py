# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""failover_close.py server PORT COUNT FILE | client HOST PORT COUNT FILE

A dialogue until there is FILE.lifted. Then the server tells its pid in
FILE.stop and stops itself, all threads of it. When there is FILE.down the
client sends COUNT bytes, when there is FILE.broke it closes and says so by
FILE.closed; most of them lie at its kernel then. It ends when there is FILE.
The server, once it goes on, reads nothing before there is FILE.late, and then
has to get every byte and the end."""
import os
import signal
import socket
import sys
import time

FILE = sys.argv[-1]
COUNT = int(sys.argv[-2])


def wait(name):
    while not os.path.exists(name):
        time.sleep(0.01)


def take(sock, count):
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        assert part
        data += part
    return data


def pattern(count):
    return bytes((i * 7) % 251 for i in range(count))


def server():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", int(sys.argv[2])))
    listener.listen()
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while take(sock, 100) != b"s" * 100:
        sock.sendall(b"b" * 100)
    with open(FILE + ".new", "w") as out:
        print(os.getpid(), file=out)
    os.rename(FILE + ".new", FILE + ".stop")
    os.kill(os.getpid(), signal.SIGSTOP)
    wait(FILE + ".late")
    assert take(sock, COUNT) == pattern(COUNT)
    assert sock.recv(1) == b""


def client():
    sock = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200000)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while not os.path.exists(FILE + ".lifted"):
        sock.sendall(b"a" * 100)
        assert take(sock, 100) == b"b" * 100
    sock.sendall(b"s" * 100)
    wait(FILE + ".down")
    sock.sendall(pattern(COUNT))
    wait(FILE + ".broke")
    sock.close()
    open(FILE + ".closed", "w").close()
    wait(FILE)


server() if sys.argv[1] == "server" else client()
