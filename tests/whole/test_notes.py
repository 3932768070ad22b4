"""A running gateway that has a small model take notes on what it compacts."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import orjson

from compaction.policy import CompactionMode as Compaction
from proxy.app import Gateway, gateway
from proxy.records.feature_mode import PlanningMode as Planning
from proxy.settings import Settings
from tests.fakes.asgi import AsgiConnection, answer_of_app, scope
from tests.fakes.server import Server, head, serving
from tests.proxy.services.compaction.summariser_fixtures import answer, note, visit

NOW = 1_790_000_000.0
CATALOG = """
[upstreams.here]
kind = "openai"
base_url = "{url}"

[[models]]
id = "large"
upstream = "here"
price = {{ input = "1.00", output = "4.00" }}

[[models]]
id = "small"
upstream = "here"
price = {{ input = "0.10", output = "0.40" }}
"""
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
ANSWER = answer(note(1), usage=USAGE)
STEPS = [head(200, "content-type: application/json", f"content-length: {len(ANSWER)}") + ANSWER]


async def call_gateway(running: Gateway, key: str, turns: int) -> AsgiConnection:
    body = orjson.dumps({"model": "large", "messages": visit(turns)})
    headers = {
        "authorization": f"Bearer {key}",
        "x-thriftgate-compaction": "force",
        "x-thriftgate-feature": "journeys",
    }
    app_answer = await answer_of_app(running.app, scope(headers=headers), AsgiConnection([body]))
    assert app_answer.status == 200
    return app_answer


def rows(folder: Path) -> int:
    """Number of notes are kept, and taken."""
    with closing(sqlite3.connect(folder / "thriftgate.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM notes").fetchone()[0])


async def wait_for_notes(folder: Path, parts: int) -> None:
    """Wait until there are notes on so many parts; all but the last were taken by a compaction."""
    async with asyncio.timeout(10):
        while rows(folder) < 2 * parts - 1:  # noqa: ASYNC110 - nobody says when
            await asyncio.sleep(0.01)


async def models_asked(folder: Path, server: Server, calls: list[int]) -> list[str]:
    """Return which models were asked, once these calls were made one after the other."""
    mine = folder / "mine.toml"
    mine.write_text(CATALOG.format(url=server.base_url))
    settings = Settings(
        folder=folder / "gateway",
        catalog=mine,
        compaction=Compaction.FACTS_MODEL,
        control_share=0.0,
        compaction_model="small",
        planning=Planning.OFF,
    )
    async with gateway(settings) as running:
        team = running.store.teams.create("acme", now=NOW)
        _, key = running.store.teams.create_key(team.id, "first", now=NOW)
        parts = 0
        for turns in calls:
            header = (await call_gateway(running, key, turns)).headers["x-thriftgate-compaction"]
            if "reset=yes" in header:
                parts += 1
                await wait_for_notes(settings.folder, parts)
        assert running.store.drain.flush(10)
        (journeys,) = running.store.compaction_receipts.totals(0.0)
        assert sorted(running.store.reports.features(team.id)) == [
            "journeys",
            "journeys/compaction",
        ]
    assert journeys.notes_nanos == 2 * (100 * 100 + 10 * 400)
    assert journeys.net_nanos is not None
    assert journeys.feature == "journeys"
    return [orjson.loads(request.body)["model"] for request in server.got]


def test_notes_are_asked_for_behind_the_answer_paid_by_their_team_and_join_the_next_part(tmp_path):
    async def work() -> Server:
        async with serving(STEPS) as server:
            models = await models_asked(tmp_path, server, [10, 11, 12, 20, 21])
            assert models == ["large", "large", "small", "large", "large", "small", "large"]
            return server

    server = asyncio.run(work())
    bodies = [request.body.decode() for request in server.got]

    assert ["note: decision t1" in text for text in bodies] == [
        False, False, False, False, True, False, True,
    ]  # fmt: skip
    assert "You take notes on part of a conversation" in bodies[2]
