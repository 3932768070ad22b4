# ruff: noqa: T201 - a script prints its result
"""Memory and good calls of a gateway while strangers without a key send it what they like.

Each attack runs against a gateway of its own, beside a caller whose calls are good. Growth is the
highest resident memory during the attack over the highest before it; both p50 are of the same run.

Usage: python -m tests.bench.strangers [ATTACK ...]
"""

import argparse
import http.client
import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.serve_process import ServeProcess, serve_process

#: Seconds after which an attack that the gateway holds back is given up.
_ATTACK_TIME_S = 20.0
#: Good calls before the attack, and the fewest beside it.
_WARM_CALLS = 150
_MIN_CALLS = 50
_PIPELINED = b"GET /v1/x HTTP/1.1\r\nhost:x\r\n\r\n"
_TINY_HEADERS = b"GET /v1/x HTTP/1.1\r\n" + b"a:b\r\n" * 11_000 + b"\r\n"
_CHUNKED = b"POST /v1/x HTTP/1.1\r\nhost:x\r\ntransfer-encoding:chunked\r\n\r\n"
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StrangersRow:
    """A gateway under one attack.

    Attributes:
        grown_mb: Growth of its resident memory.
        p50_before_ms: Of good calls before the attack.
        p50_ms: Of those beside it.
        slowest_ms: The slowest of those.
        sent_mb: Sent by the strangers.
    """

    grown_mb: float
    p50_before_ms: float
    p50_ms: float
    slowest_ms: float
    sent_mb: float


class _Attack:
    """Strangers who send until they are done, held back for too long, or told to stop."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.ends_at = time.monotonic() + _ATTACK_TIME_S
        self.sent = 0

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_at

    @contextmanager
    def connect(self) -> Iterator[socket.socket]:
        with closing(socket.create_connection(("127.0.0.1", self._port), 5)) as stranger:
            yield stranger

    def send(
        self, stranger: socket.socket, data: bytes, times: int = 1, *, is_reading: bool = False
    ) -> None:
        """Send these bytes so often, and read the answers meanwhile or nothing."""
        stranger.settimeout(0.01 if is_reading else 0.2)
        block = memoryview(data * max(1, min(times, _MEGABYTE // len(data))))
        left, offset = len(data) * times, 0
        with suppress(OSError):
            while left and not self.is_over:
                with suppress(TimeoutError):
                    size = stranger.send(block[offset : offset + left])
                    self.sent += size
                    left, offset = left - size, (offset + size) % len(block)
                with suppress(TimeoutError):
                    if is_reading:
                        stranger.recv(_MEGABYTE)

    def send_each(self, data: bytes, connections: int) -> None:
        """Send these bytes on so many connections, one after the other, and read the answers."""
        for _ in range(connections):
            if self.is_over:
                return
            with suppress(OSError), self.connect() as stranger:
                self.send(stranger, data)
                stranger.settimeout(5)
                stranger.recv(65_536)

    def send_at_once(self, data: bytes, connections: int, times: int = 1) -> None:
        """Send these bytes on so many connections that all stay open, and read nothing."""
        with ExitStack() as opened:
            for _ in range(connections):
                stranger = opened.enter_context(self.connect())
                stranger.setblocking(False)  # noqa: FBT003 - its only parameter
                with suppress(OSError):
                    self.sent += stranger.send(data * times)
            time.sleep(3)


ATTACKS: dict[str, Callable[[_Attack], None]] = {}


def _attack(name: str) -> Callable[[Callable[[_Attack], None]], Callable[[_Attack], None]]:
    def add(work: Callable[[_Attack], None]) -> Callable[[_Attack], None]:
        ATTACKS[name] = work
        return work

    return add


@_attack("1,000,000 requests in a pipeline")
def _million(attack: _Attack) -> None:
    with attack.connect() as stranger:
        attack.send(stranger, _PIPELINED, 1_000_000)


@_attack("300,000 requests in a pipeline")
def _thousands(attack: _Attack) -> None:
    with attack.connect() as stranger:
        attack.send(stranger, _PIPELINED, 300_000)


@_attack("300,000 requests in a pipeline, answers read")
def _honest_thousands(attack: _Attack) -> None:
    with attack.connect() as stranger:
        attack.send(stranger, _PIPELINED, 300_000, is_reading=True)


@_attack("pipelines on 300 connections")
def _pipelines(attack: _Attack) -> None:
    attack.send_at_once(_PIPELINED, 300, 50_000)


@_attack("11,000 tiny headers, 2,000 times")
def _tiny_headers(attack: _Attack) -> None:
    attack.send_each(_TINY_HEADERS, 2_000)


@_attack("heads of 60 KB without end on 400 connections")
def _half_heads(attack: _Attack) -> None:
    head = b"GET / HTTP/1.1\r\n" + b"x: %b\r\n" % (b"y" * 1000) * 60
    attack.send_at_once(head, 400)


@_attack("heads without end, 500 times")
def _endless_heads(attack: _Attack) -> None:
    attack.send_each(b"GET /" + b"x" * _MEGABYTE, 250)
    attack.send_each(b"GET / HTTP/1.1\r\nx:" + b"x" * _MEGABYTE, 250)


@_attack("trailers and chunk extensions without end")
def _endless_chunks(attack: _Attack) -> None:
    attack.send_each(_CHUNKED + b"0\r\n" + b"a:b\r\n" * 200_000, 100)
    attack.send_each(_CHUNKED + b"1;" + b"x" * _MEGABYTE, 100)
    attack.send_each(_CHUNKED + b"1;x=y\r\nz\r\n" * 100_000, 20)


class _Watch:
    """The process's highest resident memory, seen every few milliseconds."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._done = threading.Event()
        self.highest = self._process.memory_info().rss

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.01):
            self.highest = max(self.highest, self._process.memory_info().rss)


