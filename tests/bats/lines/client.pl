# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use strict;
use warnings;
use IO::Socket::INET;

my $s = IO::Socket::INET->new("127.0.0.1:$ARGV[0]") or die "connect: $@";
my $good = 0;
for my $i (1 .. 200) {
	print {$s} "line $i from perl\n";
	$s->flush;
	$good++ if <$s> eq "line $i from perl\n";
}
close($s);
print "$good\n";
