"""An upstream that replays the beginning of an engine's answer, and ends; the engine goes on."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

T = TypeVar("T")

CUTTING_CATALOG = """
[upstreams.cutting]
base_url = "{cutting}"

[upstreams.engine]
base_url = "{engine}"
continues = "continue_final_message"

[[models]]
id = "tiny"
routes = [{{ upstream = "cutting" }}, {{ upstream = "engine" }}]
"""


class CuttingUpstream:
    """Replays the beginning of an answer of the engine's, and ends.

    Attributes:
        events: The answer's events.
        left: How many of them it sends.
        cut_count: How many of its answers were cut.
    """

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.left = 0
        self.cut_count = 0

    async def cut_answer(self, left: int, ask: Callable[[], Awaitable[T]]) -> T:
        """The result of a call whose answer is cut, after a whole one, so that no breaker opens.

        Args:
            left: Events that are left of the answer.
            ask: Makes the call.
        """
        self.left = len(self.events)
        await ask()
        self.left = left
        return await ask()

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/chat/completions", self._answer, methods=["POST"])])

    async def _answer(self, _: Request) -> StreamingResponse:
        self.cut_count += self.left < len(self.events)

        async def beginning() -> AsyncIterator[bytes]:
            for event in self.events[: self.left]:
                yield b"data: " + event + b"\n\n"

        return StreamingResponse(beginning(), media_type="text/event-stream")


def text_of(events: list[bytes]) -> str:
    """The text of a chat stream, by the data of its events."""
    chunks = [orjson.loads(data) for data in events if data != b"[DONE]"]
    choices = (choice for chunk in chunks for choice in chunk.get("choices", ()))
    return "".join(choice["delta"].get("content") or "" for choice in choices)
