# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""wire.py CAPTURE [--connections N [--alone]]
wire.py CAPTURE --spoil KIND OUT

What two nodes said to each other over RoCE v2, read twice: here, from the
bytes, against the rules of SDP, and by tshark, which has to agree about every
message. Without a fault: a line per connection and exit status 0.

Checked for each connection: REQ and REP with service id, depths and retry
counts, compact Hello and HelloAck; for each message its length, MID, sequence
number, acknowledgement, that the sender had the credits it needs, that no
grant is ever taken back, that it fits the receiver's buffer, that nothing
follows DisConn but control messages, the order of what Words say; that no
receiver was ever without a buffer (RNR); and that each RDMA Read lies within
memory that the other end has just advertised and that was not given back, and
so does each RDMA Write.

Known of tshark's dissector, and accepted nowhere else: a compact Hello is
shorter than the one it knows ("malformed"), so is Data without bytes; what
follows the first packet of a message is taken for a message of its own.

--alone leaves tshark out.

--spoil writes a copy with one message made wrong (mseq, ack, credits, len, mid,
hello, words): what finds nothing wrong with that has proved nothing."""
import collections
import re
import struct
import subprocess
import sys

ROCE_PORT = 4791
MAGIC = 0x75534450
SERVICE = 0x13F0000
FIRST, MIDDLE, LAST, ONLY = 0, 1, 2, 4
WRITES = {6, 7, 8, 9, 10, 11}
ACK, READ = 0x11, 0x0c
# to reads: a program's bytes, whatever tshark takes them for
ANSWERS = range(0x0d, 0x11)
WRITE_FIRST, WRITE_ONLY = 6, 10  # so are those of writes
NAMES = {0x02: "DisConn", 0x03: "AbortConn", 0x04: "SendSm",
         0x05: "RdmaWrCompl", 0x06: "RdmaRdCompl", 0x07: "ModeChange",
         0x08: "SrcAvailCancel", 0x09: "SinkAvailCancel",
         0x0a: "SinkCancelAck", 0x0b: "ChRcvBuf", 0x0c: "ChRcvBufAck",
         0x0d: "SuspComm", 0x0e: "SuspCommAck", 0x40: "Words", 0x41: "Back",
         0xfd: "SinkAvail", 0xfe: "SrcAvail", 0xff: "Data"}
HEADERS = {0x05: 20, 0x06: 20, 0x07: 20, 0x0b: 20, 0x0c: 20, 0x0d: 24,
           0x40: 48, 0x41: 16, 0xfd: 36, 0xfe: 32}
PAYLOAD = {0xfd, 0xfe, 0xff}
DISSECTED = ["frame.number", "infiniband_sdp.bsdh.mid",
             "infiniband_sdp.bsdh.flags", "infiniband_sdp.bsdh.bufs",
             "infiniband_sdp.bsdh.len", "infiniband_sdp.bsdh.mseq",
             "infiniband_sdp.bsdh.mseqack", "_ws.malformed"]
RAW, RISING, LIFTED, SPILL, ASKED, PAUSED, RESUME, GONE = range(8)
faults = []


def fault(frame, what):
    faults.append("frame %d: %s" % (frame, what))


def u16(b, at):
    return struct.unpack_from(">H", b, at)[0]


def u24(b, at):
    return b[at] << 16 | b[at + 1] << 8 | b[at + 2]


def u32(b, at):
    return struct.unpack_from(">I", b, at)[0]


def u64(b, at):
    return struct.unpack_from(">Q", b, at)[0]


def behind(a, b, bits):
    """a - b as a signed number of so many bits"""
    d = (a - b) & ((1 << bits) - 1)
    return d - (1 << bits) if d >> (bits - 1) else d


# --- packets ------------------------------------------------------------------

Packet = collections.namedtuple("Packet", "frame src dst bth at")


def packets(data):
    """every RoCE v2 packet: frame number, addresses, from the BTH on without
    the check sum behind it, and where in the file the BTH lies"""
    if struct.unpack_from("<I", data)[0] != 0xa1b2c3d4:
        sys.exit("not a capture of this machine's")
    at, frame = 24, 0
    while at + 16 <= len(data):
        have, size = struct.unpack_from("<II", data, at + 8)
        eth, frame = at + 16, frame + 1
        at = eth + have
        if at > len(data):
            break
        kind = u16(data, eth + 12)
        ip = eth + 14
        if kind == 0x0800 and data[ip + 9] == 17:
            src, dst = data[ip + 12:ip + 16], data[ip + 16:ip + 20]
            udp = ip + 4 * (data[ip] & 15)
        elif kind == 0x86dd and data[ip + 6] == 17:
            src, dst = data[ip + 8:ip + 24], data[ip + 24:ip + 40]
            udp = ip + 40
        else:
            continue
        if u16(data, udp + 2) != ROCE_PORT:
            continue
        if have != size:
            fault(frame, "captured in part")
        bth = data[udp + 8:udp + u16(data, udp + 4) - 4]
        yield Packet(frame, src, dst, bth, udp + 8)


# --- one connection -----------------------------------------------------------

class Side:
    """one end: what it sent, and what its peer told it"""

    def __init__(self, addr, qpn, psn):
        self.addr, self.qpn, self.psn = addr, qpn, psn
        self.rcv_size = self.grant = 0
        self.said = []  # of receives, not heard of yet: (MSeq, size)
        self.least = 0
        self.mseq = self.acked = 0  # last sent; acknowledged by us
        self.count = collections.Counter()
        self.payload = self.again = self.early = 0
        self.closed = False
        self.part = None  # (first packet, bytes, PSN of the next)
        self.words = {}
        self.source = None  # SrcAvail: key, address, length, unreported
        self.sink = None  # SinkAvail: key, address, length
        self.reads = self.read = self.writes = self.wrote = 0


class Connection:
    def __init__(self, number, active, passive, service):
        self.number, self.service = number, service
        self.active, self.passive = active, passive
        self.rnr = 0
        self.open = False
        self.mtu = 1024

    def name(self):
        return "connection %d" % self.number


def hello(con, frame, mid, size, pd, ext_len):
    """the common part of Hello and HelloAck: bufs, size of a receive"""
    if pd[0] != mid or u32(pd, 4) != size or any(pd[8:16]):
        fault(frame, "the BSDH of %s is wrong" % ("Hello", "HelloAck")[mid])
    if pd[16] != 0x22 or not pd[19]:
        fault(frame, "version %#x, MaxAdverts %d" % (pd[16], pd[19]))
    if u32(pd, 32) != MAGIC or pd[36] != 2:
        fault(frame, "no extension block of version 2")
    if u16(pd, 2) < 4 or any(pd[56:size]) or not ext_len:
        fault(frame, "Bufs or the end of the block are wrong")
    return u16(pd, 2)


class Reader:
    def __init__(self):
        self.asked = {}  # (address, comm id): REQ
        self.ends = {}  # (address, QPN) of a receiver: (connection, sender)
        self.all = []
        self.expected = {}  # frame: what tshark has to say
        self.ours, self.continued, self.short = set(), set(), set()
        self.first = {}  # kind of message: place in the file

    # -- connection management

    def cm(self, p):
        mad = p.bth[20:]
        attr, cm = u16(mad, 16), mad[24:]
        if mad[1] != 7:
            return
        if attr == 0x10:
            self.asked[(p.src, u32(cm, 0))] = (p, cm)
            self.short.add(p.frame)
        elif attr == 0x13:
            self.rep(p, cm)
        elif attr in (0x12, 0x14, 0x15, 0x16):
            self.short.add(p.frame)  # private data that is not SDP's

    def rep(self, p, cm):
        req = self.asked.get((p.dst, u32(cm, 4)))
        if not req or (p.src, u24(cm, 12)) in self.ends:
            return
        q, ask = req
        service = u64(ask, 8)
        if service & ~0xffff != SERVICE:
            fault(q.frame, "service id %#x" % service)
        if ask[47] & 7 > 6:
            fault(q.frame, "retry count 7 is for ever")
        if ask[50] & 7 != 7 or cm[27] >> 5 != 7:
            fault(q.frame, "RNR retry count %d, %d" % (ask[50] & 7,
                                                       cm[27] >> 5))
        # each names the number that the other is to begin with
        active = Side(q.src, u24(ask, 32), u24(cm, 20))
        passive = Side(p.src, u24(cm, 12), u24(ask, 44))
        con = Connection(len(self.all) + 1, active, passive, service)
        self.all.append(con)
        con.mtu = 128 << (ask[50] >> 4)
        pd = ask[140 + 36:140 + 92]
        passive.grant = hello(con, q.frame, 0, 56, pd, True)
        active.rcv_size = active.least = u32(pd, 24)
        if u16(pd, 40) != service & 0xffff:
            fault(q.frame, "the Hello names another port")
        self.first.setdefault("hello", q.at + 20 + 24 + 140 + 36 + 32)
        pd = cm[36:36 + 196]
        active.grant = hello(con, p.frame, 1, 196, pd, True)
        passive.rcv_size = passive.least = u32(pd, 20)
        self.ends[(passive.addr, passive.qpn)] = (con, active, passive)
        self.ends[(active.addr, active.qpn)] = (con, passive, active)

    # -- data

    def packet(self, p):
        op, qpn = p.bth[0], u24(p.bth, 5)
        if op not in ANSWERS and op not in WRITES:
            self.ours.add(p.frame)
        if qpn == 1:
            return self.cm(p)
        end = self.ends.get((p.dst, qpn))
        if not end:
            return fault(p.frame, "belongs to no connection")
        con, sender, receiver = end
        if op == ACK:
            if p.bth[12] >> 5 == 1:
                con.rnr += 1
            return None
        if op in ANSWERS:
            return None
        if op not in (FIRST, MIDDLE, LAST, ONLY, READ) and op not in WRITES:
            return fault(p.frame, "opcode %#x" % op)
        if op in (MIDDLE, LAST):
            self.continued.add(p.frame)
        psn, d = u24(p.bth, 9), 0
        d = behind(psn, sender.psn, 24)
        if d:  # sent again, or after one that was lost
            sender.again += d < 0
            sender.early += d > 0
            return self.recall(p, op)
        sender.psn = (psn + 1) & 0xffffff
        if op in WRITES:
            return self.write(sender, receiver, op, p)
        if op == READ:
            return self.read(con, sender, receiver, p)
        data = p.bth[12:len(p.bth) - (p.bth[1] >> 4 & 3)]
        if op == ONLY or op == FIRST:
            if sender.part:
                fault(p.frame, "begins within a message")
            sender.part = (p, data)
        elif not sender.part:
            return fault(p.frame, "continues no message")
        else:
            sender.part = (sender.part[0], sender.part[1] + data)
        if op in (ONLY, LAST):
            first, whole = sender.part
            sender.part = None
            self.message(con, sender, receiver, first, whole)
        return None

    def read(self, con, me, peer, p):
        """takes as many numbers as its answer has packets"""
        at, key, size = u64(p.bth, 12), u32(p.bth, 20), u32(p.bth, 24)
        me.psn = (me.psn - 1 + max(1, -(-size // con.mtu))) & 0xffffff
        me.reads += 1
        me.read += size
        src = peer.source
        if not src or key != src[0] or at < src[1] or \
           at + size > src[1] + src[2]:
            fault(p.frame, "reads what was not advertised")

    def write(self, me, peer, op, p):
        """the first packet says where; a probe has no bytes"""
        if op not in (WRITE_FIRST, WRITE_ONLY):
            return
        at, key, size = u64(p.bth, 12), u32(p.bth, 20), u32(p.bth, 24)
        if not size:
            return
        me.writes += 1
        me.wrote += size
        sink = peer.sink
        if not sink or key != sink[0] or at < sink[1] or \
           at + size > sink[1] + sink[2]:
            fault(p.frame, "writes where nothing was advertised")

    def sink(self, me, peer, mid, b):
        """SinkAvail by `me`; what `me` sends ends the peer's"""
        if mid == 0xfd:
            me.sink = (u32(b, 20), u64(b, 24), u32(b, 16))
        elif mid in (0x05, 0x07, 0x0a) or (mid == 0xff and len(b) > 16):
            peer.sink = None

    def source(self, me, peer, mid, b):
        """SrcAvail by `me`; what the peer has of it is told by `me` itself"""
        if mid == 0xfe:
            me.source = (u32(b, 20), u64(b, 24), u32(b, 16),
                         u32(b, 16) - (len(b) - 32))
        elif mid == 0x06 and peer.source:
            key, at, size, left = peer.source
            left -= u32(b, 16)
            peer.source = (key, at, size, left) if left else None
        elif mid == 0x04:
            peer.source = None

    def recall(self, p, op):
        """sent again: tshark dissects it once more"""
        if op in (FIRST, ONLY) and len(p.bth) >= 28:
            self.expect(p)

    def expect(self, p):
        b = p.bth[12:]
        self.expected[p.frame] = (b[0], b[1], u16(b, 2), u32(b, 4), u32(b, 8),
                                  u32(b, 12))
        if b[0] == 0xff and u32(b, 4) == 16:
            self.short.add(p.frame)

    def message(self, con, me, peer, p, b):
        if len(b) < 16:
            return fault(p.frame, "%d bytes are no message" % len(b))
        self.expect(p)
        mid, flags, bufs, size, mseq, ack = self.expected[p.frame]
        con.open = True
        if mid not in NAMES:
            return fault(p.frame, "MID %#x is reserved" % mid)
        header = HEADERS.get(mid, 16)
        if size != len(b) or size < header or \
           (mid not in PAYLOAD | {0x41} and size != header):
            fault(p.frame, "%s of %d bytes says %d" % (NAMES[mid], len(b),
                                                       size))
        most = self.receive(peer, ack)
        if size > most:
            fault(p.frame, "%d bytes for a receive of %d" % (size, most))
        self.numbers(me, peer, p, (mid, bufs, mseq, ack),
                     size - header if mid in PAYLOAD else 0)
        if flags & ~7:
            fault(p.frame, "flags %#x" % flags)
        if me.closed and size > header and mid in PAYLOAD:
            fault(p.frame, "bytes behind DisConn")
        if mid == 2 and me.closed:
            fault(p.frame, "a second DisConn")
        me.closed |= mid == 2
        me.count[NAMES[mid] if size > 16 or mid != 0xff else "update"] += 1
        if mid == 0xff:
            me.payload += size - 16
        if mid in (0xfe, 0x06, 0x04):
            self.source(me, peer, mid, b)
        if mid == 0x0c:
            me.said.append((mseq, u32(b, 16)))
            if u32(b, 16) < me.least:
                fault(p.frame, "receives of %d bytes" % u32(b, 16))
        self.sink(me, peer, mid, b)
        if mid == 0xfe:
            me.payload += size - 32
        if mid == 0x40:
            self.words(me, p, b[16:48])
        self.remember(me, p, mid, size)
        return None

    def receive(self, peer, ack):
        """the largest message that `peer` takes from an end that knows of `ack`"""
        while peer.said and behind(ack, peer.said[0][0], 32) >= 0:
            peer.rcv_size = peer.said.pop(0)[1]
        return max([peer.rcv_size] + [size for _, size in peer.said])

    def numbers(self, me, peer, p, says, payload):
        mid, bufs, mseq, ack = says
        # `grant`: the last number that the peer may send, as it was told
        have = behind(me.grant, me.mseq, 32)
        need = 3 if mid in PAYLOAD and payload else 1
        if have < need:
            fault(p.frame, "%s with %d credits" % (NAMES[mid], have))
        if mseq != (me.mseq + 1) & 0xffffffff:
            fault(p.frame, "MSeq %d behind %d" % (mseq, me.mseq))
        me.mseq = mseq
        if behind(ack, peer.mseq, 32) > 0:
            fault(p.frame, "MSeqAck %d, and %d was sent" % (ack, peer.mseq))
        if behind(ack, me.acked, 32) < 0:
            fault(p.frame, "MSeqAck goes back to %d" % ack)
        me.acked = ack
        grant = (ack + bufs) & 0xffffffff
        if behind(grant, peer.grant, 32) < 0:
            fault(p.frame, "takes %d credits back" %
                  behind(peer.grant, grant, 32))
        peer.grant = grant

    def words(self, me, p, w):
        """a snapshot: epochs and counts never go back"""
        half, state, epoch = w[0], w[1], u32(w, 4)
        if half > 1 or state > GONE or (half == 0 and state == GONE):
            return fault(p.frame, "Words: half %d, state %d" % (half, state))
        was = me.words.get(half)
        me.words[half] = w
        if not was:
            return None
        if behind(epoch, u32(was, 4), 32) < 0 and state != GONE:
            fault(p.frame, "Words: an epoch goes back")
        for at, bits in ((8, 32), (12, 32), (24, 64)):
            now, then = ((u64(w, at), u64(was, at)) if bits == 64 else
                         (u32(w, at), u32(was, at)))
            if behind(now, then, bits) < 0:
                fault(p.frame, "Words: the count at %d goes back" % at)
        return None

    def remember(self, me, p, mid, size):
        """places to spoil, in messages that are not the first"""
        b = p.at + 12
        if mid == 0xff and size > 16 and me.mseq > 3 and me.acked:
            self.first.setdefault("mseq", b + 8)
            self.first.setdefault("ack", b + 12)
            self.first.setdefault("credits", b + 2)
            self.first.setdefault("len", b + 4)
            self.first.setdefault("mid", b)
        if mid == 0x40 and me.mseq > 3 and u64(me.words[p.bth[28]], 24):
            self.first.setdefault("words", b + 16 + 24)


