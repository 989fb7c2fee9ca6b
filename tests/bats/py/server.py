# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""http.server over a directory: server.py PORT DIRECTORY; SIGTERM ends it.

A POST answers with the sha256 of what was posted.
"""
import functools
import hashlib
import http.server
import os
import signal
import sys
import threading

HOST = os.environ.get("SDP_HOST", "127.0.0.1")


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        left = int(self.headers["Content-Length"])
        digest = hashlib.sha256()
        while left:
            block = self.rfile.read(min(left, 50000))
            digest.update(block)
            left -= len(block)
        body = digest.hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    port, directory = int(sys.argv[1]), sys.argv[2]
    handler = functools.partial(Handler, directory=directory)
    server = http.server.ThreadingHTTPServer((HOST, port), handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(
        target=server.shutdown).start())
    server.serve_forever()


main()
