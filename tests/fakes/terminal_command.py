"""The ``thriftgate`` command as a terminal starts it.

A shell starts a job in the background with SIGINT ignored, and every process inherits that. Tests
that press Ctrl-C must not depend on how pytest itself was started.
"""

import sys

_PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from proxy.cli.main import main
main()
"""
TERMINAL_COMMAND = (sys.executable, "-c", _PROGRAM)
