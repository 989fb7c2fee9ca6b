# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""early_fork.py: a daemon, which forks before it has a socket and again while it
has a connection. What goes on with that does not wait for the process that has
ended, though the first one lives on."""
import os
import signal
import socket
import time


def echo(listener):
    with listener.accept()[0] as s:
        while data := s.recv(100):
            s.sendall(data)


def turns(s, n):
    for i in range(n):
        data = b"%d" % i
        s.sendall(data)
        assert s.recv(100) == data


def child(work):
    if os.fork() == 0:
        work()
        os._exit(0)


def goes_on(s, ended, says):
    os.read(ended, 1)
    begun = time.monotonic()
    turns(s, 1)
    took = time.monotonic() - begun
    assert took < 1, took
    turns(s, 1000)
    s.close()
    os.write(says, b"done")


def daemon(says):
    listener = socket.create_server(("127.0.0.1", 0))
    child(lambda: echo(listener))
    s = socket.create_connection(listener.getsockname())
    listener.close()
    turns(s, 1000)
    ended, keep = os.pipe()
    child(lambda: (os.close(keep), goes_on(s, ended, says)))
    os._exit(0)  # with the connection open


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    over, says = os.pipe()
    child(lambda: daemon(says))
    os.close(says)
    print(os.read(over, 100).decode())


main()
