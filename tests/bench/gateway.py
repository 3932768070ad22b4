"""Cost of the gateway in latency, throughput, streams and memory; beside the upstream and nginx.

The gateway (or nginx) has one core to itself; the canned upstream and the load share the other.
Every figure of a row was measured in the same run. With ``--beside`` the gateway of an older commit
is measured, too, by turns with today's, each with its default settings: medians of three rounds.
Usage: python -m tests.bench.gateway [--quick] [--beside COMMIT]
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, repeat
from pathlib import Path
from statistics import median, quantiles
from typing import IO

import psutil
import uvloop

from tests.bench.planning import prose
from tests.bench.planning_instructions import extract_commit
from tests.bench.wire import EVENTS, load, upstream
from tests.fakes.free_port import free_port

_ROOT = Path(__file__).parents[2]
_ROUNDS = 3
PROMPTS = {"200 B": 200, "32 KB": 32 * 1024, "128 KB": 128 * 1024}
#: Conversations that grow by turns, the calls of each before another takes its place, and bytes of
#: a message, two of which each call adds.
_CONVERSATIONS, _CALLS, _MESSAGE = 32, 8, 2048
CATALOG = """
[upstreams.bench]
kind = "openai"
base_url = "http://127.0.0.1:{port}/v1"

[[models]]
id = "bench"
upstream = "bench"
price = {{ input = "1.00", cache_read = "0.10", output = "4.00" }}
"""
NGINX = """
daemon off; worker_processes 1; error_log stderr error; pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  client_body_buffer_size 1m; client_max_body_size 32m; keepalive_requests 100000000;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream bench {{ server 127.0.0.1:{upstream}; keepalive 128; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://bench; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; tcp_nodelay on;
    }}
  }}
}}
"""


def request(size: int, key: str, *, is_stream: bool, model: str = "bench") -> bytes:
    """A chat call whose prompt is about this many bytes."""
    options = {"stream_options": {"include_usage": True}} if is_stream else {}
    text = ("What is this about? " * (size // 20 + 1))[:size]
    messages = [
        {"role": "system", "content": "Answer in four words."},
        {"role": "user", "content": text},
    ]
    fields = {"model": model, "stream": is_stream, **options, "messages": messages}
    return _chat_call(key, json.dumps(fields, separators=(",", ":")))


def growing_requests(size: int, key: str) -> Iterator[bytes]:
    """Calls of many conversations by turns, of about this many bytes on average."""
    chance = random.Random(size)  # noqa: S311 - words
    text = prose(chance, 2**20)
    first = size // _MESSAGE - _CALLS
    talks: list[list[str]] = [[] for _ in range(_CONVERSATIONS)]
    for number in count():
        turn, index = divmod(number, _CONVERSATIONS)
        talk, calls_before = talks[index], (turn + index) % _CALLS
        if not calls_before:
            talk.clear()
        while len(talk) < first + 2 * calls_before:
            role = ("user" if len(talk) % 2 else "assistant") if talk else "system"
            start = chance.randrange(len(text) - _MESSAGE)
            talk.append(json.dumps({"role": role, "content": text[start : start + _MESSAGE]}))
        yield _chat_call(key, f'{{"model":"bench","messages":[{",".join(talk)}]}}')


def _chat_call(key: str, body: str) -> bytes:
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"authorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return (head + body).encode()


@contextmanager
def process(
    arguments: list[str],
    core: int | None,
    port: int,
    errors: IO[bytes] | None = None,
    /,
    **environment: str,
) -> Iterator[int]:
    """A child on one core (None for all), once its port answers; its process id.

    Args:
        errors: A file for what it writes to stderr, the end of which is shown if it does not start.

    Raises:
        SystemExit: If it ends before it listens, or does not listen in time.
    """
    child = subprocess.Popen(  # noqa: S603 - our own commands
        arguments,
        env={**os.environ, **environment},  # noqa: TID251 - a child needs ours
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )
    if core is not None:
        os.sched_setaffinity(child.pid, {core})
    try:
        wait_until_listening(port, child.poll, errors)
        yield child.pid
    finally:
        child.terminate()
        child.wait(30)


def end_children_when_terminated() -> None:
    """Let SIGTERM leave through every `finally`, as Ctrl-C does, so that no child outlives us."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def wait_until_listening(
    port: int, exit_status: Callable[[], int | None], errors: IO[bytes] | None = None
) -> None:
    """Wait until a child takes connections.

    Args:
        exit_status: The child's; None while it runs.

    Raises:
        SystemExit: If it ended, or does not listen in time, with the end of what it wrote.
    """
    for _ in range(1200):
        if (status := exit_status()) is not None:
            raise SystemExit(
                f"It ended with {status} before it listened on port {port}{_end(errors)}"
            )
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"Nothing listens on port {port}{_end(errors)}")


def _end(errors: IO[bytes] | None) -> str:
    return "." if errors is None else f":\n{Path(errors.name).read_text()[-2000:]}"