def _good_calls(gateway: ServeProcess, is_enough: Callable[[int], bool]) -> list[float]:
    """Seconds of good calls, one after the other on one connection, until they are enough."""
    body = json.dumps({"model": "gpt-lab", "messages": [{"role": "user", "content": "hello"}]})
    headers = {"authorization": f"Bearer {gateway.key}", "content-type": "application/json"}
    times: list[float] = []
    with closing(http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)) as caller:
        while not is_enough(len(times)):
            begun = time.perf_counter()
            caller.request("POST", "/v1/chat/completions", body, headers)
            answer = caller.getresponse()
            answer.read()
            assert answer.status == 200
            times.append(time.perf_counter() - begun)
    return times


def measure(gateway: ServeProcess, name: str) -> StrangersRow:
    """Run one attack on a running gateway, beside good calls."""
    before = _Watch(gateway.pid)
    with before.running():
        first = _good_calls(gateway, lambda calls: calls >= _WARM_CALLS)
    attack = _Attack(gateway.port)
    strangers = threading.Thread(target=ATTACKS[name], args=(attack,))
    during = _Watch(gateway.pid)
    with during.running():
        strangers.start()
        beside = _good_calls(
            gateway, lambda calls: calls >= _MIN_CALLS and not strangers.is_alive()
        )
        strangers.join()
    return StrangersRow(
        grown_mb=(during.highest - before.highest) / 1e6,
        p50_before_ms=1e3 * median(first[-100:]),
        p50_ms=1e3 * median(beside),
        slowest_ms=1e3 * max(beside),
        sent_mb=attack.sent / 1e6,
    )


def run_attack(name: str) -> StrangersRow:
    """Run one attack on a gateway of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_in_thread(lambda: running_simulator(Path(folder), time_scale=0)) as (_, catalog),
        serve_process(Path(folder), catalog) as gateway,
    ):
        gateway.start()
        return measure(gateway, name)


def main() -> None:
    """Print a row per attack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attacks", nargs="*", choices=[[], *ATTACKS], default=[])
    print("| strangers send | sent, MB | memory, MB | good calls p50, ms | before | slowest |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in parser.parse_args().attacks or ATTACKS:
        row = run_attack(name)
        print(
            f"| {name} | {row.sent_mb:.1f} | {row.grown_mb:+.1f} | {row.p50_ms:.1f}"
            f" | {row.p50_before_ms:.1f} | {row.slowest_ms:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
