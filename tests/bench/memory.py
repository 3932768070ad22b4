# ruff: noqa: T201, S311 - a script prints its result; its dice are repeatable, not secret
"""Memory of a gateway with everything on, over a soak of growing conversations.

Planning, compaction, budgets, ceilings and objectives are on; the simulator answers. Chat, Messages
and Responses calls take turns, every third one of a conversation is streamed. Conversations grow by
texts and tool results until they are long, then new ones begin. Prints the resident memory of the
gateway's own process once a minute. Usage: python -m tests.bench.memory [--minutes 34] [--rate 14]
    [--conversations 40] [--planning-mb 128] [--compaction facts] [--postgres] [--redis URL]
"""

import argparse
import asyncio
import json
import random
import string
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from tests.bench.gateway import command, end_children_when_terminated, gateway_key, process
from tests.fakes import postgres
from tests.fakes.free_port import free_port

#: Models that are asked, with the path of their calls.
ROUTES: Final = (
    ("gpt-5.4-mini", "chat/completions"),
    ("claude-haiku-4-5", "messages"),
    ("gpt-5.6-luna", "responses"),
    ("deepseek-flash", "chat/completions"),
)
POLICIES: Final = """
[[budgets]]
name = "teams-month"
scope = "team"
limit = "900000"
unit = "usd"
window = "month"

[[budgets]]
name = "users-day"
scope = "user"
limit = 9000000000
unit = "tokens"
window = "day"

[[budgets]]
name = "features-minute"
scope = "feature"
limit = 1000000
unit = "requests"
window = "minute"

[[ceilings]]
name = "dear"
limit = "50"

[[objectives]]
name = "ttft"
metric = "ttft"
p = 95
under = "5s"
enforce = "degrade"
ladder = ["elsewhere", "gpt-5.4-mini"]

[[objectives]]
name = "errors"
metric = "errors"
at_most = "5%"

[[objectives]]
name = "cache"
metric = "cache"
floor = 0.10
"""
_FEATURES: Final = 12
_USERS: Final = 400
_MAX_TURNS: Final = 30
_VOCABULARY: Final = 6_000
_TIMEOUT_S: Final = 120.0
_MAX_IN_FLIGHT: Final = 64
_SAMPLE_INTERVAL_S: Final = 60.0


class Writer:
    """Writes texts of made-up words that hardly repeat beyond their words."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        letters = string.ascii_lowercase
        self._words = [
            "".join(self.dice.choices(letters, k=self.dice.randint(2, 11)))
            for _ in range(_VOCABULARY)
        ]

    def text(self, words: int) -> str:
        """About so many words."""
        return " ".join(self.dice.choices(self._words, k=words))

    def rows(self, count: int) -> str:
        """A tool's result of so many rows."""
        rows = [
            {"id": f"{self.dice.getrandbits(48):012x}", "name": self.text(3), "note": self.text(9)}
            for _ in range(count)
        ]
        return json.dumps({"rows": rows})


class Conversation:
    """One conversation that grows by a turn at each call."""

    def __init__(self, writer: Writer, number: int, instructions: str, feature: str) -> None:
        self.model, self.path = ROUTES[number % len(ROUTES)]
        self.feature = feature
        self.user = f"user-{writer.dice.randrange(_USERS)}"
        self.turns_left = writer.dice.randint(4, _MAX_TURNS)
        self._writer = writer
        self._calls = 0
        self._instructions = f"{instructions}\nSession {writer.dice.getrandbits(64):x}."
        self._messages: list[dict[str, str]] = []

    def body(self) -> dict[str, Any]:
        """The next call's body."""
        dice, writer = self._writer.dice, self._writer
        text = writer.rows(dice.randint(5, 40)) if dice.random() < 0.4 else writer.text(150)
        self._messages.append({"role": "user", "content": text})
        self._calls += 1
        self.turns_left -= 1
        is_streamed = self._calls % 3 == 0
        body: dict[str, Any] = {"model": self.model, "stream": is_streamed}
        if self.path == "messages":
            body |= {"system": self._instructions, "max_tokens": 400, "messages": self._messages}
            body["metadata"] = {"user_id": self.user}
        elif self.path == "responses":
            body |= {"instructions": self._instructions, "input": self._messages}
            body["user"] = self.user
        else:
            system = {"role": "system", "content": self._instructions}
            body |= {"messages": [system, *self._messages], "user": self.user}
        return body

    def add_answer(self) -> None:
        """Take an answer in, as if it were the model's."""
        self._messages.append({"role": "assistant", "content": self._writer.text(60)})


