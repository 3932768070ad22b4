"""A whole gateway whose model recalls what compaction took out, before a scripted model."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import openai

from compaction.policy import CompactionMode
from compaction.recall.tool_index import TOOL_NAME
from proxy.app import Gateway, gateway
from proxy.records.receipt import Receipt
from proxy.settings import Settings
from proxy.tools.simulator.server import serving
from tests.fakes.databases import migrated_sqlite
from tests.fakes.recalling_model import ModelTurn, RecallingModel, Script, serving_model

NOW = 1_790_000_000.0
CATALOG = """
[upstreams.lab]
kind = "openai"
base_url = "{url}"

[[models]]
id = "talker"
upstream = "lab"
price = {{ input = "1.00", cache_read = "0.10", output = "4.00" }}
max_output = 1000
"""
FORCED = {"x-thriftgate-compaction": "force"}
CONVERSATIONS = 500
#: Subjects and places of things that only the assistant says, and a question for each.
SAID = (
    ("The {0} is kept {1}, as the old gardener told us.", "Where is the {0} kept?"),
    ("Der {0} liegt {1}, wie der alte Gärtner sagte.", "Wo liegt der {0}?"),
    ("老园丁说{0}放在{1}。", "{0}放在哪里。"),
    ("{1} という場所に{0}を置いてあります。", "{0}はどこに置いてありますか。"),
)
THINGS = (
    ("copper lantern", "brass whistle", "woollen blanket", "walnut flute", "silver thimble"),
    ("Kupferkessel", "Messingring", "Wollmantel", "Nussknacker", "Silberlöffel"),
    ("铜灯笼", "木笛子", "羊毛毯", "银顶针", "红雨伞"),
    ("銅のランタン", "木の笛", "毛布", "銀の指輪", "赤い傘"),
)
PLACES = (
    ("behind the seventh rose", "under the blue stairs", "beside the mill wheel"),
    ("hinter der siebten Rose", "unter der blauen Treppe", "neben dem Mühlrad"),
    ("第七朵玫瑰后面", "蓝色楼梯下面", "磨坊轮旁边"),
    ("七番目のバラの後ろ", "青い階段の下", "水車のそば"),
)
CHATTER = "It was a long and quiet day in the garden, and nothing else is worth a word. " * 30


class Desk:
    """A running gateway before its model, and keys of two teams."""

    def __init__(self, running: Gateway, url: str, model: RecallingModel, folder: Path) -> None:
        self.gateway = running
        self.folder = folder
        self.url = url
        self.model = model
        teams = running.store.teams
        self.teams = [teams.create(name, now=NOW) for name in ("acme", "zenith")]
        self.keys = [teams.create_key(team.id, "first", now=NOW)[1] for team in self.teams]
        self._clients = [
            openai.AsyncOpenAI(base_url=self.url, api_key=key, max_retries=0) for key in self.keys
        ]

    async def ask(self, messages: list[Any], team: int = 0, **fields: Any) -> Any:
        """The raw answer to a call that is compacted at once."""
        return await self._clients[team].chat.completions.with_raw_response.create(
            model="talker", messages=messages, extra_headers=FORCED, **fields
        )

    async def close(self) -> None:
        """Close its clients."""
        for client in self._clients:
            await client.close()

    async def receipts(self, call_id: str, team: int = 0) -> list[Receipt]:
        """The receipts of a call."""
        store = self.gateway.store
        assert await asyncio.to_thread(store.drain.flush, 20)
        return store.ledger.call_receipts(call_id, self.teams[team].id)


@asynccontextmanager
async def running_desk(folder: Path, script: Script) -> AsyncIterator[Desk]:
    async with serving_model(script) as (model, model_url):
        catalog = folder / "catalog.toml"
        catalog.write_text(CATALOG.format(url=model_url))
        settings = Settings(
            folder=folder / "gateway",
            catalog=catalog,
            compaction=CompactionMode.FACTS_RECALL,
            control_share=0.0,
        )
        migrated_sqlite(settings.folder / "thriftgate.db")
        async with gateway(settings) as running, serving(running.app) as url:
            desk = Desk(running, url, model, settings.folder)
            for team in desk.teams:
                mode = CompactionMode.FACTS_RECALL
                running.store.compactions.choose((team.id, ""), mode, "ann", NOW, target=900)
            running.store.compaction_settings.refresh()
            yield desk
            await desk.close()


def run(folder: Path, script: Script, work: Callable[[Desk], Coroutine[Any, Any, None]]) -> None:
    """Have work done with a running gateway and its scripted model."""

    async def whole() -> None:
        async with running_desk(folder, script) as desk:
            await work(desk)

    asyncio.run(whole())


def conversation(number: int) -> tuple[list[dict[str, str]], str]:
    """A chat in which only the assistant says where a thing is, long ago; and its place."""
    tongue = number % len(SAID)
    thing, place = THINGS[tongue][number % 5], PLACES[tongue][number // 5 % 3]
    sentence, question = SAID[tongue]
    messages = [{"role": "system", "content": "You help."}]
    for turn in range(10):
        said = f"{CHATTER}{sentence.format(thing, place)} {CHATTER}" if turn == 2 else CHATTER
        messages.append({"role": "user", "content": f"And what of day {number + turn}?"})
        messages.append({"role": "assistant", "content": said})
    return [*messages, {"role": "user", "content": question.format(thing)}], place


def words_of(body: dict[str, Any]) -> str:
    """All that a body says."""
    return "\n".join(str(message.get("content")) for message in body["messages"])


def offers_recall(body: dict[str, Any]) -> bool:
    return any(tool["function"]["name"] == TOOL_NAME for tool in body.get("tools", ()))


def recall_once(body: dict[str, Any]) -> ModelTurn:
    """A model that recalls the words of its question, and answers with all that it then knows."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return ModelTurn(text=last["content"])
    if offers_recall(body):
        return ModelTurn(calls=[(TOOL_NAME, {"query": last["content"]})])
    return ModelTurn(text=words_of(body))


async def text_of(raw: Any, *, is_streamed: bool) -> str:
    """The words of an answer, in which no tool call may be seen."""
    if not is_streamed:
        (choice,) = raw.parse().choices
        assert (choice.message.tool_calls, choice.finish_reason) == (None, "stop")
        return str(choice.message.content)
    chunks = [chunk async for chunk in raw.parse()]
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert not any(chunk.usage for chunk in chunks)  # nobody asked for it
    assert len({chunk.id for chunk in chunks}) == 1
    assert not any(choice.delta.tool_calls for choice in choices)
    assert [c.finish_reason for c in choices if c.finish_reason] == ["stop"]
    assert [c.delta.role for c in choices if c.delta.role] == ["assistant"]
    return "".join(choice.delta.content or "" for choice in choices)


async def last_receipt(desk: Desk) -> Receipt:
    """The receipt of the only call, once it is settled."""
    store = desk.gateway.store
    async with asyncio.timeout(10):
        while True:
            await asyncio.to_thread(store.drain.flush, 20)
            with closing(sqlite3.connect(desk.folder / "thriftgate.db")) as database:
                if row := database.execute("SELECT call_id FROM calls").fetchone():
                    return store.ledger.call_receipts(row[0], desk.teams[0].id)[0]
            await asyncio.sleep(0.05)
