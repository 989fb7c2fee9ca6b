// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An echo server: one thread, a selector, what cannot be written yet is kept.

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Iterator;

public class Echo {
	static void accept(ServerSocketChannel listener, Selector selector)
			throws IOException {
		SocketChannel c = listener.accept();

		if (c == null)
			return;
		c.configureBlocking(false);
		c.setOption(StandardSocketOptions.TCP_NODELAY, true);
		c.register(selector, SelectionKey.OP_READ,
			   ByteBuffer.allocateDirect(65536));
	}

	static void turn(SelectionKey key) throws IOException {
		SocketChannel c = (SocketChannel) key.channel();
		ByteBuffer b = (ByteBuffer) key.attachment();

		if (key.isReadable() && c.read(b) < 0) {
			c.close();
			return;
		}
		b.flip();
		c.write(b);
		b.compact();
		key.interestOps(b.position() == 0 ? SelectionKey.OP_READ
						  : SelectionKey.OP_WRITE);
	}

	public static void main(String[] args) throws IOException {
		Selector selector = Selector.open();
		ServerSocketChannel listener = ServerSocketChannel.open();

		listener.bind(new InetSocketAddress("127.0.0.1",
				Integer.parseInt(args[0])), 512);
		listener.configureBlocking(false);
		listener.register(selector, SelectionKey.OP_ACCEPT);
		for (;;) {
			selector.select();
			Iterator<SelectionKey> i = selector.selectedKeys()
					.iterator();
			while (i.hasNext()) {
				SelectionKey key = i.next();

				i.remove();
				try {
					if (key.isAcceptable())
						accept(listener, selector);
					else
						turn(key);
				} catch (IOException e) {
					key.channel().close();
				}
			}
		}
	}
}
