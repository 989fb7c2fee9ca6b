# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""bridge.py serve PORT: answers what a connection asks for in its first line.
bridge.py ask ADDRESS PORT WHAT: as a program under a rule `native`; exits 0
if all is as TCP would have it."""
import ctypes
import errno
import hashlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

BIG = 6 << 20


def pattern(n):
    block = bytes(i * 7 & 255 for i in range(251))
    return (block * (n // 251 + 1))[:n]


def whole(s):
    parts = []
    while part := s.recv(65536):
        parts.append(part)
    return b"".join(parts)


def hard_close(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


# --- the server ------------------------------------------------------------


def line(s):
    got = b""
    while not got.endswith(b"\n"):
        part = s.recv(1)
        if not part:
            break
        got += part
    return got.split()


def mark(s):
    """What comes before the urgent byte, the byte, and what comes behind."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    s.sendall(b"!")
    pri = select.poll()
    pri.register(s, select.POLLPRI)
    pri.poll()
    before = b""
    while not at_mark(s):
        before += s.recv(100)
    return b"|".join((before, s.recv(1), whole(s)))


def at_mark(s):
    import fcntl

    return struct.unpack("i", fcntl.ioctl(s, 0x8905, b"\0" * 4))[0]


def answer(s, port):
    what = line(s)
    if what == [b"echo"]:
        while part := s.recv(65536):
            s.sendall(part)
    elif what == [b"digest"]:
        s.sendall(hashlib.sha256(whole(s)).hexdigest().encode())
    elif what == [b"source"]:
        s.sendall(pattern(BIG))
    elif what == [b"urgent"]:
        s.sendall(b"before")
        s.send(b"!", socket.MSG_OOB)
        s.sendall(b"behind")
    elif what == [b"mark"]:
        s.sendall(mark(s))
    elif what == [b"hold"]:
        whole(s)
        threading.Event().wait()
    elif what == [b"reset"]:
        s.sendall(b"now")
        s.recv(1)
        hard_close(s)
        return
    elif what == [b"end"]:
        try:
            said = hashlib.sha256(whole(s)).hexdigest()
        except ConnectionResetError:
            said = "reset"
        with open(os.environ["ENDS"], "a", encoding="ascii") as f:
            f.write(said + "\n")
    s.close()


def serve(port):
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        s = listener.accept()[0]
        threading.Thread(target=answer, args=(s, port), daemon=True).start()


# --- the program -----------------------------------------------------------


def connected(to, what):
    s = socket.socket(socket.AF_INET6 if ":" in to[0] else socket.AF_INET)
    s.connect(to)
    s.sendall(what + b"\n")
    return s


def names(to):
    s = connected(to, b"echo")
    assert s.getpeername()[:2] == to, s.getpeername()
    own = s.getsockname()
    assert own[0] == os.environ["OWN"] and own[1] > 0, own
    s.close()


def talk(to):
    s = connected(to, b"echo")
    for n in (1, 10, 100, 5000, 70000):
        s.sendall(pattern(n))
        got = b""
        while len(got) < n:
            got += s.recv(n - len(got))
        assert got == pattern(n)
    s.shutdown(socket.SHUT_WR)
    assert whole(s) == b""


def half(to):
    s = connected(to, b"digest")
    s.sendall(pattern(BIG))
    s.shutdown(socket.SHUT_WR)
    assert whole(s).decode() == hashlib.sha256(pattern(BIG)).hexdigest()


def pressed(to):
    """Nothing reads for a while; then every byte is there."""
    s = connected(to, b"source")
    while s.recv(1, socket.MSG_PEEK) == b"":
        pass
    got = b""
    while len(got) < 100000:
        got += s.recv(999)
    assert got + whole(s) == pattern(BIG)


def both_ways(to):
    s = connected(to, b"echo")
    sent = pattern(BIG)

    def send():
        s.sendall(sent)
        s.shutdown(socket.SHUT_WR)

    t = threading.Thread(target=send)
    t.start()
    assert whole(s) == sent
    t.join()


def urgent(to):
    s = connected(to, b"urgent")
    pri = select.poll()
    pri.register(s, select.POLLPRI)
    pri.poll()
    assert s.recv(1, socket.MSG_OOB) == b"!"
    assert whole(s) == b"beforebehind"
    s = connected(to, b"mark")
    assert s.recv(1) == b"!"
    s.sendall(b"abc")
    s.send(b"?", socket.MSG_OOB)
    s.sendall(b"def")
    s.shutdown(socket.SHUT_WR)
    assert whole(s) == b"abc|?|def"


def reset(to):
    s = connected(to, b"reset")
    assert s.recv(3, socket.MSG_WAITALL) == b"now"
    s.sendall(b"x")
    try:
        s.recv(1)
        raise AssertionError("no reset")
    except ConnectionResetError:
        pass
    s = connected(to, b"end")
    s.sendall(b"some")
    hard_close(s)


def unread(to):
    """The process ends; what it wrote arrives, then the end."""
    s = connected(to, b"end")
    s.sendall(pattern(BIG))


def family(to):
    """A child uses the connection while its parent lives."""
    s = connected(to, b"echo")
    pid = os.fork()
    if not pid:
        s.sendall(b"child")
        ok = s.recv(5, socket.MSG_WAITALL) == b"child"
        ok = ok and s.getpeername()[:2] == to
        os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0
    s.sendall(b"parent")
    assert s.recv(6, socket.MSG_WAITALL) == b"parent"


