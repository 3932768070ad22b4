"""``/v1/thriftgate/usage``: what one key's holder is shown, and nothing of another key."""

import asyncio
import json
from collections import Counter
from typing import Any, cast

from dashboards.views.key_usage import KeyLimitView
from proxy.pages.resources.callers.key_usage import KeyUsageResource
from proxy.pages.store_questions import StoreQuestions
from proxy.records.call import Key
from proxy.records.receipt import Outcome
from proxy.store.sql.access.teams import KeyLimits
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.usage import Usage
from tests.fakes.admin_api import PATIENCE_S
from tests.fakes.board import NOW
from tests.fakes.clock import ManualClock
from tests.fakes.dashboard import Dashboard
from tests.fakes.receipts import a_receipt

_DAY_S = 86_400


def usage(dashboard: Dashboard, key: str) -> tuple[int, Any]:
    answer = dashboard.ask(
        "GET", "/v1/thriftgate/usage", authorization=f"Bearer {key}", sec_fetch_site=None
    )
    return answer.status, json.loads(answer.body)


def keep(dashboard: Dashboard, *receipts: Any) -> None:
    assert inserter(dashboard.store._engine)(list(receipts)) is None


def test_a_key_reads_its_own_spend_errors_cache_and_calls(dashboard: Dashboard) -> None:
    key, secret = dashboard.store.teams.create_key(dashboard.own, "", now=NOW, feature="chat")
    own: dict[str, Any] = {"team": dashboard.own, "key_id": key.id, "cost_nanos": 2 * 10**9}
    keep(
        dashboard,
        a_receipt(14, **own, started=NOW - 60, usage=Usage(input=100, cache_read=300, output=7)),
        a_receipt(
            13, **own, started=NOW - 90, outcome=Outcome.FAILED, status=502, error="upstream_error"
        ),
        a_receipt(2, **own, started=NOW - 3 * _DAY_S),
        a_receipt(1, **own, started=NOW - 20 * _DAY_S),
    )

    status, shown = usage(dashboard, secret)

    assert status == 200
    assert (shown["key"], shown["team"], shown["feature"]) == (key.id, "acme", "chat")
    spend = shown["spend"]
    assert (spend["today"], spend["week"]) == (4 * 10**9, 6 * 10**9)
    assert sum(filter(None, spend["days"])) == 8 * 10**9
    assert (shown["health"]["recent"]["calls"], shown["health"]["day"]["errors"]) == (2, 1)
    newest = shown["calls"][0]
    assert (newest["prompt_tokens"], newest["cache_read_tokens"]) == (400, 300)
    assert [call["status"] for call in shown["calls"]][:2] == [200, 502]
    assert 0 < shown["cache_hit_rate"] < 1
    assert shown["latency"]["calls"] == 3
    assert [limit["budget"] for limit in shown["limits"]] == ["in-the-file"]


def test_a_key_sees_no_call_and_no_cost_of_another_key_of_its_team(dashboard: Dashboard) -> None:
    teams = dashboard.store.teams
    _, secret = teams.create_key(dashboard.own, "", now=NOW)
    neighbour, _ = teams.create_key(dashboard.own, "", now=NOW)
    stranger, _ = teams.create_key(dashboard.other, "", now=NOW)
    keep(
        dashboard,
        a_receipt(1, team=dashboard.own, key_id=neighbour.id, started=NOW - 60),
        a_receipt(2, team=dashboard.other, key_id=stranger.id, started=NOW - 60),
    )

    _, shown = usage(dashboard, secret)

    assert shown["calls"] == []
    assert (shown["spend"]["today"], shown["spend"]["month"]) == (0, 0)
    assert shown["health"]["day"]["calls"] == 0
    text = json.dumps(shown)
    assert neighbour.id not in text
    assert stranger.id not in text


def test_unknown_and_revoked_keys_get_the_same_answer(dashboard: Dashboard) -> None:
    teams = dashboard.store.teams
    key, secret = teams.create_key(dashboard.own, "", now=NOW)
    teams.revoke(key.id, now=NOW)
    _, expired = teams.create_key(
        dashboard.own, "", now=NOW - 10, limits=KeyLimits(expires=NOW - 5)
    )

    unknown = usage(dashboard, f"tg-{'x' * (len(secret) - 3)}")

    assert usage(dashboard, secret) == unknown
    assert unknown[0] == 401
    assert usage(dashboard, expired)[0] == 401


class CountedQuestions:
    """Questions to a store, counted by kind."""

    def __init__(self, store: Store) -> None:
        self._questions = StoreQuestions(store, PATIENCE_S)
        self.counts = Counter[str]()

    async def view(self, kind: str, *question: Any) -> Any:
        self.counts[kind] += 1
        return await self._questions.view(kind, *question)


def test_a_key_that_asks_often_is_read_once_in_five_seconds(store: Store) -> None:
    key, other = (Key(id=name, team="team_1", team_name="acme") for name in ("key_1", "key_2"))
    clock = ManualClock(NOW)

    async def no_limits(_: Key) -> list[KeyLimitView]:
        return []

    async def ask() -> Counter[str]:
        questions = CountedQuestions(store)
        resource = KeyUsageResource(cast("StoreQuestions", questions), no_limits, clock)
        at_once = await asyncio.gather(*[resource.usage(key) for _ in range(9)])
        assert {shown.key for shown in at_once} == {key.id}
        await resource.usage(other)
        clock.now += 5.0
        assert (await resource.usage(key)).at == NOW + 5.0
        return questions.counts

    assert set(asyncio.run(ask()).values()) == {3}
