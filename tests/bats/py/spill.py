# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""spill.py server PORT HOW | client HOST PORT ROUNDS

After a dialogue the client writes more than the way between takes while the
server looks away, so that it spills; then the server goes on by HOW: recv,
poll, select, level or edge (epoll). It has to come out of each wait, although
the client's last bytes come by another way than its first. Every byte is
checked, and each wait has a time limit."""
import select
import socket
import sys
import time

BIG = 12000000
PATIENCE = 20


def pattern(count, seed):
    line = bytes((i * 7 + seed) % 251 + 1 for i in range(4099))
    return (line * (count // len(line) + 1))[:count]


class Waiter:
    def __init__(self, sock, how):
        self.sock = sock
        self.how = how
        if how in ("level", "edge"):
            self.set = select.epoll()
            edge = select.EPOLLET if how == "edge" else 0
            self.set.register(sock, select.EPOLLIN | edge)
            self.drained = False

    def wait(self):
        if self.how == "recv":
            return
        if self.how == "poll":
            poller = select.poll()
            poller.register(self.sock, select.POLLIN)
            found = poller.poll(PATIENCE * 1000)
        elif self.how == "select":
            found = select.select([self.sock], [], [], PATIENCE)[0]
        elif self.how == "edge" and not self.drained:
            return
        else:
            found = self.set.poll(PATIENCE)
        if not found:
            raise TimeoutError("slept on")

    def take(self, count):
        data = bytearray()
        while len(data) < count:
            self.wait()
            try:
                part = self.sock.recv(count - len(data))
                self.drained = False
            except BlockingIOError:
                self.drained = True
                continue
            if not part:
                raise EOFError
            data += part
        return bytes(data)


def answer(sock):
    while True:
        try:
            assert sock.send(b"ok") == 2
            return
        except BlockingIOError:
            select.select([], [sock], [], PATIENCE)


def serve(port, how):
    listener = socket.create_server(("", port))
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if how == "recv":
        sock.settimeout(PATIENCE)
    else:
        sock.setblocking(False)
    waiter = Waiter(sock, how)
    try:
        while True:
            count = int.from_bytes(waiter.take(4), "big")
            if count == BIG:
                time.sleep(0.4)
            data = waiter.take(count)
            assert data == pattern(count, count % 250)
            answer(sock)
    except EOFError:
        sock.close()


def send(sock, count):
    sock.sendall(count.to_bytes(4, "big") + pattern(count, count % 250))
    assert sock.recv(2, socket.MSG_WAITALL) == b"ok"


if sys.argv[1] == "server":
    serve(int(sys.argv[2]), sys.argv[3])
else:
    peer = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.settimeout(2 * PATIENCE)
    for _ in range(int(sys.argv[4])):
        for size in range(100, 400):
            send(peer, size)
        send(peer, BIG)
        time.sleep(0.05)
        for size in range(100, 120):
            send(peer, size)
            time.sleep(0.002)
    peer.close()
