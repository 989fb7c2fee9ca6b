# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""killed_in.py HOW: a child is killed asleep in a receive of a socket that it has
from its parent, when the two ends have met and only the parent's direction goes
over SDP; the peer is another process.

  home    the parent goes on with it, and then wants it home
  exec    it goes on, and executes a program that has it
  close   the parent closes it under a receive of its own: its peer sees the end
"""
import os
import select
import signal
import socket
import subprocess
import sys
import threading

TURNS = 200


def take(sock, count):
    data = sock.recv(count, socket.MSG_WAITALL)
    assert len(data) == count, data


def peer(name, seen, go):
    sock = socket.create_connection(name)
    for _ in range(30):
        take(sock, 1)
        os.write(seen, b"x")
    os.read(go, 1)
    if sys.argv[1] == "close":
        sock.sendall(b"z")
        end = select.poll()
        end.register(sock, select.POLLIN)
        assert end.poll(20000)
        assert sock.recv(10) == b""
        return
    for _ in range(TURNS + 1):
        sock.sendall(b"0123456789")
        take(sock, 1)
    assert sock.recv(1) == b""


def asleep(pid):
    with open("/proc/%d/syscall" % pid, encoding="ascii") as f:
        return f.read().split()[0] not in ("running", "-1")


def kill_child(sock):
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        os.write(told, b"x")
        sock.recv(1)
        os._exit(1)
    os.read(ready, 1)
    while not asleep(child):
        pass
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def goes_on(sock):
    for _ in range(TURNS):
        take(sock, 10)
        sock.sendall(b"k")
    if sys.argv[1] == "home":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 4)
        take(sock, 10)
        sock.sendall(b"k")
    else:
        subprocess.run(["sh", "-c", "head -c 10 >/dev/null; printf k"],
                       check=True, stdin=sock, stdout=sock)
    sock.close()


def main():
    signal.alarm(60)  # what hangs has failed
    wait, go = os.pipe()
    seen, told = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = os.fork()
        if not other:
            signal.alarm(60)
            peer(listener.getsockname(), told, wait)
            os._exit(0)
        sock, _ = listener.accept()
    for _ in range(30):
        sock.sendall(b"H")
        os.read(seen, 1)
    if sys.argv[1] != "close":
        kill_child(sock)
        os.write(go, b"x")
        goes_on(sock)
    else:
        thread = threading.Thread(target=sock.recv, args=(1,))
        thread.start()
        kill_child(sock)
        os.close(sock.detach())
        os.write(go, b"x")
        thread.join()
    assert os.waitpid(other, 0)[1] == 0


main()
