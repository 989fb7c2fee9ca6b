#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A program that talks to itself over TCP, 6,000 bytes each way, and ends in
the way it is told: one of WAYS."""
import ctypes
import os
import signal
import socket
import struct
import sys

SA_SIGINFO = 4


def default(number):
    """The disposition as sigaction() tells it: no flags, no handler."""
    libc = ctypes.CDLL(None, use_errno=True)
    what = ctypes.create_string_buffer(b"\1" * 256, 256)
    assert libc.sigaction(number, None, what) == 0
    return what.raw[:8] == bytes(8)


def blow(number):
    """By the default, which the program insists on."""
    assert default(number)
    signal.signal(number, lambda *_: None)
    assert not default(number)
    signal.signal(number, signal.SIG_DFL)
    assert default(number)
    os.kill(os.getpid(), number)
    signal.pause()


def flagged(number):
    """By the default, set with a flag that goes with a handler, as PHP does."""
    libc = ctypes.CDLL(None, use_errno=True)
    signal.signal(number, lambda *_: None)
    what = ctypes.create_string_buffer(256)
    assert libc.sigaction(number, None, what) == 0
    at = 8 + 128  # behind the handler and the mask
    flags = int.from_bytes(what.raw[at:at + 4], "little")
    struct.pack_into("=Q", what, 0, 0)
    struct.pack_into("=I", what, at, flags | SA_SIGINFO)
    assert libc.sigaction(number, what, None) == 0
    assert default(number)
    os.kill(os.getpid(), number)
    signal.pause()


def closed_pipe():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    assert default(signal.SIGPIPE)
    r, w = os.pipe()
    os.close(r)
    os.write(w, b"x")


def fail_to_exec():
    try:
        os.execv("/nonexistent/program", ["program"])
    except FileNotFoundError:
        sys.exit(5)


WAYS = {
    "exit": lambda: sys.exit(3),
    "_exit": lambda: os._exit(3),
    "abort": os.abort,
    "fault": lambda: ctypes.string_at(8),
    "hup": lambda: blow(signal.SIGHUP),
    "term": lambda: blow(signal.SIGTERM),
    "usr1": lambda: blow(signal.SIGUSR1),
    "flagged": lambda: flagged(signal.SIGTERM),
    "int": lambda: blow(signal.SIGINT),
    "alarm": lambda: (signal.setitimer(signal.ITIMER_REAL, 0.01),
                      signal.pause()),
    "pipe": closed_pipe,
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "fail": fail_to_exec,
    "ready": lambda: (print("ready", flush=True), signal.pause()),
    "sleep": lambda: os.execv("/bin/sleep", ["sleep", "60"]),
}


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    a = socket.create_connection(listener.getsockname())
    b, _ = listener.accept()
    for _ in range(300):
        for one, other in (a, b), (b, a):
            one.sendall(b"x" * 20)
            assert other.recv(20, socket.MSG_WAITALL) == b"x" * 20
    WAYS[sys.argv[1]]()


main()
