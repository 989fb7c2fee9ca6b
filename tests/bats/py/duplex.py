# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""duplex.py server HOST PORT | client HOST PORT MIB [ROUNDS | until FILE]

Turns first, so that a connection is lifted; then both ends send MIB MiB at
once and check each byte of what they get; so often as ROUNDS (1) says, or until
there is such a file, and turns again in between. A byte that is lost, repeated
or out of place shows, since the pattern's period is a prime near a mebibyte.
Prints "begun" with each round, and "ok" at the end."""
import itertools
import os
import random
import socket
import sys
import threading
import time

PERIOD = 1048573
CHUNK = 65536


def pattern(seed):
    block = random.Random(seed).randbytes(PERIOD)
    return memoryview(block + block[:CHUNK])


class Stream:
    """one direction: what comes at which offset"""

    def __init__(self, seed):
        self.bytes = pattern(seed)
        self.at = 0

    def next(self, most):
        start = self.at % PERIOD
        return self.bytes[start:start + min(most, CHUNK)]

    def check(self, data):
        for i in range(0, len(data), CHUNK):
            part = data[i:i + CHUNK]
            if self.next(len(part)) != part:
                sys.exit("wrong byte between %d and %d" %
                         (self.at, self.at + len(part)))
            self.at += len(part)


class End:
    def __init__(self, sock, server):
        self.sock, self.server = sock, server
        self.tx, self.rx = Stream(server), Stream(not server)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = bytearray(CHUNK)

    def send(self, count):
        while count:
            n = self.sock.send(self.tx.next(count))
            self.tx.at += n
            count -= n

    def take(self, count):
        while count:
            n = self.sock.recv_into(self.buf, min(count, CHUNK))
            if not n:
                sys.exit("end of the stream, %d bytes early" % count)
            self.rx.check(memoryview(self.buf)[:n])
            count -= n

    def turns(self, count):
        for i in range(count):
            size = (1, 37, 1000)[i % 3]
            if self.server:
                self.take(size)
                self.send(size)
            else:
                self.send(size)
                self.take(size)

    def both(self, count):
        sender = threading.Thread(target=self.send, args=(count,))
        sender.start()
        self.take(count)
        sender.join()

    def again(self, more):
        """the client says whether there is another round"""
        if self.server:
            return self.sock.recv(1) == b"m"
        self.sock.sendall(b"m" if more else b"e")
        return more

    def run(self, mib, more):
        self.turns(1000)
        for done in itertools.count():
            if not self.again(more(done)):
                break
            print("begun", flush=True)
            begin = time.monotonic()
            self.both(mib << 20)
            print("%d MiB each way in %.1f s" %
                  (mib, time.monotonic() - begin), flush=True)
            self.turns(100)
        self.sock.shutdown(socket.SHUT_WR)
        if self.sock.recv(1):
            sys.exit("bytes behind the end")
        print("ok", flush=True)


def main():
    host, port = sys.argv[2], int(sys.argv[3])
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if sys.argv[1] == "server":
        listener = socket.create_server((host, port), family=family)
        sock, _ = listener.accept()
        said = sock.recv(4, socket.MSG_WAITALL)
        End(sock, 1).run(int.from_bytes(said, "big"), lambda _: True)
    else:
        sock = socket.create_connection((host, port))
        mib = int(sys.argv[4])
        sock.sendall(mib.to_bytes(4, "big"))
        if "until" in sys.argv:
            End(sock, 0).run(mib, lambda _: not os.path.exists(sys.argv[-1]))
        else:
            rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 1
            End(sock, 0).run(mib, lambda done: done < rounds)


main()
