// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// n bytes that depend on n and on where they stand.
'use strict';

exports.pattern = (n) => {
	const body = Buffer.alloc(n);
	for (let i = 0; i < n; i++)
		body[i] = (Math.imul(i + n, 0x9e3779b1) >>> 23) & 0xff;
	return body;
};