def passed(to):
    """Another program, without the library, has it by exec."""
    s = connected(to, b"echo")
    pid = os.fork()
    if not pid:
        os.dup2(s.fileno(), 0)
        os.dup2(s.fileno(), 1)
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        os.execve("/bin/sh", ["sh", "-c", "echo hello; read x; [ $x = hello ]"],
                  env)
    assert os.waitpid(pid, 0)[1] == 0


def pending(to):
    """A connect() that does not wait, and one that is waited for."""
    s = socket.socket()
    s.setblocking(False)
    assert s.connect_ex(to) == errno.EINPROGRESS
    assert s.connect_ex(to) in (errno.EALREADY, 0)
    out = select.poll()
    out.register(s, select.POLLOUT)
    assert out.poll() == [(s.fileno(), select.POLLOUT)]
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert s.getpeername() == to
    assert s.connect_ex(to) in (0, errno.EISCONN)
    s.setblocking(True)
    s.sendall(b"echo\nx")
    assert s.recv(1) == b"x"


def forgotten(to):
    """The peer never closes; in the end the bridge does not wait for it."""
    s = connected(to, b"hold")
    assert len(os.listdir("/proc/self/task")) == 2
    # seconds for which the kernel knows it when the program has closed it
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, 1)
    s.close()
    while len(os.listdir("/proc/self/task")) > 1:
        time.sleep(0.2)


def refused(to):
    """The error that is expected, by all the ways to hear of it."""
    want = getattr(errno, os.environ["WANT"])
    s = socket.socket()
    for _ in range(2):  # it may be tried again
        assert s.connect_ex(to) == want
    s = socket.socket()
    s.setblocking(False)
    got = s.connect_ex(to)
    if got == errno.EINPROGRESS:
        out = select.poll()
        out.register(s, select.POLLOUT)
        out.poll()
        got = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    assert got == want, got
    try:
        s.getpeername()
        raise AssertionError("a name")
    except OSError as e:
        assert e.errno == errno.ENOTCONN
    assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def silent(to):
    """The kernel's limit for a connect() is the program's."""
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)
    assert s.connect_ex(to) == errno.ETIMEDOUT
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                 struct.pack("ll", 0, 100000))
    assert s.connect_ex(to) == errno.EINPROGRESS
    signal.signal(signal.SIGALRM, lambda *_: 1 // 0)
    s = socket.socket()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        s.connect(to)
        raise AssertionError("no signal")
    except ZeroDivisionError:
        pass


# --- by libc, which says what Python keeps to itself -----------------------

libc = ctypes.CDLL(None, use_errno=True)


def sockaddr(to, rest):
    return struct.pack("=H", socket.AF_INET) + struct.pack(
        "!H4s", to[1], socket.inet_aton(to[0])) + rest


def connect(s, name):
    """As libc's: 0 or an errno."""
    ret = libc.connect(s.fileno(), name, len(name))
    return ctypes.get_errno() if ret else 0


def echoes(s, to):
    assert s.getpeername() == to, s.getpeername()
    s.sendall(b"echo\nx")
    assert s.recv(1) == b"x"


def roomy(to):
    """A struct sockaddr_storage, and something in it behind the name."""
    s = socket.socket()
    assert connect(s, sockaddr(to, b"\xa5" * 120)) == 0
    name = ctypes.create_string_buffer(b"\x5a" * 128, 128)
    size = ctypes.c_uint32(128)
    assert libc.getpeername(s.fileno(), name, ctypes.byref(size)) == 0
    assert size.value == 16, size.value
    assert name.raw == sockaddr(to, bytes(8)) + b"\x5a" * 112, name.raw
    echoes(s, to)


def families(to):
    """An IPv6 socket takes no IPv4 name, but one that is mapped."""
    s = socket.socket(socket.AF_INET6)
    assert connect(s, sockaddr(to, bytes(8))) == errno.EINVAL
    assert connect(s, sockaddr(to, bytes(20))) == errno.EAFNOSUPPORT
    s.connect(("::ffff:" + to[0], to[1]))
    assert s.getpeername()[:2] == ("::ffff:" + to[0], to[1])
    s.sendall(b"echo\nx")
    assert s.recv(1) == b"x"


def again(to):
    """connect() to nowhere ends it, and the socket may be connected anew."""
    s = socket.socket()
    assert connect(s, sockaddr(to, bytes(8))) == 0
    assert connect(s, bytes(16)) == 0  # AF_UNSPEC
    try:
        s.getpeername()
        raise AssertionError("a name")
    except OSError as e:
        assert e.errno == errno.ENOTCONN
    assert connect(s, sockaddr(to, bytes(8))) == 0
    echoes(s, to)


def signals(to):
    """A signal interrupts connect() if it asks for that; it goes on."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    for interrupts in (False, True) * 3:
        signal.siginterrupt(signal.SIGALRM, interrupts)
        s = socket.socket()
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
        err = connect(s, sockaddr(to, bytes(8)))
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert err == 0 or (interrupts and err == errno.EINTR), err
        out = select.poll()
        out.register(s, select.POLLOUT)
        assert out.poll() == [(s.fileno(), select.POLLOUT)]
        echoes(s, to)


def main():
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    to = (sys.argv[2], int(sys.argv[3]))
    for what in sys.argv[4:]:
        globals()[what](to)


main()
