"""The plan's calls, sent as applications send them: through the official SDK."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgspec
from openai import APIStatusError, AsyncOpenAI, AsyncStream, OpenAIError
from openai.types.chat import ChatCompletionChunk

from proxy.providers.chat.call_parts import CallAssignment, CallPart
from proxy.tools.demo.plan import PlannedCall
from proxy.tools.demo.session import DemoClock

AT_ONCE = 8

_FEATURE = "x-thriftgate-feature"
_CALL_ID = "x-request-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoCall:
    """The client's view of one call.

    Attributes:
        call_id: Call id in the answer's head; "" where no answer came.
        error: Reason that there is no answer, or not all of it; "" where there is.
        ttft: Seconds to the first content of a stream; None for a JSON answer or none.
        cached: Those of them read from a cache.
        message: The assistant's, as the chat wire has it; empty where there is none.
    """

    planned: PlannedCall
    call_id: str
    error: str = ""
    ttft: float | None = None
    input: int = 0
    cached: int = 0
    output: int = 0
    message: Mapping[str, Any] = field(default_factory=dict)


Tell = Callable[[DemoCall], None]


async def send(
    plan: Iterable[PlannedCall],
    *,
    base_url: str,
    keys: Mapping[str, str],
    clock: DemoClock,
    tell: Tell,
) -> list[DemoCall]:
    """All calls of the plan, in its order, each conversation's turns one after the other.

    Args:
        keys: A key for each team by its name.
    """
    gate = asyncio.Semaphore(AT_ONCE)
    latest: dict[str, asyncio.Task[DemoCall]] = {}
    tasks: list[asyncio.Task[DemoCall]] = []

    async def play(planned: PlannedCall, before: asyncio.Task[DemoCall] | None) -> DemoCall:
        try:
            if before is not None:
                await before
            clock.reach(planned.time)
            call = await _send_call(clients[planned.team], planned)
        finally:
            gate.release()
        tell(call)
        return call

    async with AsyncExitStack() as stack:
        clients = {
            team: await stack.enter_async_context(AsyncOpenAI(base_url=base_url, api_key=key))
            for team, key in keys.items()
        }
        group = await stack.enter_async_context(asyncio.TaskGroup())
        for planned in plan:
            await gate.acquire()
            name = planned.conversation.id
            latest[name] = group.create_task(play(planned, latest.get(name)))
            tasks.append(latest[name])
    return [task.result() for task in tasks]


async def _send_call(client: AsyncOpenAI, planned: PlannedCall) -> DemoCall:
    """Sends one call and reads its answer; errors are recorded, not raised."""
    call_id = ""
    ticks = asyncio.get_running_loop().time
    began = ticks()
    try:
        raw = await client.chat.completions.with_raw_response.create(
            **planned.body(), extra_headers={_FEATURE: planned.feature}
        )
        call_id = raw.headers.get(_CALL_ID, "")
        answer = _Answer()
        if planned.streamed:
            await answer.follow(raw.parse(), ticks)
        else:
            answer.take(raw.parse().model_dump(exclude_none=True))
    except APIStatusError as error:
        return DemoCall(planned=planned, call_id=error.request_id or "", error=str(error))
    except (OpenAIError, httpx2.HTTPError, ValueError) as error:  # ValueError: a broken JSON answer
        return DemoCall(planned=planned, call_id=call_id, error=f"{type(error).__name__}: {error}")
    planned.record_answer(answer.message)
    details = answer.usage.get("prompt_tokens_details") or {}
    return DemoCall(
        planned=planned,
        call_id=call_id,
        ttft=None if answer.begun is None else answer.begun - began,
        input=answer.usage.get("prompt_tokens", 0),
        cached=details.get("cached_tokens", 0),
        output=answer.usage.get("completion_tokens", 0),
        message=answer.message,
    )


class _Answer:
    """An assistant's message and its usage, put together from what came.

    Attributes:
        begun: Time of the first content of a stream.
    """

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.usage: dict[str, Any] = {}
        self.begun: float | None = None

    def take(self, answer: Mapping[str, Any]) -> None:
        """Take a JSON answer."""
        self.message = answer["choices"][0]["message"]
        self.usage = answer.get("usage", {})

    async def follow(
        self, stream: AsyncStream[ChatCompletionChunk], ticks: Callable[[], float]
    ) -> None:
        """Take a stream to its end."""
        assignment = CallAssignment()
        async for chunk in stream:
            if chunk.usage is not None:
                self.usage = chunk.usage.model_dump(exclude_none=True)
            for choice in chunk.choices:
                if self.begun is None and (choice.delta.content or choice.delta.tool_calls):
                    self.begun = ticks()
                content = choice.delta.content or ""
                self.message["content"] = self.message.get("content", "") + content
                for place, piece in enumerate(choice.delta.tool_calls or ()):
                    assignment.find(msgspec.convert(piece.model_dump(), CallPart), place)
        self.message["tool_calls"] = [
            {"id": call.id, "type": "function"}
            | {"function": {"name": call.name, "arguments": call.text}}
            for call in assignment.calls
        ]
