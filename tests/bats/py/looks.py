# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""looks.py server PORT WORD FILE | client HOST PORT WORD
WORD take: the client looks at what there is and takes that, all along.
WORD count: the client asks how many bytes are there; grow: it looks (MSG_PEEK)
until all are there; all: it looks for all at once (MSG_WAITALL). The server has
sent, until FILE is there and a little more, what is not read.
WORD end: it has sent something and ended; the client waits for that alone, and
has read nothing. Between them until FILE is there: a dialogue.
WORD late: half of what the client looks for comes later. FILE is not used."""

import array
import fcntl
import os
import select
import socket
import struct
import sys
import termios
import time

PIECE = bytes(range(256)) * 4
PATIENCE = 60


def take(sock, count):
    got = b""
    while len(got) < count:
        part = sock.recv(count - len(got))
        assert part
        got += part
    return got


def unread(sock):
    count = array.array("i", [0])
    fcntl.ioctl(sock, termios.FIONREAD, count)
    return count[0]


def until(what):
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.002)


def taken(sock, count):
    """Each byte is looked at, and then taken."""
    got = b""
    while len(got) < count:
        seen = sock.recv(8000, socket.MSG_PEEK)
        assert seen and take(sock, len(seen)) == seen
        got += seen
    return got


def look(sock, word, count):
    """All that was sent, by a look that takes nothing."""
    if word == "count":
        until(lambda: unread(sock) == count)
    if word == "grow":
        until(lambda: len(sock.recv(count, socket.MSG_PEEK)) == count)
    if word == "end":
        poll = select.poll()
        poll.register(sock, select.POLLRDHUP)
        assert poll.poll(PATIENCE * 1000) == [(sock.fileno(),
                                               select.POLLRDHUP)]
    if word in ("all", "late"):
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO,
                        struct.pack("ll", PATIENCE, 0))
        flags = socket.MSG_PEEK | socket.MSG_WAITALL
        assert len(sock.recv(count, flags)) == count


def talk(sock, stop):
    """200 bytes each way, until `stop`; the last byte says which it was."""
    while True:
        last = os.path.exists(stop)
        sock.sendall(b"\0" * 199 + bytes([last]))
        take(sock, 200)
        if last:
            return


def server(port, word, file):
    with socket.create_server(("", port)) as listener:
        sock = listener.accept()[0]
    # what a lift has to show
    sock.sendall(PIECE)
    take(sock, 1024)
    if word == "end":
        talk(sock, file)
    if word == "late":
        sock.sendall(struct.pack("!I", 2000) + b"\1" * 1000)
        assert sock.recv(1) == b"h"
        time.sleep(0.3)  # it looks by now, or there is nothing to see
        sock.sendall(b"\2" * 1000)
        return take(sock, 1)
    sent = 0
    while word != "end" and not os.path.exists(file):
        sent += sock.send(b"\1")  # so few that what was shown is known
        time.sleep(0.01)
    # of a lift that is under way this is known behind the next byte
    behind = 100000 if word == "take" else 5000
    sock.sendall(b"\2" * behind)
    sent += behind
    with open(file + ".sent.new", "w") as note:
        note.write(str(sent))
    os.rename(file + ".sent.new", file + ".sent")
    if word == "end":
        sock.shutdown(socket.SHUT_WR)
    return take(sock, 1)


def client(host, port, word, file):
    sock = socket.create_connection((host, port))
    take(sock, 1024)
    sock.sendall(PIECE)
    asked = b"\0"
    while word == "end" and not asked[-1]:
        asked = take(sock, 200)
        sock.sendall(asked)
    if word == "late":
        count = struct.unpack("!I", take(sock, 4))[0]
        sock.sendall(b"h")
    else:
        until(lambda: os.path.exists(file + ".sent"))
        with open(file + ".sent") as note:
            count = int(note.read())
    look(sock, word, count)
    got = taken(sock, count) if word == "take" else take(sock, count)
    assert got.count(b"\2") in (1000, 5000, 100000)
    sock.sendall(b"e")
    assert sock.recv(1) == b""


if sys.argv[1] == "server":
    server(int(sys.argv[2]), sys.argv[3], sys.argv[4])
else:
    client(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
