"""The output of one replica: its last lines in memory, more of it in a bounded, rotated file.

An engine prints what callers send and what libraries colour. Nothing of it may steer a terminal or
forge a line of a log, so each control character is escaped before it is kept.
"""

import codecs
import logging
import os
import re
from collections import deque
from pathlib import Path
from typing import Final

_log = logging.getLogger("thriftgate")

#: Lines that are held in memory.
MAX_LINES: Final = 200
_MAX_LINE_CHARS: Final = 2_000
_MAX_FILE_BYTES: Final = 4 << 20
#: Older files that are kept beside the one that is written.
_OLDER_FILES: Final = 2
#: The last line of a Python traceback, behind the name of a process of vLLM.
_EXCEPTION: Final = re.compile(r"(?:\(\w+ pid=\d+\) )?((?:\w+\.)*\w*(?:Error|Exception): .+)")
#: An exception that only passes on the one of another process.
#: Source: vLLM, vllm/v1/engine/utils.py, wait_for_engine_startup, 0.23.0 (2026-11).
_PASSED_ON: Final = "See root cause above"
_MAX_CAUSE_CHARS: Final = 400
#: Colours and other ANSI control sequences.
_ANSI: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def harmless_line(text: str) -> str:
    """A line without colours, its control characters escaped, cut where it is very long.

    A carriage return starts the line again, as progress bars use it.
    """
    text = _ANSI.sub("", text.rstrip("\r").rpartition("\r")[2]).expandtabs(4)
    if len(text) > _MAX_LINE_CHARS:
        text = f"{text[:_MAX_LINE_CHARS]}…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class EngineLog:
    """Keeps the output of one replica, over all its restarts.

    Args:
        path: Its file, readable by its owner alone; older ones end in ``.1`` and ``.2``.
        max_bytes: Size at which a new file is begun.
    """

    def __init__(self, path: Path, max_bytes: int = _MAX_FILE_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._decoder = codecs.getincrementaldecoder("utf8")("backslashreplace")
        self._unfinished = ""
        self._file: int | None = None
        self._size = 0
        self._failed = False

    def feed(self, output: bytes) -> None:
        """Keep output of the engine, as it comes."""
        *lines, rest = (self._unfinished + self._decoder.decode(output)).split("\n")
        self._unfinished = harmless_line(rest) if len(rest) > _MAX_LINE_CHARS else rest
        self._keep([harmless_line(line) for line in lines])

    def finish(self) -> None:
        """Keep what stands after the last line end; the process has ended."""
        rest, self._unfinished = self._unfinished + self._decoder.decode(b"", final=True), ""
        self._decoder.reset()
        if rest:
            self._keep([harmless_line(rest)])

    def tail(self, count: int = MAX_LINES) -> tuple[str, ...]:
        """The last lines, the latest last; empty ones are left out."""
        return tuple([line for line in self._lines if line.strip()][-count:])

    def begin_run(self) -> None:
        """Forget the lines in memory; the file keeps them. The engine starts anew."""
        self._lines.clear()

    def last_exception(self) -> str:
        """The last line of this run's last Python traceback; "" for none.

        Processes that only pass on the failure of another one are left out: vLLM's API server ends
        with a long traceback after that of its engine core, which has the cause.
        """
        for line in reversed(self._lines):
            exception = _EXCEPTION.fullmatch(line)
            if exception and _PASSED_ON not in line:
                text = exception[1].rstrip(". ")
                is_long = len(text) > _MAX_CAUSE_CHARS
                return f"{text[:_MAX_CAUSE_CHARS].rstrip()}…" if is_long else text
        return ""

    def close(self) -> None:
        """Close the file; more output opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _keep(self, lines: list[str]) -> None:
        self._lines.extend(lines)
        if not lines:
            return
        try:
            self._write("".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            self.close()
            if not self._failed:
                _log.warning("The engine's log %s cannot be written: %s", self.path, error.strerror)
            self._failed = True
        else:
            self._failed = False

    def _write(self, text: bytes) -> None:
        if self._file is not None and self._size + len(text) > self._max_bytes:
            self._rotate()
        if self._file is None:
            self._file = _open_private(self.path)
            self._size = os.fstat(self._file).st_size
        os.write(self._file, text)
        self._size += len(text)

    def _rotate(self) -> None:
        self.close()
        for number in range(_OLDER_FILES, 0, -1):
            older = self.path if number == 1 else _older_path(self.path, number - 1)
            if older.exists():
                older.replace(_older_path(self.path, number))


def _older_path(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _open_private(path: Path) -> int:
    """A descriptor of the file for appending; only its owner can read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(path, flags, 0o600)
    os.fchmod(file, 0o600)
    return file
