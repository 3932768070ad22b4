"""Real engines behind a fleet's gateways: servers of the tiny model that a test may kill."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.profiles import Engine, EngineProfile
from tests.fakes.engine_profiles import tiny_models
from tests.fakes.free_port import free_port

_PATIENCE_S = 60.0


class RealReplicas:
    """Starts servers of the tiny model.

    Args:
        arguments: More flags of theirs.

    Attributes:
        processes: They, in the order of their start.
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._profiles: list[EngineProfile] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    @asynccontextmanager
    async def start(self) -> AsyncIterator[str]:
        """A server, once it is healthy."""
        number = len(self._profiles)
        self._profiles.append(_tiny_profile(self._arguments))
        self.processes.append(self._run(number))
        command = LLAMACPP.launch_command(self._profiles[number], python=sys.executable)
        try:
            await _wait_until_healthy(command.health_url)
            yield command.base_url
        finally:
            self._end(number)

    async def restart(self, number: int) -> None:
        """Kill a server, and start another at its address."""
        self._end(number)
        self.processes[number] = self._run(number)
        command = LLAMACPP.launch_command(self._profiles[number], python=sys.executable)
        await _wait_until_healthy(command.health_url)

    def _run(self, number: int) -> subprocess.Popen[bytes]:
        command = LLAMACPP.launch_command(self._profiles[number], python=sys.executable)
        return subprocess.Popen(command.argv, stderr=subprocess.DEVNULL)  # noqa: S603 - ours

    def _end(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()


def _tiny_profile(arguments: tuple[str, ...]) -> EngineProfile:
    return EngineProfile(
        name="house",
        engine=Engine.LLAMACPP,
        model=str(tiny_models() / "target.gguf"),
        served_name="house-llm",
        port=free_port(),
        gpus=0,
        max_model_len=4_096,
        max_sequences=4,
        extra_args=(
            *("--threads", "1", "--threads-batch", "1", "--threads-http", "2"),
            *arguments,
        ),
    )


async def _wait_until_healthy(url: str) -> None:
    until = time.monotonic() + _PATIENCE_S
    async with httpx2.AsyncClient(timeout=5) as client:
        while time.monotonic() < until:
            try:
                if (await client.get(url)).status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.05)
    raise AssertionError(url)
