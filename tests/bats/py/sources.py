# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""sources.py server PORT | client HOST PORT FILE HOW

Turns until FILE is there, so that the stream is lifted; then large sends to a
reader that comes late, and meanwhile: late (nothing more), fork, timeo (the
send has a limit of time), alarm (signals come), half (another thread shuts the
direction down). After each send its buffer is wiped. The server says how many bytes came, and their
digest; that has to be what the sends said that they took."""
import hashlib
import os
import random
import signal
import socket
import struct
import sys
import threading
import time

SIZE = 600000


def take(sock, count):
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        n = sock.recv_into(view[at:])
        if not n:
            break
        at += n
    return bytes(view[:at])


def serve(port):
    listener = socket.create_server(("", port))
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        head = take(sock, 8)
        if len(head) < 8:
            break
        size, wait = struct.unpack(">II", head)
        time.sleep(wait / 1000)
        data = take(sock, size)
        sock.sendall(struct.pack(">I", len(data)) +
                     hashlib.sha256(data).digest())
    sock.close()


def answer(sock, sent):
    said = take(sock, 36)
    count = struct.unpack(">I", said[:4])[0]
    if count != len(sent) or said[4:] != hashlib.sha256(sent).digest():
        sys.exit("%d bytes came of %d" % (count, len(sent)))


def ask(sock, data, wait):
    sock.sendall(struct.pack(">II", len(data), wait) + data)
    answer(sock, data)


def fork():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def lend(sock, how, dice):
    """what the sends said that they took"""
    data, taken = dice.randbytes(SIZE), b""
    sock.sendall(struct.pack(">II", SIZE, 300))
    meanwhile = {"fork": fork,
                 "half": lambda: sock.shutdown(socket.SHUT_WR)}.get(how)
    other = threading.Timer(0.1, meanwhile or (lambda: None))
    other.start()
    while len(taken) < SIZE:
        buf = bytearray(data[len(taken):])
        try:
            n = sock.send(buf)
        except BlockingIOError:
            n = 0
        except BrokenPipeError:
            break
        buf[:] = bytes(len(buf))
        taken += data[len(taken):len(taken) + n]
    other.join()
    return taken


def main():
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
        return
    host, port, path, how = sys.argv[2:6]
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    dice = random.Random(3)
    while not os.path.exists(path):
        for _ in range(100):
            ask(sock, dice.randbytes(dice.choice([1, 100, 3000])), 0)
    if how == "timeo":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                        struct.pack("ll", 0, 50000))
    if how == "alarm":
        signal.signal(signal.SIGALRM, lambda number, frame: None)
        signal.setitimer(signal.ITIMER_REAL, 0.07, 0.07)
    for _ in range(1 if how == "half" else 3):
        answer(sock, lend(sock, how, dice))
    signal.setitimer(signal.ITIMER_REAL, 0)
    sock.close()


main()