def measure(port: int, key: str, seconds: float, pid: int) -> dict[str, float]:
    """All figures of one target, the process of which has this id."""
    figures: dict[str, float] = {}

    def busiest(name: str, calls: Iterator[bytes], connections: int) -> float:
        """Calls a second, and the processor time of one."""
        before = processor(pid)
        answered = len(run(port, calls, connections, seconds)) / 0.8
        figures[f"{name} CPU ms"] = (processor(pid) - before) / answered * 1000
        return answered / seconds

    for name, size in PROMPTS.items():
        call = request(size, key, is_stream=False)
        for connections in (1, 16):
            timing = run(port, repeat(call), connections, seconds)
            figures[f"{name} p50 c{connections}"] = median(timing) * 1000
            figures[f"{name} p99 c{connections}"] = quantiles(timing, n=100)[98] * 1000
        figures[f"{name} rps c64"] = busiest(name, repeat(call), 64)
        if size > _CALLS * _MESSAGE:
            growing, calls = f"{name} growing", growing_requests(size, key)
            run(port, calls, 16, seconds)  # their first calls
            figures[f"{growing} rps c16"] = busiest(growing, calls, 16)
    streams = busiest("stream", repeat(request(200, key, is_stream=True)), 16)
    figures["streams/s c16"] = streams
    figures["events/s c16"] = streams * EVENTS
    return figures


def run(
    port: int, calls: Iterator[bytes], connections: int, seconds: float, rate: float = 0.0
) -> list[float]:
    """Seconds of each call; the arguments are those of ``load``."""
    return uvloop.run(load(port, calls, connections, seconds, rate))


def memory(pid: int) -> float:
    """Resident megabytes of a process and its children."""
    root = psutil.Process(pid)
    every = [root, *root.children(recursive=True)]
    return sum(float(sample.memory_info().rss) for sample in every) / 1e6


def processor(pid: int) -> float:
    """Seconds of processor time a process and its children have taken."""
    root = psutil.Process(pid)
    every = [root, *root.children(recursive=True)]
    return sum(times.user + times.system for times in (sample.cpu_times() for sample in every))


def gateway_key(environment: dict[str, str]) -> str:
    """A key of a new team."""
    made = subprocess.run(  # noqa: S603 - our own command
        [command(), "key", "create", "--team", "bench", "--quiet"],
        env={**os.environ, **environment},  # noqa: TID251 - a child needs ours
        check=True,
        capture_output=True,
        text=True,
    )
    return made.stdout.strip()


def command() -> str:
    return str(Path(sys.executable).with_name("thriftgate"))


def targets(folder: Path, seconds: float, beside: str = "") -> dict[str, dict[str, float]]:
    """Every target's figures, one after the other; ``beside`` is a commit, or ""."""
    figures: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        behind = free_port()
        me = [sys.executable, "-m", "tests.bench.gateway", "--upstream", str(behind)]
        origin = stack.enter_context(process(me, 1, behind))
        figures["direct"] = measure(behind, "none", seconds, origin)
        if nginx := shutil.which("nginx"):
            port = free_port()
            config = folder / "nginx.conf"
            config.write_text(NGINX.format(folder=folder, upstream=behind, port=port))
            with process([nginx, "-c", str(config), "-p", str(folder)], 0, port) as pid:
                figures["nginx"] = measure(port, "none", seconds, pid) | {"memory MB": memory(pid)}
        catalog = folder / "catalog.toml"
        catalog.write_text(CATALOG.format(port=behind))
        trees = {"thriftgate": _ROOT}
        if beside:
            older = stack.enter_context(tempfile.TemporaryDirectory())
            trees = {beside: extract_commit(beside, older), **trees}
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
        for number in range(_ROUNDS if beside else 1):
            for name, tree in trees.items():
                own = folder / f"{name}.{number}"
                rounds[name].append(measure_gateway(own, catalog, seconds, tree))
    return figures | {name: _medians(measured) for name, measured in rounds.items()}


def measure_gateway(folder: Path, catalog: Path, seconds: float, tree: Path) -> dict[str, float]:
    """All figures of a gateway whose code is in this tree."""
    port = free_port()
    environment = {
        "PYTHONPATH": str(tree),
        "THRIFTGATE_FOLDER": str(folder),
        "THRIFTGATE_CATALOG": str(catalog),
        "THRIFTGATE_PORT": str(port),
    }
    key = gateway_key(environment)
    with process([command(), "serve"], 0, port, **environment) as pid:
        return measure(port, key, seconds, pid) | {"memory MB": memory(pid)}


def _medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: median(figures[name] for figures in rounds) for name in rounds[0]}


def format_table(figures: dict[str, dict[str, float]], beside: str = "") -> str:
    """The figures as a table, with what was added over direct, or the ratio to an older commit."""
    names = list(figures["thriftgate"])
    width = max(map(len, names))
    last = f"÷ {beside}" if beside else "added"
    lines = [" " * width + "".join(f"{target:>14}" for target in figures) + f"{last:>14}"]
    for name in names:
        row = "".join(f"{figures[target].get(name, float('nan')):>14,.2f}" for target in figures)
        own = figures["thriftgate"][name]
        added = own - figures["direct"].get(name, float("nan"))
        shown = own / figures[beside][name] if beside else added
        lines.append(f"{name:<{width}}{row}" + f"{shown:>14,.2f}" * (bool(beside) or " p" in name))
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="one second a figure, not five")
    options.add_argument("--beside", metavar="COMMIT", default="", help="measure it by turns")
    options.add_argument("--upstream", type=int, help="be the canned upstream on this port")
    chosen = options.parse_args()
    if chosen.upstream:
        uvloop.run(upstream(chosen.upstream))
        return
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory() as folder:
        figures = targets(Path(folder), 1.0 if chosen.quick else 5.0, chosen.beside)
    print(format_table(figures, chosen.beside))  # noqa: T201 - a script's result
    print(json.dumps(figures))  # noqa: T201 - the same for machines


if __name__ == "__main__":
    main()
