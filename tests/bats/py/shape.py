# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""shape.py HOST PORT CONNECTIONS COUNT: asks a server of many_echo.py COUNT
times on each, and says which threads, descriptors and libraries it has then."""
import os
import socket
import sys

host, port, connections, count = sys.argv[1], *map(int, sys.argv[2:])
sockets = [socket.create_connection((host, port)) for _ in range(connections)]
for sock in sockets:
    for _ in range(count):
        sock.sendall((1).to_bytes(4, "big") * 2 + b"x")
        assert len(sock.recv(1)) == 1
with os.scandir("/proc/self/fd") as numbers:
    here = sorted(int(n.name) for n in numbers)
print(len(os.listdir("/proc/self/task")), here)
with open("/proc/self/maps") as maps:
    libraries = {line.split()[-1] for line in maps if ".so" in line}
print(sorted(name for name in libraries
             if not name.endswith("/libsdp.so")))
