import asyncio
from typing import Any

import pytest

from dashboards.access import Role, Viewer
from dashboards.views.calls import CallsView
from proxy.errors import Unready
from proxy.pages.resources.ledger.calls import Calls, CallsQuery
from proxy.pages.store_questions import StoreQuestions, view_itself
from proxy.records.receipt import Outcome
from proxy.store.sql.ids import call_ids
from proxy.store.store import Store
from slo.objectives.objective import EVERY
from tests.fakes.admin_api import ADMIN, DAY, FINANCE, NOW, AdminApi, of_team
from tests.fakes.chaos import two_model_catalog
from tests.fakes.objectives import objective
from tests.fakes.receipts import a_receipt

make_id = call_ids()
TEAM_ADMIN = of_team("a", role=Role.TEAM_ADMIN)


@pytest.fixture
def api(store: Store) -> AdminApi:
    def make(ask: StoreQuestions):
        return Calls(store, ask, two_model_catalog, lambda: (), lambda: NOW).router()

    return AdminApi(store, make)


def a_call(n: int, days_ago: float = 0.1, **changes):
    started = NOW - days_ago * DAY + n
    return a_receipt(n, call_id=make_id(started), started=started, **changes)


def test_calls_come_newest_first_page_by_page(api: AdminApi) -> None:
    calls = [a_call(n) for n in range(5)]
    api.keep(*calls)
    first = api.ok("/calls", limit=3)
    second = api.ok("/calls", limit=3, after=first["next"])

    result = [item["call_id"] for item in first["calls"] + second["calls"]]
    assert result == [call.call_id for call in reversed(calls)]
    assert second["next"] is None


def test_calls_are_filtered_by_what_the_query_names(api: AdminApi) -> None:
    dear = a_call(1, cost_nanos=10**9, feature="", miss="expired", conversation="ab")
    api.keep(dear, a_call(2, cost_nanos=1, feature="x"), a_call(3, 50, cost_nanos=10**9))
    for query in ({"min_cost_nanos": 10**8}, {"feature": "(none)"}, {"miss": "*"}):
        assert [call["call_id"] for call in api.ok("/calls", **query)["calls"]] == [dear.call_id]
    assert api.get("/calls", limit=201)[0] == 422
    assert api.get("/calls", outcome="nonsense")[0] == 422
    assert api.get("/calls", tag="a'b:c")[0] == api.get("/calls", tag="customer")[0] == 422


def test_calls_of_the_last_minutes_alone_can_be_asked_for(api: AdminApi) -> None:
    recent, older = a_call(1, 600 / DAY), a_call(2, 7_200 / DAY)
    api.keep(recent, older)

    assert [call["call_id"] for call in api.ok("/calls", window="1h")["calls"]] == [recent.call_id]
    assert len(api.ok("/calls", window="6h")["calls"]) == 2


def test_a_team_admin_sees_calls_of_own_teams_alone(api: AdminApi) -> None:
    mine, other = a_call(1, team="a"), a_call(2, team="b")
    api.keep(mine, other)

    assert [call["team"] for call in api.ok("/calls", TEAM_ADMIN)["calls"]] == ["a"]
    assert api.ok("/calls", TEAM_ADMIN, team="b")["calls"] == []
    assert api.ok(f"/calls/{mine.call_id}", TEAM_ADMIN)["team"] == "a"
    status, body = api.get(f"/calls/{other.call_id}", TEAM_ADMIN)
    assert (status, body["error"]["code"]) == (404, "call_not_found")
    assert len(api.ok("/calls", ADMIN)["calls"]) == 2


@pytest.mark.parametrize("viewer", [of_team("a"), FINANCE])
def test_a_viewer_of_costs_alone_sees_no_call(api: AdminApi, viewer: Viewer) -> None:
    call = a_call(1, team="a")
    api.keep(call)
    for path in ("/calls", f"/calls/{call.call_id}"):
        assert api.get(path, viewer)[0] == 403


def test_an_upstreams_message_is_only_for_who_sees_all_teams(api: AdminApi) -> None:
    words = "it answered 402 billing_error 'Account corp-7 has no credit.'"
    call = a_call(1, team="a", outcome=Outcome.FAILED, upstream_error=words)
    api.keep(call)

    def upstream_error(viewer: Viewer) -> str:
        (attempt,) = api.ok(f"/calls/{call.call_id}", viewer)["attempts"]
        return str(attempt["upstream_error"])

    assert upstream_error(ADMIN) == words
    assert upstream_error(TEAM_ADMIN) == "it answered 402 billing_error"


