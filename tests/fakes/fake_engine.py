"""An engine's server without a model: health, slow streams, and faults on demand.

It runs as a script on the standard library alone, so that a start takes some tens of milliseconds.
``/health`` answers 200, ``/hang`` makes it hang from then on, ``/metrics`` always hangs, and
``/stream`` sends lines until done; with ``--streams-last`` it is not done before SIGTERM comes.
SIGTERM closes the port and lets streams finish.
"""

import argparse
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

PIECES = 20


def main() -> None:
    options = _options()
    if options.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.write(f"{options.say}\n" if options.say else "loading\n")
    sys.stdout.flush()
    if options.daemon:
        _start_daemon(Path(options.daemon))
    time.sleep(options.start_delay)
    if options.exit_code is not None:
        os._exit(options.exit_code)
    if options.kill_itself:
        os.kill(os.getpid(), signal.SIGKILL)
    FakeEngine(options).serve()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--say", default="")
    parser.add_argument("--start-delay", type=float, default=0.0)
    parser.add_argument("--piece-delay", type=float, default=0.02)
    parser.add_argument("--exit-code", type=int)
    parser.add_argument("--daemon", help="file for the id of a daemon that it starts")
    for flag in ("--kill-itself", "--ignore-sigterm", "--streams-last"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def _start_daemon(pid_file: Path) -> None:
    """Start a process in a session of its own, whose parent ends at once."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            pid_file.write_text(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    os.wait()
    while not (pid_file.exists() and pid_file.read_text()):
        time.sleep(0.005)


class FakeEngine:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._hangs = False
        self._stopping = threading.Event()
        self._streams: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", options.port), backlog=256)

    def serve(self) -> None:
        def stop(*_: object) -> None:
            self._stopping.set()
            self._listener.shutdown(socket.SHUT_RDWR)

        if not self._options.ignore_sigterm:
            signal.signal(signal.SIGTERM, stop)
        while not self._stopping.is_set():
            try:
                caller, _ = self._listener.accept()
            except OSError:
                break
            thread = threading.Thread(target=self._answer, args=(caller,), daemon=True)
            self._streams.append(thread)
            thread.start()
        self._listener.close()
        for thread in self._streams:
            thread.join()

    def _answer(self, caller: socket.socket) -> None:
        with caller:
            path = caller.recv(65_536).split(b" ")[1:2]
            if path == [b"/hang"]:
                self._hangs = True
            elif path == [b"/metrics"] or (path == [b"/health"] and self._hangs):
                time.sleep(600)
            caller.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
            if path == [b"/stream"]:
                if self._options.streams_last:
                    self._stopping.wait()
                for _ in range(PIECES):
                    caller.sendall(b"data: {}\n\n")
                    time.sleep(self._options.piece_delay)
                caller.sendall(b"data: [DONE]\n\n")


if __name__ == "__main__":
    main()
