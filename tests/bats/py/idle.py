# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""idle.py PID FD SECONDS: so long another process' socket is silent before the
kernel asks the other end, and asks again."""
import ctypes
import os
import socket
import sys

PIDFD_GETFD = 438

pid, fd, seconds = map(int, sys.argv[1:])
got = ctypes.CDLL(None, use_errno=True).syscall(
    PIDFD_GETFD, os.pidfd_open(pid), fd, 0)
if got < 0:
    raise OSError(ctypes.get_errno(), "pidfd_getfd")
with socket.socket(fileno=got) as s:
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 100)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, seconds)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)
