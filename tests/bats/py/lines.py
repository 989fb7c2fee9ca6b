# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An echo server by asyncio: lines.py PORT; prints nothing, ends by SIGTERM."""
import asyncio
import signal
import sys


async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()


async def main():
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    async with server:
        await end.wait()


asyncio.run(main())
