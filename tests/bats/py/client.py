# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""client.py PORT DIRECTORY: fetches and posts on kept connections.

Between requests it runs children in the ways of the subprocess module, so
that connections live through vfork and close loops.
"""
import hashlib
import http.client
import os
import subprocess
import sys

HOST = os.environ.get("SDP_HOST", "127.0.0.1")
PORT, DIRECTORY = int(sys.argv[1]), sys.argv[2]


def fetch(conn, name):
    conn.request("GET", "/" + name)
    body = conn.getresponse().read()
    with open(os.path.join(DIRECTORY, name), "rb") as file:
        assert body == file.read(), name


def main():
    conn = http.client.HTTPConnection(HOST, PORT, timeout=30)
    for i in range(1, 41):
        fetch(conn, f"f{i}")
        if i % 10 == 0:
            out = subprocess.run(["echo", str(i)], capture_output=True,
                                 check=True).stdout
            assert int(out) == i
            out = subprocess.run(["echo", str(i)], capture_output=True,
                                 check=True, close_fds=False).stdout
            assert int(out) == i
            assert os.system("true") == 0
    fetch(conn, "big")
    body = os.urandom(3000000)
    conn.request("POST", "/", body)
    answer = conn.getresponse().read().decode()
    assert answer == hashlib.sha256(body).hexdigest()
    for i in range(1, 41):
        fetch(conn, f"f{i}")
    conn.close()
    print("all right")


main()
