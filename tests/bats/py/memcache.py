# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Sets and gets values on four connections of a memcached, and compares."""
import hashlib
import os
import socket
import sys
import threading

HOST = os.environ.get("SDP_HOST", "127.0.0.1")
PORT = int(sys.argv[1])


def value(key, size):
    block = hashlib.sha256(key.encode()).digest()
    return (block * (size // 32 + 1))[:size]


def client(who, failures):
    try:
        sock = socket.create_connection((HOST, PORT))
        file = sock.makefile("rb")
        for i in range(300):
            key, size = f"k{who}-{i}", 1 + i * 37 % 5000
            if i % 100 == 50:
                size = 900000
            data = value(key, size)
            sock.sendall(f"set {key} 0 0 {size}\r\n".encode() + data + b"\r\n")
            assert file.readline() == b"STORED\r\n"
            sock.sendall(f"get {key}\r\n".encode())
            assert file.readline() == f"VALUE {key} 0 {size}\r\n".encode()
            assert file.read(size) == data
            assert file.readline() == b"\r\n"
            assert file.readline() == b"END\r\n"
        keys = " ".join(f"k{who}-{i}" for i in range(100, 140))
        sock.sendall(f"get {keys}\r\n".encode())
        seen = 0
        while (line := file.readline()) != b"END\r\n":
            _, key, _, size = line.decode().split()
            assert file.read(int(size)) == value(key, int(size))
            assert file.readline() == b"\r\n"
            seen += 1
        assert seen == 40
        sock.sendall(b"quit\r\n")
        assert file.read() == b""
    except BaseException as error:  # told at the end, by the main thread
        failures.append(repr(error))


def main():
    failures = []
    crew = [threading.Thread(target=client, args=(i, failures))
            for i in range(4)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    print(failures if failures else "all right")


main()
