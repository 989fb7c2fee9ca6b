# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""sockets.py listen|connect PORT [WAY...]: the socket module's own ways, both ends.

sendfile(), makefile(), sendmsg(), recv_into(), time-outs, selectors, asyncio,
multiprocessing's descriptor passing, one connection each; or only those ways.
"""
import array
import asyncio
import hashlib
import os
import select
import selectors
import socket
import sys
import tempfile
import time

HOST = os.environ.get("SDP_HOST", "127.0.0.1")

ROLE, PORT = sys.argv[1], int(sys.argv[2])
SIZE = 3000000


def data(size):
    block = hashlib.sha256(str(size).encode()).digest()
    return (block * (size // 32 + 1))[:size]


def exactly(sock, size):
    buffer, view = bytearray(size), 0
    while view < size:
        got = sock.recv_into(memoryview(buffer)[view:])
        assert got > 0
        view += got
    return bytes(buffer)


def turns(sock, leader):
    for i in range(200):
        if leader:
            sock.sendall(data(i + 1))
        assert exactly(sock, i + 1) == data(i + 1)
        if not leader:
            sock.sendall(data(i + 1))


def by_file(sock, leader):
    if leader:
        with tempfile.TemporaryFile() as file:
            file.write(data(SIZE))
            file.seek(0)
            assert sock.sendfile(file) == SIZE
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""
    else:
        with sock.makefile("rb") as file:
            assert file.read() == data(SIZE)


def by_message(sock, leader):
    parts = [data(1000), data(20000), data(3)]
    whole = b"".join(parts)
    for _ in range(50):
        if leader:
            sent = sock.sendmsg(parts)
            sock.sendall(whole[sent:])
        assert exactly(sock, len(whole)) == whole
        if not leader:
            sock.sendall(whole)


def by_timeout(sock, leader):
    if leader:
        sock.settimeout(0.05)
        begin = time.monotonic()
        try:
            sock.recv(1)
            raise AssertionError("received from nobody")
        except TimeoutError:
            assert time.monotonic() - begin >= 0.045
        sock.settimeout(20)
        sock.sendall(b"go")
        assert exactly(sock, SIZE) == data(SIZE)
    else:
        assert exactly(sock, 2) == b"go"
        sock.sendall(data(SIZE))


def by_selector(sock, leader):
    sock.setblocking(False)
    kinds = [selectors.EpollSelector, selectors.PollSelector,
             selectors.SelectSelector]
    out, back = data(SIZE), bytearray()
    for kind in kinds:
        sent, back = 0, bytearray()
        with kind() as selector:
            selector.register(sock, selectors.EVENT_READ |
                              selectors.EVENT_WRITE)
            while sent < SIZE or len(back) < SIZE:
                for key, mask in selector.select(20):
                    if mask & selectors.EVENT_READ and len(back) < SIZE:
                        back += sock.recv(min(65536, SIZE - len(back)))
                    if mask & selectors.EVENT_WRITE and sent < SIZE:
                        sent += sock.send(out[sent:sent + 65536])
        assert bytes(back) == out
    sock.setblocking(True)


def by_edge(sock, leader):
    sock.setblocking(False)
    epoll = select.epoll()
    epoll.register(sock, select.EPOLLIN | select.EPOLLET)
    for i in range(100):
        if leader:
            sock.send(data(100))
        got = b""
        while len(got) < 100:
            assert epoll.poll(20)
            try:
                while len(got) < 100:
                    part = sock.recv(30)
                    assert part
                    got += part
            except BlockingIOError:
                pass
        assert got == data(100)
        if not leader:
            sock.send(data(100))
    epoll.close()
    sock.setblocking(True)


def by_passing(sock, leader):
    if leader:
        turns(sock, leader)
        return
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        sock.close()
        _, anc, _, _ = there.recvmsg(1, socket.CMSG_SPACE(4))
        fds = array.array("i")
        fds.frombytes(anc[0][2][:4])
        turns(socket.socket(fileno=fds[0]), leader)
        os._exit(0)
    socket.send_fds(here, [b"x"], [sock.fileno()])
    sock.close()
    assert os.waitpid(pid, 0)[1] == 0


def by_fork(sock, leader):
    pid = os.fork()
    if pid == 0:
        turns(sock, leader)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    turns(sock, leader)


def by_asyncio(sock, leader):
    async def talk():
        reader, writer = await asyncio.open_connection(sock=sock)
        for i in range(100):
            if leader:
                writer.write(data(i * 300 + 1))
                await writer.drain()
            got = await reader.readexactly(i * 300 + 1)
            assert got == data(i * 300 + 1)
            if not leader:
                writer.write(got)
                await writer.drain()
        writer.close()
        await writer.wait_closed()

    sock.setblocking(False)
    asyncio.run(talk())


def main():
    ways = [turns, by_file, by_message, by_timeout, by_selector, by_edge,
            by_passing, by_fork, by_asyncio]
    if sys.argv[3:]:
        ways = [globals()[name] for name in sys.argv[3:]]
    if ROLE == "listen":
        server = socket.create_server((HOST, PORT))
    for way in ways:
        if ROLE == "listen":
            sock, _ = server.accept()
        else:
            sock = socket.create_connection((HOST, PORT))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with sock:
            if way is not turns:
                turns(sock, ROLE == "connect")
            way(sock, ROLE == "connect")
        print("ok", way.__name__, flush=True)


main()