class SoakLoad:
    """Calls at a steady rate, each the next turn of a conversation that waits for none."""

    def __init__(self, base: str, key: str, conversations: int) -> None:
        self._base, self._key = base, key
        self._writer = Writer(7)
        self._instructions = [self._writer.text(600 + 250 * n) for n in range(_FEATURES)]
        self._begun = 0
        self._free = [self._begin() for _ in range(conversations)]
        self._room = asyncio.Semaphore(_MAX_IN_FLIGHT)
        self.statuses: Counter[str] = Counter()

    async def run(self, rate: float, seconds: float) -> None:
        """Send so many calls a second for so many seconds."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        clock = asyncio.get_running_loop().time
        began = clock()
        async with (
            httpx.AsyncClient(base_url=self._base, timeout=_TIMEOUT_S, limits=limits) as client,
            asyncio.TaskGroup() as calls,
        ):
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(began + number / rate - clock(), 0.0))
                if clock() > began + seconds:
                    return
                await self._room.acquire()
                calls.create_task(self._call(client, self._next()))

    def _begin(self) -> Conversation:
        self._begun += 1
        number = self._writer.dice.randrange(_FEATURES)
        return Conversation(
            self._writer, self._begun, self._instructions[number], f"feature-{number}"
        )

    def _next(self) -> Conversation:
        """A conversation that no call runs of; a new one where all are busy."""
        if not self._free:
            return self._begin()
        return self._free.pop(self._writer.dice.randrange(len(self._free)))

    async def _call(self, client: httpx.AsyncClient, conversation: Conversation) -> None:
        headers = {
            "authorization": f"Bearer {self._key}",
            "x-thriftgate-feature": conversation.feature,
        }
        try:
            answer = await client.post(
                f"/v1/{conversation.path}", json=conversation.body(), headers=headers
            )
            self.statuses[str(answer.status_code)] += 1
        except httpx.HTTPError as error:
            self.statuses[type(error).__name__] += 1
        self._room.release()
        conversation.add_answer()
        self._free.append(conversation if conversation.turns_left > 0 else self._begin())


async def soak(pid: int, load: SoakLoad, rate: float, minutes: float) -> None:
    """Run the load, and print the process's memory once a minute."""
    gateway = psutil.Process(pid)
    running = asyncio.ensure_future(load.run(rate, minutes * 60))
    began = time.monotonic()
    while not running.done():
        print(_sample(gateway, load, time.monotonic() - began), flush=True)
        await asyncio.wait({running}, timeout=_SAMPLE_INTERVAL_S)
    print(_sample(gateway, load, time.monotonic() - began), flush=True)
    await running


def _sample(gateway: psutil.Process, load: SoakLoad, seconds: float) -> str:
    used = gateway.memory_info().rss / 1e6
    calls = sum(load.statuses.values())
    statuses = ", ".join(f"{count} {name}" for name, count in sorted(load.statuses.items()))
    return f"{seconds / 60:5.1f} min  {calls:7,} calls  {used:6.1f} MB  ({statuses})"


def main() -> None:
    """Start all, soak and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=34.0)
    parser.add_argument("--rate", type=float, default=14.0, help="calls a second")
    parser.add_argument("--conversations", type=int, default=40, help="that are under way at once")
    parser.add_argument("--planning-mb", type=int, default=128, help="planning may remember")
    parser.add_argument("--compaction", default="facts", help="mode")
    parser.add_argument("--postgres", action="store_true", help="a schema of its own; else SQLite")
    parser.add_argument("--redis", default="", help="budgets are counted in the process without")
    options = parser.parse_args()
    end_children_when_terminated()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        behind, port = free_port(), free_port()
        catalog, policies = folder / "catalog.toml", folder / "policies.toml"
        policies.write_text(POLICIES)
        simulator = [command(), "simulator", "--port", str(behind), "--catalog", str(catalog)]
        stack.enter_context(process(simulator, None, behind))
        environment = {
            "THRIFTGATE_FOLDER": str(folder / "gateway"),
            "THRIFTGATE_CATALOG": str(catalog),
            "THRIFTGATE_POLICIES": str(policies),
            "THRIFTGATE_PORT": str(port),
            "THRIFTGATE_PLANNING": "auto",
            "THRIFTGATE_PLANNING_MEMORY_MB": str(options.planning_mb),
            "THRIFTGATE_COMPACTION": options.compaction,
            "THRIFTGATE_ADMIN_TOKEN": "a-token-of-a-bench-that-is-long-enough",
        }
        if options.postgres:
            environment["THRIFTGATE_DATABASE_URL"] = stack.enter_context(postgres.schema())
        if options.redis:
            environment["THRIFTGATE_REDIS_URL"] = options.redis
        key = gateway_key(environment)
        errors = stack.enter_context((folder / "serve.log").open("wb"))
        pid = stack.enter_context(process([command(), "serve"], None, port, errors, **environment))
        load = SoakLoad(f"http://127.0.0.1:{port}", key, options.conversations)
        asyncio.run(soak(pid, load, options.rate, options.minutes))


if __name__ == "__main__":
    main()
