# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""drop.py server PORT | client HOST PORT DIR

The client asks until DIR/drop is there; then it tells the server to give its
privileges up, in the middle of the connection. It goes on until DIR/second is, makes
a second connection, and goes on with both until DIR/enough is. Each byte is
checked."""
import hashlib
import os
import socket
import sys
import time


def take(sock, count):
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def there(name):
    return os.path.exists(os.path.join(sys.argv[-1], name))


def serve(port):
    listener = socket.create_server(("", port))
    socks = [listener.accept()[0]]
    try:
        while True:
            for sock in list(socks):
                data = take(sock, 100)
                sock.sendall(hashlib.sha512(data).digest())
            if data[:1] == b"D":
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            if data[:1] == b"S":
                socks.append(listener.accept()[0])
    except EOFError:
        pass


def ask(sock, count, kind=b"A"):
    for _ in range(count):
        data = kind + os.urandom(99)
        sock.sendall(data)
        assert take(sock, 64) == hashlib.sha512(data).digest()


def client(host, port):
    first = socket.create_connection((host, port))
    while not there("drop"):
        ask(first, 20)
        time.sleep(0.01)
    ask(first, 1, b"D")
    while not there("second"):
        ask(first, 20)
        time.sleep(0.01)
    ask(first, 1, b"S")
    second = socket.create_connection((host, port))
    while not there("enough"):
        for _ in range(20):
            ask(first, 1)
            ask(second, 1)
        time.sleep(0.01)


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    client(sys.argv[2], int(sys.argv[3]))
