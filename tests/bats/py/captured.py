# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""captured.py FILE [PREFIX]

A capture of libsdp's as tshark dissects it, on standard output: a line for each
kind of message (name and count), and one for each direction (its address and
the port of the Hello or service, bytes of the stream, bytes that are in the
file). PREFIX: the stream bytes of direction N go to PREFIX.N.

Fails where tshark complains, where a message is missing, is there twice, or in
the wrong order, where times of a direction do not grow, or lengths do not agree."""
import collections
import subprocess
import sys

FIELDS = ["frame.number", "frame.time_epoch", "frame.len", "frame.cap_len",
          "infiniband.bth.opcode", "infiniband.bth.destqp",
          "infiniband.bth.psn", "infiniband.cm.req.localqpn",
          "infiniband.cm.rep.localqpn", "infiniband_sdp.bsdh.mid",
          "infiniband_sdp.bsdh.len", "infiniband_sdp.bsdh.mseq",
          "udp.payload", "_ws.expert", "_ws.malformed"]
NAMES = {0: "Hello", 1: "HelloAck", 2: "DisConn", 3: "AbortConn", 4: "SendSm",
         5: "RdmaWrCompl", 6: "RdmaRdCompl", 7: "ModeChange",
         8: "SrcAvailCancel", 9: "SinkAvailCancel", 10: "SinkCancelAck",
         11: "ChRcvBuf", 12: "ChRcvBufAck", 0x40: "Words", 0x41: "Back",
         0xfd: "SinkAvail", 0xfe: "SrcAvail", 0xff: "Data"}
PAYLOAD = {0xff: 16, 0xfe: 32, 0xfd: 36}
DATAGRAM = 100
BTH = 12


class Direction:
    """to a queue pair"""

    def __init__(self):
        self.mseq, self.last = 0, 0.0
        self.stream = bytearray()
        self.bytes = 0


def tshark(path):
    cmd = ["tshark", "-2", "-n", "-r", path, "-T", "fields",
           "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
           "-E", "separator=|", "-E", "occurrence=f"]
    for f in FIELDS:
        cmd += ["-e", f]
    run = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         check=False, universal_newlines=True)
    said = [x for x in run.stderr.splitlines() if "Running as user" not in x]
    if run.returncode or said:
        sys.exit("tshark: %d %s" % (run.returncode, said))
    return run.stdout.splitlines()


def check(ok, frame, what):
    if not ok:
        sys.exit("frame %s: %s" % (frame, what))


def main(path, prefix=None):
    count, to = collections.Counter(), {}
    for line in tshark(path):
        (frame, time, size, have, op, qp, psn, req, rep, mid, length, mseq,
         payload, expert, malformed) = line.split("|")
        check(not expert and not malformed, frame, "tshark complains")
        check(mid, frame, "not taken for SDP")
        mid, length, mseq = int(mid, 0), int(length), int(mseq, 0)
        count[NAMES[mid]] += 1
        if int(op) == DATAGRAM:
            check(mid < 2, frame, "not set-up")
            to[int(req or rep, 0)] = Direction()
            continue
        d = to.get(int(qp, 0))
        check(d, frame, "to a queue pair that was not named")
        check(mseq == d.mseq + 1, frame, "message %d behind %d" % (mseq, d.mseq))
        check(float(time) >= d.last, frame, "from before")
        d.last = float(time)
        check(int(psn) == mseq & 0xffffff, frame, "packet number")
        d.mseq = mseq
        missing = int(size) - int(have)
        message = bytes.fromhex(payload)[BTH:-4]
        check(length <= len(message) + missing < length + 5, frame, "length")
        if mid in PAYLOAD:
            d.bytes += length - PAYLOAD[mid]
            d.stream += message[PAYLOAD[mid]:length]
    for name in sorted(count):
        print(name, count[name])
    for n, d in enumerate(to.values()):
        print("direction", n, d.bytes, len(d.stream))
        if prefix:
            with open("%s.%d" % (prefix, n), "wb") as f:
                f.write(d.stream)


main(*sys.argv[1:])
