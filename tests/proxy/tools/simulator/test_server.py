"""The simulator on a real port: what only a socket shows."""

import asyncio
import logging
import time
from typing import Any

import httpx
import pytest
import uvloop

from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatorSettings
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.plain_http import PLAIN
from tests.proxy.tools.simulator.scene import SimulatorHarness, user

MODEL = "gpt-6.1-sol"
HEADERS = {"authorization": "Bearer sk"}
#: Seconds for which a caller waits where nothing will come.
SHORT_PATIENCE_S = 0.8


@pytest.fixture
def scene(vocabulary: Vocabulary) -> SimulatorHarness:
    return SimulatorHarness(vocabulary, time_scale=0)


async def read_stream(
    base: str, cues: str, patience: float = 60, **fields: Any
) -> tuple[bytes, str]:
    """Return what arrived of a chat answer, and the name of the error that ended it.

    Args:
        patience: Seconds that it waits for the next bytes.
    """
    arrived = b""
    body = {"model": MODEL, "messages": [user("Hello")], "stream": True} | fields
    async with httpx.AsyncClient(
        timeout=httpx.Timeout(60, read=patience),
        headers=HEADERS | {"x-simulator-fault": cues},
        verify=PLAIN,
    ) as client:
        try:
            async with client.stream("POST", f"{base}/chat/completions", json=body) as answer:
                async for piece in answer.aiter_raw():
                    arrived += piece
        except httpx.TransportError as error:
            return arrived, type(error).__name__
    return arrived, ""


def loops() -> list[Any]:
    return [pytest.param(asyncio.run, id="asyncio"), pytest.param(uvloop.run, id="uvloop")]


@pytest.mark.parametrize("run", loops())
@pytest.mark.parametrize(
    ("cues", "events", "error"),
    [
        ("death", 3, "ReadError"),
        ("death=0", 1, "ReadError"),
        ("death-before-content", 0, "ReadError"),
        ("stall=1", 2, "ReadTimeout"),
        ("silence", 0, "ReadTimeout"),
        ("hang", 0, "ReadTimeout"),
        ("short=1", 2, ""),
    ],
)
def test_a_stream_breaks_as_cued_and_nothing_is_logged(
    scene: SimulatorHarness,
    caplog: pytest.LogCaptureFixture,
    run: Any,
    cues: str,
    events: int,
    error: str,
) -> None:
    caplog.set_level(logging.WARNING)

    async def act() -> None:
        async with serving(app(scene.lab)) as base:
            patience = SHORT_PATIENCE_S if error == "ReadTimeout" else 60
            arrived, broken_by = await read_stream(base, cues, patience)
            assert (arrived.count(b"\n\n"), broken_by) == (events, error)
            exchange = scene.lab.exchanges[-1]
            await exchange.over.wait()
            assert exchange.hung_up is (error == "ReadTimeout")
            assert (await read_stream(base, ""))[0].endswith(b"data: [DONE]\n\n")

    run(act())
    assert caplog.records == []


@pytest.mark.parametrize(
    ("cues", "error"),
    [("death", "ReadError"), ("death-before-content", "ReadError"), ("stall", "ReadTimeout")],
)
def test_a_json_answer_breaks_as_cued(scene: SimulatorHarness, cues: str, error: str) -> None:
    async def act(base: str) -> None:
        patience = SHORT_PATIENCE_S if error == "ReadTimeout" else 60
        arrived, broken_by = await read_stream(base, cues, patience, stream=False)
        assert broken_by == error
        assert not arrived.endswith(b"}")

    scene.on_a_port(act)


def test_keep_alives_go_on_until_the_client_leaves(scene: SimulatorHarness) -> None:
    async def act(base: str) -> None:
        body = {"model": MODEL, "messages": [user("Hello")], "stream": True}
        headers = HEADERS | {"x-simulator-fault": "keepalives"}
        async with (
            httpx.AsyncClient(headers=headers, verify=PLAIN) as client,
            client.stream("POST", f"{base}/chat/completions", json=body) as answer,
        ):
            arrived = b""
            async for piece in answer.aiter_raw():
                arrived += piece
                if len(arrived) > 100:
                    break
        await scene.lab.exchanges[-1].over.wait()
        assert scene.lab.exchanges[-1].hung_up
        assert set(arrived.split(b"\n\n")) <= {b": keep-alive", b""}

    scene.on_a_port(act)


def test_waiting_ends_when_the_client_leaves(vocabulary: Vocabulary) -> None:
    """The simulator would wait an hour for its first token; it does not."""

    async def act() -> None:
        lab = Simulator(
            SimulatorSettings(time_scale=10_000),
            clock=time.monotonic,
            sleep=asyncio.sleep,
            vocabulary=vocabulary,
        )
        async with serving(app(lab)) as base:
            _, error = await read_stream(base, "", SHORT_PATIENCE_S)
            await lab.exchanges[-1].over.wait()
            assert error == "ReadTimeout"
            assert lab.exchanges[-1].usage is None

    asyncio.run(act())


def test_leaving_the_server_cuts_who_still_waits(scene: SimulatorHarness) -> None:
    body = {"model": MODEL, "messages": [user("Hello")], "stream": True}
    headers = HEADERS | {"x-simulator-fault": "silence"}

    async def act() -> None:
        async with httpx.AsyncClient(headers=headers, verify=PLAIN) as client:
            async with serving(app(scene.lab)) as base:
                asking = client.build_request("POST", f"{base}/chat/completions", json=body)
                answer = await client.send(asking, stream=True)
            with pytest.raises(httpx.TransportError):
                await answer.aread()

    asyncio.run(act())
    assert scene.lab.exchanges[-1].over.is_set()
