"""Callers that share a system prompt, before real replicas of four slots: each gets its share.

The answers are held, so that all calls are under way at once, however fast the machine is.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from tests.fakes.engine_fleet import EngineFleet, engine_fleet
from tests.fakes.held_answers import HeldAnswers
from tests.fakes.real_replicas import RealReplicas
from tests.fakes.tiny_engine import needs_wheel

pytestmark = needs_wheel
_PATIENCE_S = 60.0
_SYSTEM = "The clerk wrote down what was agreed, and read it aloud once more. " * 30
_EXPLORING = "exploring the second best"


class HeldReplicas:
    """Real replicas, each behind something that holds its answers.

    Attributes:
        held: What holds their answers.
        known: Number of them that the gateway knows.
    """

    def __init__(self) -> None:
        self._replicas = RealReplicas()
        self.held: list[HeldAnswers] = []
        self.known = 2

    @asynccontextmanager
    async def start(self) -> AsyncIterator[str]:
        """A replica, once it is healthy."""
        answers = HeldAnswers()
        self.held.append(answers)
        async with self._replicas.start() as url, answers.before(url) as front:
            yield front

    def calls(self) -> list[int]:
        """The calls under way at each replica that the gateway knows."""
        return [answers.calls for answers in self.held[: self.known]]

    async def finish(self, calls: "SharedReplicaCalls") -> None:
        """Have the calls answered to their ends."""
        for answers in self.held:
            answers.release()
        await calls.end()


@dataclass(frozen=True)
class BegunCall:
    """A call whose answer has begun.

    Attributes:
        replica: Number of the replica that answers.
        why: The reason of the gateway.
        before: Calls under way at each replica when it was sent.
    """

    replica: int
    why: str
    before: list[int]

    @property
    def is_at_the_freest(self) -> bool:
        """True if no replica had fewer calls, or if the second best was to be tried."""
        return self.why == _EXPLORING or self.before[self.replica] == min(self.before)


class SharedReplicaCalls:
    """Calls with one system prompt, each begun after the one before; their answers are held."""

    def __init__(self, fleet: EngineFleet, replicas: HeldReplicas) -> None:
        self._fleet, self._replicas = fleet, replicas
        self._open = AsyncExitStack()
        self._answers: list[httpx2.Response] = []

    async def begin(self, count: int) -> list[BegunCall]:
        """Begin so many calls, each with a question of its own."""
        first = len(self._answers)
        return [await self._begin(f"Question {first + number}") for number in range(count)]

    async def end(self) -> None:
        """Read the answers to their ends."""
        for answer in self._answers:
            assert (await answer.aread()).rstrip().endswith(b"[DONE]")
        await self._open.aclose()

    async def _begin(self, question: str) -> BegunCall:
        messages = [
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": question},
        ]
        body = {"model": "house-llm", "messages": messages, "max_tokens": 24, "stream": True}
        headers = {"authorization": f"Bearer {self._fleet.keys[self._fleet.url]}"}
        before = self._replicas.calls()
        answer = await self._open.enter_async_context(
            self._fleet.client.stream(
                "POST", f"{self._fleet.url}/chat/completions", json=body, headers=headers
            )
        )
        assert answer.status_code == 200
        self._answers.append(answer)
        name, _, why = answer.headers["x-thriftgate-replica"].partition("; ")
        return BegunCall(int(name.removeprefix("house:")), why, before)


async def wait_for_load_report(fleet: EngineFleet, replica: str) -> None:
    """Return once the gateway has read a replica's load and slots: before, it assumes 64."""
    until = time.monotonic() + _PATIENCE_S
    while not any(
        line.startswith("thriftgate_engine_running{") and replica in line
        for line in (await fleet.metrics()).splitlines()
    ):
        assert time.monotonic() < until
        await asyncio.sleep(0.1)


def test_calls_with_one_system_prompt_fill_the_slots_of_both_replicas_and_of_one_that_is_added(
    tmp_path: Path,
) -> None:
    async def story() -> list[BegunCall]:
        replicas = HeldReplicas()
        async with engine_fleet(tmp_path, start=replicas.start) as fleet, replicas.start() as third:
            calls = SharedReplicaCalls(fleet, replicas)
            for replica in ("house:0", "house:1"):
                await wait_for_load_report(fleet, replica)
            begun = await calls.begin(8)
            fleet.write_engines([*fleet.urls, third])
            await wait_for_load_report(fleet, "house:2")
            replicas.known = 3
            begun += await calls.begin(4)
            await replicas.finish(calls)
            return begun

    begun = asyncio.run(story())

    assert [call for call in begun if not call.is_at_the_freest] == []
    shares = [Counter(call.replica for call in part) for part in (begun[:8], begun[8:])]
    assert min(shares[0][0], shares[0][1]) >= 3
    assert shares[1][2] >= 3


async def type_prompt(fleet: EngineFleet, person: int, number: int) -> int:
    """Have a prompt warmed that is new from its first word; the status of the answer."""
    text = f"{person}, {number}: {_SYSTEM * 3}"
    body = {"model": "house-llm", "messages": [{"role": "user", "content": text}]}
    headers = {
        "authorization": f"Bearer {fleet.keys[fleet.url]}",
        "x-thriftgate-conversation": f"typing {person}",
    }
    url = f"{fleet.url}/thriftgate/prefill"
    return (await fleet.client.post(url, json=body, headers=headers)).status_code


def test_people_who_type_have_no_prompt_read_beside_live_calls_and_have_them_read_afterwards(
    tmp_path: Path,
) -> None:
    async def story() -> tuple[Counter[int], int]:
        replicas = HeldReplicas()
        async with engine_fleet(tmp_path, start=replicas.start) as fleet:
            calls = SharedReplicaCalls(fleet, replicas)
            await calls.begin(2)
            beside = Counter(
                [
                    await type_prompt(fleet, person, number)
                    for number in range(3)
                    for person in range(8)
                ]
            )
            await replicas.finish(calls)
            until, after = time.monotonic() + _PATIENCE_S, 429
            while after == 429 and time.monotonic() < until:
                await asyncio.sleep(0.2)
                after = await type_prompt(fleet, 0, 3)
            return beside, after

    beside, after = asyncio.run(story())

    assert beside == {429: 24}
    assert after == 200
