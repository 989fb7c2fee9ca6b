# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs for reload.bats.

serve PORT [CHILDREN]: sends back what comes, a thread a connection; accepting
  is done by that many children, if any.
talk PORT: one connection on which random bytes go both ways until the end of
  standard input; then their number.
SDP_HOST is the server's address.
"""
import os
import random
import socket
import sys
import threading

HOST = os.environ.get("SDP_HOST", "127.0.0.1")


def echo(c):
    while data := c.recv(65536):
        c.sendall(data)
    c.close()


def accept(listener):
    while True:
        c, _ = listener.accept()
        threading.Thread(target=echo, args=(c,), daemon=True).start()


def serve(port, children=0):
    listener = socket.create_server((HOST, port))
    os.chdir("/")
    for _ in range(children):
        if not os.fork():
            accept(listener)
    if children:
        os.wait()
    accept(listener)


def talk(port):
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()),
                     daemon=True).start()
    dice = random.Random(port)
    moved = 0
    with socket.create_connection((HOST, port)) as c:
        c.settimeout(60)
        while not over.is_set():
            want = dice.randbytes(dice.choice((1, 100, 5000, 100000)))
            c.sendall(want)
            got = bytearray()
            while len(got) < len(want):
                got += c.recv(65536) or sys.exit("it is closed")
            if got != want:
                sys.exit(f"other bytes behind {moved}")
            moved += len(want)
            over.wait(0.002)
    print("ok", moved)


{"serve": serve, "talk": talk}[sys.argv[1]](*map(int, sys.argv[2:]))
