# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# By events, as Tcl programs do it.
set sock [socket 127.0.0.1 [lindex $argv 0]]
fconfigure $sock -blocking 0 -buffering line
set good 0
set i 1

proc answer {} {
	global sock good i done
	if {[gets $sock back] < 0} {
		if {[eof $sock]} { set done 1 }
		return
	}
	if {$back eq "line $i from tcl"} { incr good }
	if {[incr i] > 200} {
		set done 1
	} else {
		puts $sock "line $i from tcl"
	}
}

fileevent $sock readable answer
puts $sock "line 1 from tcl"
vwait done
close $sock
puts $good
