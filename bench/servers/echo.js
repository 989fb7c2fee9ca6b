// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An echo server: node's net module.
'use strict';
require('net').createServer((socket) => {
	socket.setNoDelay(true);
	socket.on('error', () => socket.destroy());
	socket.on('data', (data) => socket.write(data));
}).listen({ port: Number(process.argv[2]), host: '127.0.0.1', backlog: 512 });