# --- tshark ---------------------------------------------------------------------

def number(text):
    return int(text, 0) if text else None


def dissect(path, r):
    """tshark's view of every frame against ours"""
    cmd = ["tshark", "-2", "-n", "--disable-protocol", "rpcordma", "-r", path,
           "-T", "fields", "-E", "occurrence=f", "-E", "separator=|"]
    for f in DISSECTED:
        cmd += ["-e", f]
    out = subprocess.run(cmd, stdout=subprocess.PIPE, check=True, text=True,
                         stderr=subprocess.DEVNULL).stdout
    missing = set(r.expected)
    unknown = continued = 0
    for line in out.splitlines():
        f = line.split("|")
        frame, said = int(f[0]), tuple(number(x) for x in f[1:7])
        bad = bool(f[7])
        if frame in r.expected:
            missing.discard(frame)
            if said != r.expected[frame]:
                fault(frame, "tshark sees %s, we %s" % (said,
                                                        r.expected[frame]))
            unknown += said[0] in (0x40, 0x41)
        elif frame in r.continued:
            continued += bad
            bad = False
        if bad and frame in r.ours and frame not in r.short:
            fault(frame, "tshark finds it malformed")
    for frame in sorted(missing):
        fault(frame, "tshark does not see it")
    return unknown, continued


