"""A simulator in the test's process: calls through ASGI, or a port where the socket matters."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import anyio.lowlevel
import httpx
import orjson

from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import MODELS, SimulatedModel, SimulatorSettings
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.replies import ModelReply, ReplyRequest, ScriptedCall, ScriptedReply
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from slo.usage import Usage

Json = dict[str, Any]

NOTES = "Refunds are paid within fourteen days of the parcel's return. " * 150
SMALL = {
    "claude-haiku-4-5": SimulatedModel(
        wire="anthropic",
        regime="anthropic-breakpoint",
        min_cache_tokens=512,
        traits=MODELS["claude-haiku-4-5"].traits,
    )
}
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
}
FLAT_TOOL: Any = {"type": "function"} | TOOL["function"]
CLAUDE_TOOL: Any = {"name": "read_file", "input_schema": TOOL["function"]["parameters"]}


class SleepingClock:
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_790_000_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        await anyio.lowlevel.checkpoint()


class SimulatorHarness:
    """One lab and its callers."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        models: Mapping[str, SimulatedModel] = MODELS,
        **settings: Any,
    ) -> None:
        self.clock = SleepingClock()
        self.lab = Simulator(
            SimulatorSettings(models=models, **settings),
            clock=self.clock,
            sleep=self.clock.sleep,
            vocabulary=vocabulary,
        )

    def send(
        self,
        method: str,
        path: str,
        body: Json | bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Return what the simulator answers; a stream is read to its end."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app(self.lab))
            async with httpx.AsyncClient(transport=transport, base_url="http://lab") as client:
                content = body if isinstance(body, bytes) else orjson.dumps(body)
                return await client.request(
                    method, f"/v1/{path}", content=content, headers=headers or {}
                )

        return asyncio.run(send())

    def openai(self, path: str, body: Json, *, cues: str = "") -> httpx.Response:
        headers = {"authorization": "Bearer sk", "x-simulator-fault": cues}
        return self.send("POST", path, body, headers=headers)

    def anthropic(self, body: Json, *, cues: str = "", path: str = "messages") -> httpx.Response:
        headers = {"x-api-key": "sk", "anthropic-version": "2023-06-01", "x-simulator-fault": cues}
        body = {"model": "claude-haiku-4-5", "max_tokens": 2000} | body
        return self.send("POST", path, body, headers=headers)

    def chat(self, text: str = "Hello", *, cues: str = "", **fields: Any) -> httpx.Response:
        messages = [{"role": "user", "content": text}]
        body = {"model": "gpt-6.1-sol", "messages": messages} | fields
        return self.openai("chat/completions", body, cues=cues)

    def on_a_port(self, act: Callable[[str], Awaitable[None]]) -> None:
        """Run the act against a real port."""

        async def run() -> None:
            async with serving(app(self.lab)) as base:
                await act(base)

        asyncio.run(run())


def events(response: httpx.Response) -> list[tuple[str, Any]]:
    """The events of a stream by name; the data of ``[DONE]`` is None."""
    return list(_events(response.text.split("\n\n")))


def _events(blocks: Iterable[str]) -> Iterable[tuple[str, Any]]:
    for block in filter(None, blocks):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        data = fields["data"]
        yield fields.get("event", ""), None if data == "[DONE]" else orjson.loads(data)


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def scripted_reply(
    request: ReplyRequest,
    *replies: ModelReply,
    model: str = "gpt-6.1-sol",
    usage: Usage | None = None,
) -> ScriptedReply:
    """One call as the simulator answers it, with an answer of our choosing."""
    return ScriptedReply(
        id="7",
        created=1_790_000_000,
        model=MODELS[model],
        request=request,
        replies=replies or (ModelReply(text="It is so.", tokens=(1, 2, 3, 4)),),
        usage=usage or Usage(input=10, cache_read=20, write_30m=5, write_12h=2, output=4),
    )


CALLS = ModelReply(
    calls=(
        ScriptedCall(id="a", name="read_file", arguments='{"path":"one two three four"}'),
        ScriptedCall(id="b", name="read_file", arguments='{"path":"b"}'),
    ),
    finish="tools",
    tokens=(1, 2),
)
