"""Real engines for tests: llama.cpp's server on the tiny model of the engine demo, supervised."""

import asyncio
import importlib.util
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.profiles import Engine, EngineProfile, Speculation, SpeculativeMethod
from proxy.engines.supervision.supervised_replica import SupervisionSettings
from proxy.engines.supervision.supervisor import EngineSupervisor
from proxy.errors import how_to_install
from proxy.tools.engine_demo.profiles import model_file
from tests.fakes.engines import QUICK, real_ports
from tests.fakes.free_port import free_port

T = TypeVar("T")

needs_wheel = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None,
    reason=f"the extra [local] is not installed: {how_to_install('local')}",
)
DRAFT = Speculation(
    method=SpeculativeMethod.DRAFT_MODEL, draft=str(model_file("draft.gguf")), tokens=4
)
NGRAM = Speculation(method=SpeculativeMethod.NGRAM, tokens=8, ngram_max=4)
_ONE_THREAD = ("--threads", "1", "--threads-batch", "1", "--threads-http", "2")
#: A real engine takes a third of a second to start, and more on a busy machine.
PATIENT = replace(QUICK, health_interval_s=0.1)


def tiny_profile(speculation: Speculation | None = None) -> EngineProfile:
    """The tiny model on a free port, with two slots of 2,048 tokens and one thread."""
    return EngineProfile(
        name="tiny",
        engine=Engine.LLAMACPP,
        model=str(model_file("target.gguf")),
        served_name="tiny",
        port=free_port(),
        gpus=0,
        max_model_len=2_048,
        max_sequences=2,
        speculation=speculation,
        extra_args=_ONE_THREAD,
    )


def supervise_engine(
    profile: EngineProfile,
    folder: Path,
    story: Callable[[EngineSupervisor], Awaitable[T]],
    settings: SupervisionSettings = PATIENT,
) -> tuple[EngineSupervisor, T]:
    """Play a story beside a supervised engine, which is stopped after it; its result."""

    async def both() -> tuple[EngineSupervisor, T]:
        command = LLAMACPP.launch_command(profile, python=sys.executable)
        supervisor = EngineSupervisor([command], folder, real_ports(), settings, lambda _: None)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(supervisor.run())
            try:
                result = await story(supervisor)
            finally:
                supervisor.stop()
            await running
        return supervisor, result

    return asyncio.run(both())
