// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;

// Not blocking, by a selector.
class Client {
	static byte[] line(int i) {
		return ("line " + i + " from java\n").getBytes(StandardCharsets.US_ASCII);
	}

	static String answer(SocketChannel c, Selector sel, int length)
			throws java.io.IOException {
		ByteBuffer in = ByteBuffer.allocate(length);

		while (in.hasRemaining()) {
			sel.select();
			sel.selectedKeys().clear();
			if (c.read(in) < 0)
				break;
		}
		return new String(in.array(), StandardCharsets.US_ASCII);
	}

	public static void main(String[] args) throws Exception {
		int port = Integer.parseInt(args[0]), good = 0;

		try (SocketChannel c = SocketChannel.open(
					new InetSocketAddress("127.0.0.1", port));
				Selector sel = Selector.open()) {
			c.configureBlocking(false);
			c.register(sel, SelectionKey.OP_READ);
			for (int i = 1; i <= 200; i++) {
				String sent = new String(line(i));

				c.write(ByteBuffer.wrap(line(i)));
				if (answer(c, sel, sent.length()).equals(sent))
					good++;
			}
		}
		System.out.println(good);
	}
}