# --- --spoil --------------------------------------------------------------------

def spoil(data, r, kind):
    at = r.first.get(kind)
    if at is None:
        sys.exit("nothing to spoil: " + kind)
    data = bytearray(data)
    if kind == "credits":  # a promise that is not kept
        data[at:at + 2] = b"\0\0"
    elif kind == "mid":
        data[at] = 0x10
    elif kind == "words":
        data[at] ^= 0x01
    else:  # the lowest byte of four
        data[at + 3] ^= 0x20
    return bytes(data)


def main(argv):
    if not argv or not re.match("[^-]", argv[0]):
        print(__doc__, file=sys.stderr)
        return 2
    with open(argv[0], "rb") as f:
        data = f.read()
    r = Reader()
    for p in packets(data):
        r.packet(p)
    if argv[1:2] == ["--spoil"]:
        with open(argv[3], "wb") as f:
            f.write(spoil(data, r, argv[2]))
        return 0
    alone = "--alone" in argv
    unknown, continued = (0, 0) if alone else dissect(argv[0], r)
    for con in r.all:
        if con.rnr:
            fault(0, "%s: RNR %d times" % (con.name(), con.rnr))
        for side in (con.active, con.passive):
            print("%s, service %#x, from QP %#x: %d messages, %d bytes; %s; "
                  "%d packets again, %d early; %d bytes by %d reads, "
                  "%d by %d writes" %
                  (con.name(), con.service, side.qpn, side.mseq, side.payload,
                   ", ".join("%s %d" % x for x in sorted(side.count.items())),
                   side.again, side.early, side.read, side.reads,
                   side.wrote, side.writes))
    if not alone:
        print("%d messages seen by tshark alike, %d of them Words, which it "
              "calls unknown; %d later packets of a message that it calls "
              "malformed" % (len(r.expected), unknown, continued))
    if argv[1:2] == ["--connections"] and int(argv[2]) != len(
            [c for c in r.all if c.open]):
        fault(0, "%d connections, not %s" % (len(r.all), argv[2]))
    for f in faults[:20]:
        print("FAULT " + f)
    if not r.expected or faults:
        print("%d faults" % len(faults))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
