# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""vanish.py server PORT | client HOST PORT HOW KEEPS FILE

A dialogue until there is FILE; then both are silent. The client, which with
KEEPS (idle,interval,count) has keep-alive of its own, makes FILE.quiet and
waits for more, and says how that ended and what it reads then. With `set` as
HOW it sets keep-alive meanwhile, and goes on until there is FILE.home; it has
set a time for what it sends, which is not for the library's probes. With `told`
the kernel has said of a send without a copy that it is done, which is not read,
and it goes on as well."""
import ctypes
import errno
import os
import select
import socket
import sys

KEEP = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
SO_ZEROCOPY, MSG_ZEROCOPY = 60, 0x4000000
USER = socket.TCP_USER_TIMEOUT
# what is loaded in front of it is not asked
KERNEL = ctypes.CDLL("libc.so.6")


def settings(sock):
    return [sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            *(sock.getsockopt(socket.IPPROTO_TCP, opt)
              for opt in (*KEEP, USER))]


def kernels(sock, opt):
    value = ctypes.c_int()
    size = ctypes.c_uint(4)
    assert KERNEL.getsockopt(sock.fileno(), socket.IPPROTO_TCP, opt,
                             ctypes.byref(value), ctypes.byref(size)) == 0
    return value.value


def server(port):
    sock, _ = socket.create_server(("", port)).accept()
    while data := sock.recv(1000):
        sock.sendall(data)


def ask(sock, until):
    was = settings(sock)
    while not os.path.exists(until):
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"
        assert settings(sock) == was


def change(sock, file):
    for i, (level, opt, value) in enumerate((
            (socket.IPPROTO_TCP, KEEP[0], 1000),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, KEEP[1], 33),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0),
            (socket.IPPROTO_TCP, KEEP[2], 5))):
        sock.setsockopt(level, opt, value)
        assert sock.getsockopt(level, opt) == value
        try:
            sock.setsockopt(socket.IPPROTO_TCP, KEEP[i % 3], 0)
            assert False
        except OSError as e:
            assert e.errno == errno.EINVAL
        ask(sock, f"{file}.{i}")
        if i == 0:
            assert kernels(sock, USER) == 0
        if i == 1:
            assert kernels(sock, USER) == 30000
    assert settings(sock) == [0, 1000, 33, 5, 30000]
    ask(sock, file + ".home")
    assert settings(sock) == [0, 1000, 33, 5, 30000]
    assert kernels(sock, USER) == 30000


def wait(sock, how):
    if how == "poll":
        waits = select.poll()
        waits.register(sock, select.POLLIN)
        waits.poll()
    elif how in ("level", "edge"):
        waits = select.epoll()
        waits.register(sock, select.EPOLLIN |
                       (select.EPOLLET if how == "edge" else 0))
        while not waits.poll()[0][1] & (select.EPOLLIN | select.EPOLLERR):
            pass


def read(sock):
    try:
        return repr(sock.recv(1000))
    except OSError as e:
        return errno.errorcode[e.errno]


def client(host, port, how, keeps, file):
    sock = socket.create_connection((host, port))
    if keeps != "none":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for opt, value in zip(KEEP, keeps.split(",")):
            sock.setsockopt(socket.IPPROTO_TCP, opt, int(value))
    if how == "set":
        sock.setsockopt(socket.IPPROTO_TCP, USER, 30000)
    if how == "told":
        sock.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
        sock.send(b"x", MSG_ZEROCOPY)
        assert sock.recv(1) == b"x"
    ask(sock, file)
    if how == "told":
        ask(sock, file + ".home")
        return
    if how == "set":
        change(sock, file)
        return
    with open(file + ".quiet", "w"):
        pass
    wait(sock, how)
    print(read(sock), read(sock), flush=True)


if sys.argv[1] == "server":
    server(int(sys.argv[2]))
else:
    client(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
