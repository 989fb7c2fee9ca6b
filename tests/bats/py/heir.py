# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""heir.py close|exit|raw: a process goes on with a connection that another process
had first. That one closes it, or ends; `raw`: one that is not lifted yet. The
listener goes the same way.

Prints the heir's process id. The heir takes a turn for each line of input.
"""
import os
import socket
import sys


def echo(name):
    with socket.create_connection(name) as s:
        while data := s.recv(4096):
            s.sendall(data)


def turns(s, n):
    for i in range(n):
        data = b"%d" % i
        s.sendall(data)
        assert s.recv(100) == data


def main():
    how = sys.argv[1]
    listener = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        name = listener.getsockname()
        listener.close()
        echo(name)
        os._exit(0)
    s = listener.accept()[0]
    turns(s, 1 if how == "raw" else 50)
    heir = os.fork()
    if heir:
        if how != "exit":
            s.close()
            listener.close()
            os.waitpid(heir, 0)
        os._exit(0)
    listener.setblocking(False)
    print(os.getpid(), flush=True)
    while os.read(0, 1):
        turns(s, 1)
        try:
            listener.accept()
        except BlockingIOError:
            pass
    os._exit(0)


main()
