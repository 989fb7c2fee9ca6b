// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// client.js PORT [alone]: gets and posts on kept connections, one and many at a
// time, with a child process now and then unless alone; prints "all right".
'use strict';
const http = require('http');
const crypto = require('crypto');
const assert = require('assert');
const { execFileSync } = require('child_process');
const { pattern } = require('./pattern.js');

const host = process.env.SDP_HOST || '127.0.0.1';
const port = Number(process.argv[2]);

function ask(agent, method, path, body) {
	return new Promise((resolve, reject) => {
		const req = http.request({ host, port, agent, method,
			path }, (res) => {
			const parts = [];
			res.on('data', (chunk) => parts.push(chunk));
			res.on('end', () => resolve(Buffer.concat(parts)));
			res.on('error', reject);
		});
		req.on('error', reject);
		req.end(body);
	});
}

async function get(agent, n) {
	const body = await ask(agent, 'GET', `/${n}`);
	assert.ok(body.equals(pattern(n)), `body of ${n}`);
}

async function main() {
	const one = new http.Agent({ keepAlive: true, maxSockets: 1 });
	for (let i = 1; i <= 200; i++) {
		await get(one, i * 31);
		if (i % 50 === 0 && process.argv[3] !== 'alone')
			assert.strictEqual(
				execFileSync('echo', ['x']).toString(), 'x\n');
	}
	await get(one, 3000000);
	const big = pattern(4000000);
	const sum = await ask(one, 'POST', '/', big);
	assert.strictEqual(sum.toString(),
		crypto.createHash('sha256').update(big).digest('hex'));
	const many = new http.Agent({ keepAlive: true, maxSockets: 20 });
	const all = [];
	for (let i = 1; i <= 400; i++)
		all.push(get(many, 1 + (i * 977) % 20000));
	await Promise.all(all);
	one.destroy();
	many.destroy();
	console.log('all right');
}

main().catch((error) => {
	console.error(error);
	process.exit(1);
});
