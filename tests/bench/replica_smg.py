"""The cache-aware policy of SGLang's router or of SMG, as its own program before simulated workers.

Time is simulated, so the program is asked one call at a time: it forwards the call to a worker,
which holds its answer until the simulation says that the call has ended. What the program sees of
load, calls under way per worker, is thereby exact. Blocks of a trace are sent as short texts; the
size of its tree is scaled in proportion.
"""

import asyncio
import logging
import socket
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, Self

import aiohttp
from aiohttp import web

from tests.bench.replica_simulation import ReplicaCall, SimulatedReplica
from tests.fakes.free_port import free_port

#: Characters that stand for one block of a trace, and characters of a token in its own default.
_CHARACTERS: Final = 16
_PER_TOKEN: Final = 4
#: ``--max-tree-size``, its default.
_TREE_CHARACTERS: Final = 67_108_864
_START_S: Final = 60.0


class RouterProgram:
    """`PROGRAM launch --policy cache_aware`, all thresholds at their defaults.

    Args:
        program: That of `pip install sglang-router`, or of `pip install smg`.
        replicas: Number of workers.
        block: Tokens of a block of the traffic.
    """

    def __init__(self, program: Path, replicas: int, block: int) -> None:
        self._program = program
        self._replicas = replicas
        self._block = block
        self._loop = asyncio.new_event_loop()
        self._arrived: asyncio.Queue[tuple[int, asyncio.Event]] = asyncio.Queue()
        self._runners: list[web.AppRunner] = []
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__

    def __enter__(self) -> Self:
        self._loop.run_until_complete(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._stop())
        self._loop.close()
        self._log.close()

    def place(
        self, call: ReplicaCall, replicas: list[SimulatedReplica], now: float
    ) -> tuple[int, object]:
        """Send it through the program; the worker that gets it is the choice."""
        return self._loop.run_until_complete(self._place(call))

    def begin_answer(self, token: object, now: float, cached: int) -> None:
        """It does not look at first tokens."""

    def end(self, token: object, now: float) -> None:
        """Let the worker answer, and wait until the program has passed it on."""
        assert isinstance(token, tuple)
        self._loop.run_until_complete(_finish(*token))

    async def _start(self) -> None:
        logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # it tries HTTP/2 first
        ports = [await self._worker(number) for number in range(self._replicas)]
        port, metrics = free_port(), free_port()
        tree = _TREE_CHARACTERS * _CHARACTERS // (self._block * _PER_TOKEN)
        urls = [f"http://127.0.0.1:{each}" for each in ports]
        argv = [str(self._program), "launch", "--worker-urls", *urls, "--port", str(port)]
        argv += ["--host", "127.0.0.1", "--prometheus-port", str(metrics)]
        argv += ["--policy", "cache_aware", "--max-tree-size", str(tree)]
        argv += ["--eviction-interval-secs", "1", "--worker-startup-check-interval", "1"]
        argv += ["--max-concurrent-requests", "-1", "--log-level", "error"]
        self._process = await asyncio.create_subprocess_exec(
            *argv, stdout=self._log, stderr=self._log
        )
        self._url = f"http://127.0.0.1:{port}/generate"
        limit = aiohttp.TCPConnector(limit=0)
        self._client = aiohttp.ClientSession(connector=limit)
        async with asyncio.timeout(_START_S):
            await self._await_ready(f"http://127.0.0.1:{port}/readiness")
        await asyncio.sleep(2)  # workers are registered one by one

    async def _await_ready(self, url: str) -> None:
        for _ in count():
            with suppress(aiohttp.ClientError, OSError):
                async with self._client.get(url) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.2)

    async def _stop(self) -> None:
        self._process.kill()
        await self._process.wait()
        await self._client.close()
        for runner in self._runners:
            await runner.cleanup()

    async def _worker(self, number: int) -> int:
        async def generate(request: web.Request) -> web.Response:
            await request.read()
            done = asyncio.Event()
            self._arrived.put_nowait((number, done))
            await done.wait()
            return web.json_response({"text": "ok", "meta_info": {}})

        async def model_info(_: web.Request) -> web.Response:
            return web.json_response({"model_path": "m", "model_id": "m", "status": "ok"})

        app = web.Application(client_max_size=2**28)
        app.router.add_post("/generate", generate)
        app.router.add_get("/{any:.*}", model_info)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        self._runners.append(runner)
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        await web.SockSite(runner, listening).start()
        return int(listening.getsockname()[1])

    async def _place(self, call: ReplicaCall) -> tuple[int, object]:
        text = "".join(link.hex()[-_CHARACTERS:] for link in call.blocks)
        sent = asyncio.ensure_future(self._send(text))
        async with asyncio.timeout(30):
            number, done = await self._arrived.get()
        return number, (done, sent)

    async def _send(self, text: str) -> None:
        async with self._client.post(self._url, json={"text": text}) as answer:
            await answer.read()
            assert answer.status == 200, answer.status


async def _finish(done: asyncio.Event, sent: "asyncio.Future[None]") -> None:
    done.set()
    await sent
