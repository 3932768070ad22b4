"""The simulator on a real port: what only a socket shows, and the providers' own SDKs."""

import asyncio
import logging
import time
from typing import Any

import httpx
import openai
import pytest
import uvloop
from pydantic import BaseModel

from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatorSettings
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.plain_http import PLAIN
from tests.proxy.tools.simulator.scene import CLAUDE_TOOL, NOTES, TOOL, SimulatorHarness, user

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


class Verdict(BaseModel):
    approved: bool
    reason: str


def test_the_openai_sdk_works_against_it(scene: SimulatorHarness) -> None:
    async def act(base: str) -> None:
        client = openai.AsyncOpenAI(base_url=base, api_key="sk")
        answer = await client.chat.completions.create(model=MODEL, messages=[user(NOTES)])
        assert answer.usage is not None
        assert answer.system_fingerprint == "fp_simulated"

        stream = await client.chat.completions.create(
            model=MODEL,
            messages=[user(NOTES)],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == answer.choices[0].message.content
        usage = chunks[-1].usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        assert usage.prompt_tokens_details.cached_tokens
        assert usage.prompt_tokens == answer.usage.prompt_tokens

        parsed = await client.chat.completions.parse(
            model=MODEL, messages=[user("Approve?")], response_format=Verdict
        )
        assert isinstance(parsed.choices[0].message.parsed, Verdict)
        await client.close()

    scene.on_a_port(act)


def test_the_openai_sdk_streams_tools_and_responses(scene: SimulatorHarness) -> None:
    async def act(base: str) -> None:
        client = openai.AsyncOpenAI(base_url=base, api_key="sk")
        async with client.chat.completions.stream(
            model=MODEL, messages=[user("Go [[fault:call]]")], tools=[TOOL]
        ) as stream:
            final = await stream.get_final_completion()
        calls = final.choices[0].message.tool_calls
        assert calls is not None
        assert calls[0].function.name == "read_file"

        async with client.responses.stream(model=MODEL, input="Hello") as responding:
            kinds = [event.type async for event in responding]
            response = await responding.get_final_response()
        assert kinds[-1] == "response.completed"
        assert response.output_text.startswith("[simulated]")
        typed = await client.responses.parse(model=MODEL, input="Approve?", text_format=Verdict)
        assert isinstance(typed.output_parsed, Verdict)
        await client.close()

    scene.on_a_port(act)


def test_the_openai_sdk_works_without_a_loop(scene: SimulatorHarness) -> None:
    def calls(base: str) -> None:
        with openai.OpenAI(base_url=base, api_key="sk") as client:
            vectors = client.embeddings.create(model="text-embedding-3-small", input=["a", "b"])
            assert len(vectors.data[1].embedding) == 1536
            assert client.completions.create(model=MODEL, prompt="a").choices[0].text
            assert MODEL in {model.id for model in client.models.list()}
            assert client.models.retrieve(MODEL).owned_by == "thriftgate-simulator"
            assert client.moderations.create(input="a").results[0].flagged is False
            assert list(client.files.list()) == []
            stream: Any = client.chat.completions.create(
                model=MODEL, messages=[user("a")], stream=True
            )
            assert all(chunk.usage is None for chunk in stream)

    async def act(base: str) -> None:
        await asyncio.to_thread(calls, base)

    scene.on_a_port(act)


def test_the_openai_sdk_retries_what_may_pass_and_raises_what_does_not(
    scene: SimulatorHarness,
) -> None:
    async def act(base: str) -> None:
        client = openai.AsyncOpenAI(base_url=base, api_key="sk", max_retries=1)
        scene.lab.queue_directives(["429=0.01"])
        await client.embeddings.create(model="text-embedding-3-small", input="a")
        assert [exchange.status for exchange in scene.lab.exchanges] == [429, 200]

        scene.lab.queue_directives(["quota"])
        with pytest.raises(openai.RateLimitError) as spent:
            await client.moderations.create(input="a")
        assert spent.value.code == "insufficient_quota"
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="gpt-nope", messages=[user("a")])
        await client.close()

    scene.on_a_port(act)


def test_the_anthropic_sdk_works_against_it(scene: SimulatorHarness) -> None:
    anthropic = pytest.importorskip("anthropic", reason="the Anthropic SDK is not installed")

    async def act(base: str) -> None:
        client = anthropic.AsyncAnthropic(
            base_url=base.removesuffix("/v1"), api_key="sk", max_retries=0
        )
        thinking = {"type": "enabled", "budget_tokens": 1024}
        async with client.messages.stream(
            model="claude-haiku-4-5", max_tokens=4000, messages=[user("a")], thinking=thinking
        ) as stream:
            final = await stream.get_final_message()
        assert [block.type for block in final.content] == ["thinking", "text"]
        assert final.usage.output_tokens > 200

        called = await client.messages.create(
            model="claude-haiku-4-5",
            max_tokens=100,
            messages=[user("Go [[fault:call]]")],
            tools=[CLAUDE_TOOL],
        )
        assert called.stop_reason == "tool_use"
        with pytest.raises(anthropic.APIStatusError) as overloaded:
            await client.messages.create(
                model="claude-haiku-4-5", max_tokens=9, messages=[user("[[fault:529]]")]
            )
        assert overloaded.value.status_code == 529
        await client.close()

    scene.on_a_port(act)
