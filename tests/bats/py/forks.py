# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""forks.py HOW: a server that forks while it talks; its client is a child.

  first   a child executes another program, at once, and lives on
  execs   40 children do so, later, and live on
  fails   a child executes what is not there, and talks for its parent
  ends    40 children end without a word
"""
import os
import socket
import sys


def client(name):
    with socket.create_connection(name) as s:
        while data := s.recv(4096):
            s.sendall(data)


def turns(s, n):
    for i in range(n):
        data = b"%d" % i
        s.sendall(data)
        assert s.recv(100) == data


def child(work):
    begun, told = os.pipe()  # closed by an exec, and by an end
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    os.close(told)
    if work is lives:
        os.read(begun, 1)
    os.close(begun)
    return pid


def lives():
    os.execvp("cat", ["cat"])


def fails(s):
    try:
        os.execv("/nonexistent", ["none"])
    except FileNotFoundError:
        turns(s, 500)


def main():
    how = sys.argv[1]
    # what the children that live on wait for
    end, keep = os.pipe()
    os.dup2(end, 0)
    listener = socket.create_server(("127.0.0.1", 0))
    name = listener.getsockname()
    pids = []
    if os.fork() == 0:
        os.close(keep)
        listener.close()
        client(name)
        return
    s, _ = listener.accept()
    if how == "first":
        pids.append(child(lives))
    turns(s, 500)
    for _ in range(40):
        if how == "execs":
            pids.append(child(lives))
        elif how == "ends":
            os.waitpid(child(lambda: None), 0)
        turns(s, 3)
    if how == "fails":
        os.waitpid(child(lambda: fails(s)), 0)
    turns(s, 5000)
    s.close()
    os.close(keep)
    os.close(0)
    os.close(end)
    os.wait()
    for pid in pids:
        if pid:
            os.waitpid(-1, 0)
    print("done")


main()