def test_a_call_tells_its_whole_story(api: AdminApi) -> None:
    call = a_call(1, team="a", conversation="ab", miss="expired", miss_tokens=5)
    api.keep(call)
    story = api.ok(f"/calls/{call.call_id}")

    (attempt,) = story["attempts"]
    assert (story["cost_nanos"], attempt["is_final"]) == (call.cost_nanos, True)
    assert sum(line["nanos"] or 0 for line in attempt["cost_lines"]) == call.list_nanos


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ({}, {1, 2, 3}),
        ({"team": "a"}, {1, 3}),
        ({"feature": "(none)"}, {2}),
        ({"model": "model-1"}, {2}),
        ({"key": "key_b"}, {3}),
        ({"user": "u"}, {3}),
        ({"tag": "customer:a:c"}, {3}),
        ({"tag": "customer:(none)"}, {1, 2}),
        ({"route": "lab/model-1"}, {2}),
        ({"provider": "nobody"}, set()),
        ({"outcome": "failed"}, {1}),
        ({"miss": "*"}, {2}),
        ({"miss": "expired"}, {2}),
        ({"miss": "diverged"}, set()),
        ({"rerouted": True}, {3}),
        ({"min_cost_nanos": 500}, {2}),
        ({"min_cost_usd": "0.0000009"}, {2}),
        ({"status": 504}, {1}),
        ({"unpriced": True}, {1}),
        ({"team": "a", "rerouted": True, "miss": "*"}, set()),
    ],
)
def test_each_filter_leaves_the_calls_that_have_its_value(
    api: AdminApi, filters: dict[str, Any], numbers: set[int]
) -> None:
    plain: dict[str, Any] = {
        "feature": "x", "model": "model-0", "route": "lab/model-0", "upstream": "lab",
        "key_id": "key_a", "user": "", "outcome": Outcome.ANSWERED, "cost_nanos": 1,
        "reroute_reason": "", "miss": "",
    }  # fmt: skip
    changes: dict[int, dict[str, Any]] = {
        1: {"team": "a", "outcome": Outcome.FAILED, "status": 504, "cost_nanos": None,
            "list_nanos": None},
        2: {"team": "b", "feature": "", "route": "lab/model-1", "miss": "expired",
            "conversation": "ab", "cost_nanos": 900},
        3: {"team": "a", "key_id": "key_b", "user": "u", "reroute_reason": "slow",
            "tags": (("customer", "a:c"),)},
    }  # fmt: skip
    calls = {n: a_call(n, **(plain | changed)) for n, changed in changes.items()}
    api.keep(*calls.values())

    expected = [calls[n].call_id for n in sorted(numbers, reverse=True)]
    assert [call["call_id"] for call in api.ok("/calls", **filters)["calls"]] == expected


def test_a_search_finds_ids_first_and_then_texts_of_kept_prompts(api: AdminApi) -> None:
    digits = "202612011234"
    named, quoting = a_call(1, 50, team="a"), a_call(2, team="a", prompt=f"order {digits}")
    api.keep(named, quoting, a_call(3, team="b", prompt=f"order {digits}"))

    def ids(text: str) -> list[str]:
        return [call["call_id"] for call in api.ok("/calls", TEAM_ADMIN, q=text)["calls"]]

    assert ids(named.call_id) == ids(named.call_id[5:17]) == [named.call_id]
    assert ids(digits) == ids(" order ") == [quoting.call_id]
    assert ids("call_" + digits) == []


def test_a_file_has_the_calls_of_own_teams_without_hidden_columns(api: AdminApi) -> None:
    api.keep(a_call(1, team="a", cost_nanos=5), a_call(2, team="b"), a_call(3, team="a"))
    answer = api.answer("/calls.csv", TEAM_ADMIN, sort="cost", without=["team", "outcome"])
    head, *rows = answer.body.decode().split("\r\n")

    assert head.startswith("when,call,model,asked_for")
    assert len(list(filter(None, rows))) == 2
    assert api.get("/calls.csv", FINANCE)[0] == 403
    assert api.get("/calls.csv", without="nonsense")[0] == 422


async def test_few_requests_of_people_who_follow_calls_are_answered_at_a_time(store: Store) -> None:
    resource = Calls(store, StoreQuestions(store, 5.0), two_model_catalog, tuple, lambda: NOW)
    query = CallsQuery.model_validate({"newer": make_id(NOW)})

    async def follow() -> CallsView | Unready:
        try:
            return await resource.follow(ADMIN, query, view_itself)
        except Unready as error:
            return error

    answers = await asyncio.gather(*(follow() for _ in range(6)))
    assert [isinstance(answer, Unready) for answer in answers] == [False] * 4 + [True] * 2
    assert isinstance(await follow(), CallsView)


def test_objectives_of_other_teams_are_refused_as_those_that_are_gone(store: Store) -> None:
    own, other = (store.teams.create(name, now=NOW).id for name in ("Search", "Support"))
    objectives = [
        objective(name=name, team=team)
        for name, team in (("theirs", "Support"), ("own", "Search"), ("all", EVERY))
    ]

    def make(ask: StoreQuestions):
        return Calls(store, ask, two_model_catalog, lambda: objectives, lambda: NOW).router()

    api, viewer = AdminApi(store, make), of_team(own, role=Role.TEAM_ADMIN)
    gone, theirs = (api.get("/calls", viewer, missed=name) for name in ("gone", "theirs"))

    assert (gone[0], gone[1]["error"]["code"]) == (400, "unknown_objective")
    assert theirs[0] == 400
    assert str(theirs[1]).replace("theirs", "gone") == str(gone[1])
    assert api.ok("/calls", viewer, missed="own")["calls"] == []
    assert api.ok("/calls", viewer, missed="all")["calls"] == []
    assert api.ok("/calls", of_team(other, role=Role.TEAM_ADMIN), missed="theirs")["calls"] == []
    assert api.ok("/calls", missed="theirs")["calls"] == []
