"""``/v1/thriftgate/usage``: what one key's holder is shown, and nothing of another key."""

import json
from typing import Any

from proxy.records.receipt import Outcome
from proxy.store.sql.access.teams import KeyLimits
from proxy.store.sql.ledger.inserts import inserter
from slo.usage import Usage
from tests.fakes.board import NOW
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
