"""A whole gateway whose model recalls what compaction took out, before a scripted model."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from compaction.policy import CompactionMode
from compaction.recall.tool_index import TOOL_NAME
from proxy.app import Gateway, gateway
from proxy.records.receipt import Receipt
from proxy.settings import Settings
from proxy.tools.simulator.server import serving
from tests.fakes.databases import migrated_sqlite
from tests.fakes.model_wires import ModelTurn
from tests.fakes.recall_apis import (
    APIS,
    Api,
    RecalledReply,
    offers_recall,
    question,
    recalled_texts,
    words_of,
)
from tests.fakes.recalling_model import RecallingModel, Script, serving_model

NOW = 1_790_000_000.0
CATALOG = """
[upstreams.lab]
kind = "openai"
base_url = "{url}"

[upstreams.lab-chat]
kind = "openai"
base_url = "{url}"
serves_responses = false

[upstreams.lab-anthropic]
kind = "anthropic"
base_url = "{url}"

[[models]]
id = "talker"
upstream = "lab"
price = {{ input = "1.00", cache_read = "0.10", output = "4.00" }}
max_output = 1000

[[models]]
id = "whisperer"
upstream = "lab-chat"
price = {{ input = "1.00", cache_read = "0.10", output = "4.00" }}
max_output = 1000

[[models]]
id = "thinker"
upstream = "lab-anthropic"
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
#: Tries of a call until it is compacted in time.
_TRIES = 40


class Desk:
    """A running gateway before its model, and keys of two teams."""

    def __init__(self, running: Gateway, url: str, model: RecallingModel, folder: Path) -> None:
        self.gateway = running
        self.folder = folder
        self.url = url
        self.model = model
        teams = running.store.teams
        self.teams = [teams.create(name, now=NOW) for name in ("acme", "zenith")]
        self._clients: dict[tuple[str, int], Any] = {}
        self.keys = [teams.create_key(team.id, "first", now=NOW)[1] for team in self.teams]

    async def ask(
        self, messages: list[Any], api: Api = APIS[0], team: int = 0, **fields: Any
    ) -> RecalledReply:
        """The answer to a call that is compacted at once; on a busy machine at another try."""
        before = len(self.model.bodies)
        if (api.name, team) not in self._clients:
            self._clients[api.name, team] = api.connect(self.url, self.keys[team])
        client = self._clients[api.name, team]
        for _ in range(_TRIES):
            reply = await api.ask(client, messages, extra_headers=FORCED, **fields)
            if "reason=late" not in reply.headers["x-thriftgate-compaction"]:
                return reply
            del self.model.bodies[before:]
        raise TimeoutError

    async def close(self) -> None:
        """Close its clients."""
        for client in self._clients.values():
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
            try:
                yield desk
            finally:
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


def recall_once(body: dict[str, Any]) -> ModelTurn:
    """A model that recalls the words of its question, and answers with all that it then knows."""
    if texts := recalled_texts(body):
        return ModelTurn(text=texts[-1])
    if offers_recall(body):
        return ModelTurn(calls=[(TOOL_NAME, {"query": question(body)})])
    return ModelTurn(text=words_of(body))


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
