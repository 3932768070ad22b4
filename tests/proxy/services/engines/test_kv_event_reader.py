"""Reading of KV events: what is known by them, and when nothing is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from proxy.services.engines.kv_event_reader import SILENCE_S, KvEventReader
from proxy.upstream.zmq_subscriber import Subscription
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.engine_pages import PlayedPages
from tests.fakes.engine_profiles import a_profile
from tests.fakes.virtual_clock import run_in_virtual_time

T = TypeVar("T")
TABLE = 'replicas = ["http://a:1/v1"]\nserved_name = "m"\nkv_events = ["tcp://a:5557"]'
NAME, PAGE_URL = "house:0", "http://a:1/metrics"
Message = Sequence[bytes]


class PlayedEvents:
    """A publisher: what it sends next, by a queue; an exception fails the subscription."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Message | Exception] = asyncio.Queue()
        self.opened: list[str] = []

    @asynccontextmanager
    async def subscribe(self, address: str) -> AsyncIterator[Subscription]:
        self.opened.append(address)
        yield self

    async def receive(self) -> Message:
        result = await self.queue.get()
        if isinstance(result, Exception):
            raise result
        return result

    def send(self, sequence: int, *hashes: int) -> None:
        events = [["BlockStored", list(hashes), None, list(range(4 * len(hashes))), 4]]
        batch = msgspec.msgpack.encode([0.0, events if hashes else []])
        self.queue.put_nowait([b"", sequence.to_bytes(8, "big"), batch])


class KvEventHarness:
    def __init__(self) -> None:
        self.pages, self.events = PlayedPages(), PlayedEvents()
        self.profile = a_profile(TABLE)
        self.monitor = self.pages.monitor(self.profile)
        self.tasks = LoopTasks()
        self.reader = KvEventReader(self.monitor, self.tasks, self.events.subscribe)
        self.reader.update({"house": self.profile})

    async def read_prompts(self, tokens: int) -> None:
        self.pages.answers[PAGE_URL] = b"vllm:prompt_tokens_total %d\n" % tokens
        await self.monitor.read_all()

    def size(self) -> int | None:
        index = self.reader.index(NAME)
        return None if index is None else len(index)


def play(story: Callable[[KvEventHarness], Awaitable[T]]) -> T:
    async def whole() -> T:
        return await story(KvEventHarness())

    return run_in_virtual_time(whole)


def test_blocks_are_known_once_an_event_has_come():
    async def story(stage: KvEventHarness) -> list[Any]:
        await asyncio.sleep(1.0)
        before = stage.size()
        stage.events.send(0, 11, 12)
        await asyncio.sleep(1.0)
        return [before, stage.size(), stage.reader.index("house:9"), stage.events.opened]

    assert play(story) == [None, 2, None, ["tcp://a:5557"]]


def test_an_idle_replica_stays_known_however_long_nothing_comes():
    async def story(stage: KvEventHarness) -> tuple[int | None, int]:
        await stage.read_prompts(100)
        stage.events.send(0, 11)
        await asyncio.sleep(10 * SILENCE_S)
        return stage.size(), len(stage.events.opened)

    assert play(story) == (1, 1)


def test_a_replica_that_reads_prompts_in_silence_is_not_believed_and_subscribed_to_anew():
    async def story(stage: KvEventHarness) -> list[Any]:
        await stage.read_prompts(100)
        stage.events.send(0, 11)
        await asyncio.sleep(1.0)
        await stage.read_prompts(900)
        await asyncio.sleep(SILENCE_S)
        lost = stage.size()
        await asyncio.sleep(2.0)
        stage.events.send(7, 12)
        await asyncio.sleep(1.0)
        index = stage.reader.index(NAME)
        return [lost, len(stage.events.opened), stage.size(), index and index.is_complete]

    assert play(story) == [None, 2, 1, False]


def test_an_unreadable_or_unreachable_publisher_is_tried_again_after_ever_longer_pauses(caplog):
    async def story(stage: KvEventHarness) -> list[Any]:
        stage.events.send(0, 11)
        stage.events.queue.put_nowait([b"no batch"])
        for _ in range(5):
            stage.events.queue.put_nowait(OSError("away"))
        await asyncio.sleep(2.5)
        early = len(stage.events.opened), stage.size()
        await asyncio.sleep(200.0)
        stage.events.send(0, 13)
        await asyncio.sleep(1.0)
        return [early, len(stage.events.opened), stage.size()]

    assert play(story) == [(2, None), 7, 1]
    assert len([record for record in caplog.records if "are not read" in record.message]) == 1


def test_a_profile_that_is_gone_is_read_no_more():
    async def story(stage: KvEventHarness) -> list[Any]:
        stage.events.send(0, 11)
        await asyncio.sleep(1.0)
        stage.reader.update({})
        await asyncio.sleep(1.0)
        stage.events.send(1, 12)
        await asyncio.sleep(1.0)
        gone = stage.size()
        stage.reader.update({"house": stage.profile})
        await asyncio.sleep(1.0)
        return [gone, stage.size(), len(stage.events.opened)]

    assert play(story) == [None, 1, 2]
