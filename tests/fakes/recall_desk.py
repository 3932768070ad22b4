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
#: Conversations of each of five gateways.
CONVERSATIONS = 100
#: Sentences that only the assistant says, and a question for each; by language.
SAID = (
    ("The {0} is kept {1}, as the gardener told us.", "Where is the {0} kept?"),
    ("Das Ding {0} liegt {1}, wie der Gärtner sagte.", "Wo liegt das Ding {0}?"),
    ("园丁说{0}放在{1}。", "{0}放在哪里。"),
    ("{0}は{1}に置いてあります。", "{0}はどこに置いてありますか。"),
)
COLOURS = (
    ("red", "blue", "green", "white", "black", "brown", "golden", "silver"),
    ("rot", "blau", "grün", "weiß", "schwarz", "braun", "golden", "silbern"),
    ("红色", "蓝色", "绿色", "白色", "黑色", "棕色", "金色", "银色"),
    ("赤い", "青い", "緑の", "白い", "黒い", "茶色い", "金の", "銀の"),
)
THINGS = (
    ("lantern", "whistle", "blanket", "flute", "thimble"),
    ("Laterne", "Pfeife", "Decke", "Flöte", "Fingerhut"),
    ("灯笼", "口哨", "毛毯", "笛子", "顶针"),
    ("提灯", "口笛", "毛布", "横笛", "指貫"),
)
PLACES = (
    ("behind the {0} rose", "under the {0} stairs", "beside the {0} wheel"),
    ("hinter der Rose ({0})", "unter der Treppe ({0})", "neben dem Rad ({0})"),
    ("{0}玫瑰后面", "{0}楼梯下面", "{0}轮子旁边"),
    ("{0}バラの後ろ", "{0}階段の下", "{0}車輪のそば"),
)
CHATTER = "It was a long and quiet day, and nothing else of it is worth a word. " * 6
TURNS = 20
TARGET_TOKENS = 400


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
                running.store.compactions.choose(
                    (team.id, ""), mode, "ann", NOW, target=TARGET_TOKENS
                )
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
    """A chat in which only the assistant says where things are, and the place of one asked for."""
    tongue, asked = number % len(SAID), number * 7 % 20
    sentence, question = SAID[tongue]
    colours = COLOURS[tongue]
    things = [f"{colour} {thing}" for thing in THINGS[tongue] for colour in colours]
    places = [
        PLACES[tongue][(n + number) % 3].format(f"{colours[n % 8]}-{colours[(n + number) % 8]}-{n}")
        for n in range(40)
    ]
    said = list(map(sentence.format, things, places))
    messages = [{"role": "system", "content": "You help."}]
    for turn in range(TURNS):
        messages.append({"role": "user", "content": f"And what of room {number + turn}?"})
        answer = " ".join([*said[2 * turn : 2 * turn + 2], CHATTER])
        messages.append({"role": "assistant", "content": answer})
    for _ in range(3):
        messages += [{"role": "user", "content": "Hm."}, {"role": "assistant", "content": "Yes."}]
    return [*messages, {"role": "user", "content": question.format(things[asked])}], places[asked]


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
