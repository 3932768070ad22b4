"""Conversations made for tests, and a stage to send them on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from proxy.tools.demo.conversation import DemoConversation, Message
from proxy.tools.demo.plan import PlannedCall
from proxy.tools.demo.session import DemoSession, run_session
from proxy.tools.demo.traffic import DemoCall, send

#: The gateway keeps its ledger by the clock, and the demo looks for its calls from here on.
NOW = datetime.now(UTC)  # noqa: TID251 - as the gateway does


@dataclass(frozen=True)
class Says:
    """A user who says the same in each turn."""

    text: str
    model: str = "gpt-5.6-terra"
    length: int = 1
    team: str = "acme-support"
    feature: str = "small-talk"

    def body(self, turn: int, time: datetime, answers: Sequence[Message | None]) -> dict[str, Any]:
        history: list[Message] = []
        for answer in answers:
            history += [{"role": "user", "content": self.text}, answer or {"role": "assistant"}]
        return {"messages": [*history, {"role": "user", "content": self.text}]}


def plan(*scripts: Says, streamed: bool = False) -> list[PlannedCall]:
    """All turns of each, one conversation after the other."""
    turns = [
        (DemoConversation(f"{n}", script), turn)
        for n, script in enumerate(scripts)
        for turn in range(script.length)
    ]
    by_name = {conversation.id: conversation for conversation, _ in turns}
    return [
        PlannedCall(
            number=number,
            conversation=by_name[conversation.id],
            turn=turn,
            time=NOW,
            streamed=streamed,
        )
        for number, (conversation, turn) in enumerate(turns)
    ]


@asynccontextmanager
async def a_stage() -> AsyncIterator[DemoSession]:
    async with asyncio.timeout(30), run_session(now=NOW, start=NOW, port=0) as staged:
        yield staged


async def send_calls(staged: DemoSession, calls: Sequence[PlannedCall]) -> list[DemoCall]:
    return await send(
        calls,
        base_url=staged.base_url,
        keys=staged.keys,
        clock=staged.clock,
        tell=lambda _: None,
    )
