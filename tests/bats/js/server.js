// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// server.js PORT: answers a GET of /n with n patterned bytes, and a POST with
// the sha256 of what was posted. SIGTERM ends it.
'use strict';
const http = require('http');
const crypto = require('crypto');
const { pattern } = require('./pattern.js');

const host = process.env.SDP_HOST || '127.0.0.1';

const server = http.createServer((req, res) => {
	if (req.method === 'POST') {
		const hash = crypto.createHash('sha256');
		req.on('data', (chunk) => hash.update(chunk));
		req.on('end', () => res.end(hash.digest('hex')));
		return;
	}
	const body = pattern(Number(req.url.slice(1)));
	res.setHeader('Content-Length', body.length);
	res.end(body);
});
server.listen(Number(process.argv[2]), host);
process.on('SIGTERM', () => {
	server.close(() => process.exit(0));
	server.closeAllConnections();
});
