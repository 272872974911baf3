"""Runs a command whose standard error is a terminal of 120 columns, and prints what came there."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

controller, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
command = subprocess.Popen(sys.argv[1:], stderr=terminal, stdout=subprocess.DEVNULL)
os.close(terminal)
seen = b""
while True:
    try:
        more = os.read(controller, 4096)
    except OSError:
        break
    if not more:
        break
    seen += more
sys.stdout.buffer.write(seen)
sys.exit(command.wait())
