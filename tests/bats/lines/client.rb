# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
require "socket"

good = 0
TCPSocket.open("127.0.0.1", ARGV[0].to_i) do |s|
	1.upto(200) do |i|
		s.puts "line #{i} from ruby"
		good += 1 if s.gets == "line #{i} from ruby\n"
	end
end
puts good
