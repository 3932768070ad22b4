# ruff: noqa: T201 - a script prints its result
"""Memory of planning alone: growing conversations in one process, without HTTP.

The conversations are those of ``tests.bench.memory``; the upstream reads what its cache should.
Once what is remembered fills its bound, the resident memory no longer grows.
Usage: python -m tests.bench.memory_indexes [--calls 150000] [--conversations 40] [--mb 96]
"""

import argparse
import asyncio
import gc
import tempfile
from pathlib import Path
from typing import Final

import orjson
import psutil

from proxy.prefix.planned import Planned
from proxy.prefix.planner import Planner
from proxy.prefix.prediction.prefix_chains import expected_usage
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN
from proxy.records.feature_mode import PlanningMode
from proxy.services.planning.planning import PromptPlanning
from proxy.store.store import Store
from tests.bench.memory import Conversation, Writer
from tests.fakes.call_dependencies import LoopTasks, call
from tests.fakes.databases import migrated_sqlite
from tests.proxy.catalog.shipped_models import SHIPPED

_CALLS_PER_SECOND: Final = 11
_CALLS_BETWEEN_PAUSES: Final = 16
_FEATURES: Final = 12
_SAMPLES: Final = 15


class PlanningLoad:
    """Calls of conversations that are under way at once, planned and settled one by one.

    Attributes:
        now: Time of the latest call, in seconds.
        begun: Conversations that were begun.
    """

    def __init__(self, conversations: int) -> None:
        self.now, self.begun = 1_790_000_000.0, 0
        self._writer = Writer(7)
        self._instructions = [self._writer.text(600 + 250 * n) for n in range(_FEATURES)]
        self._open = [self._begin() for _ in range(conversations)]

    async def call(self, planning: PromptPlanning) -> None:
        """Plan and settle the next call of one of them."""
        self.now += 1.0 / _CALLS_PER_SECOND
        index = self._writer.dice.randrange(len(self._open))
        conversation = self._open[index]
        body = orjson.dumps(conversation.body())
        planned = await planning.plan(
            call(body, conversation.path, feature=conversation.feature, arrived=self.now),
            SHIPPED.models[conversation.model].routes[0],
        )
        if isinstance(planned, Planned):
            evidence, tokens = planned.evidence, len(body) // BYTES_PER_TOKEN
            planning.note_answer_started(planned)
            planning.note_attempt_ended(planned)
            planning.settle(planned, expected_usage(evidence.sent, evidence.expected, tokens))
        conversation.add_answer()
        if conversation.turns_left <= 0:
            self._open[index] = self._begin()

    def _begin(self) -> Conversation:
        self.begun += 1
        feature = self._writer.dice.randrange(_FEATURES)
        instructions = self._instructions[feature]
        return Conversation(self._writer, self.begun, instructions, f"feature-{feature}")


async def measure(folder: Path, calls: int, conversations: int, max_bytes: int) -> None:
    """Play the calls, and print what the process takes now and then."""
    store = Store.open(migrated_sqlite(folder / "db"), folder / "journal", PlanningMode.AUTO)
    load, process = PlanningLoad(conversations), psutil.Process()
    planner = Planner(store.secret, max_bytes=max_bytes)
    planning = PromptPlanning(planner, store, LoopTasks(), now=lambda: load.now)
    print("calls, conversations, resident MB, MB remembered by estimate")
    for number in range(1, calls + 1):
        await load.call(planning)
        if number % _CALLS_BETWEEN_PAUSES == 0:
            await asyncio.sleep(0)
        if number % max(1, calls // _SAMPLES) == 0:
            gc.collect()
            resident, remembered = process.memory_info().rss, planner.memory.size_bytes
            print(f"{number:,}, {load.begun:,}, {resident / 1e6:.0f}, {remembered / 1e6:.0f}")
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))  # plans to be stored
    planning.close()
    store.close(5.0)


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=150_000)
    parser.add_argument("--conversations", type=int, default=40, help="that are under way at once")
    parser.add_argument("--mb", type=int, default=96, help="that the planner may remember")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        max_bytes = options.mb * 2**20
        asyncio.run(measure(Path(name), options.calls, options.conversations, max_bytes))


if __name__ == "__main__":
    main()
