import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from dashboards.access import Role, Viewer
from dashboards.views.savings import MeasuredSaving
from proxy.catalog.catalog import Catalog
from proxy.errors import CallerError
from proxy.pages.resources.ledger.savings import SavingsResource
from proxy.pages.store_questions import StoreQuestions
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.usage import Usage
from tests.fakes.admin_api import DAY, NOW, PATIENCE_S, AdminApi, of_team
from tests.fakes.chaos import two_model_catalog
from tests.fakes.receipts import a_receipt
from tests.fakes.savings import figures_of

MILLION = 1_000_000


@pytest.fixture
def catalog() -> Catalog:
    return two_model_catalog()


@pytest.fixture
def api(store: Store, catalog: Catalog) -> AdminApi:
    def make(ask: StoreQuestions):
        return SavingsResource(ask, figures_of(store, NOW, catalog), lambda: NOW).router()

    return AdminApi(store, make)


def a_call(n: int, days_ago: float = 1, **changes: Any):
    started = NOW - days_ago * DAY
    fields = {"route": "lab/model-0", "model": "model-0"} | changes
    return a_receipt(n, call_id=f"{id_floor(started)[:-4]}{n:04x}", started=started, **fields)


def propose(
    api: AdminApi, family: str, saving: int, *, team: str = "a", feature: str = "x"
) -> None:
    """Proposes a layout that should save so many nano-dollars per 1,000 calls."""
    move = LayoutMove(
        before=None, after=None, slot=PromptSlot.VARIABLE, label="date", calls=60, saving=saving
    )
    moves = msgspec.json.encode(Layout(moves=(move,), is_early=True)).decode()
    api.store.layouts.propose(LayoutScope(team, feature, family), f"d{family}", moves, NOW)


def steps(body: Any) -> dict[str, int]:
    return {step["name"]: step["nanos"] for step in body["steps"]}


def test_the_waterfall_adds_up_what_receipts_say(api: AdminApi) -> None:
    api.keep(
        a_call(
            1, team="a", list_nanos=220, cost_nanos=200, read_saved_nanos=900, write_extra_nanos=30,
            planning_nanos=40, compaction="facts", compaction_nanos=70, conversation="ab",
        ),
        a_call(2, team="a", list_nanos=5, cost_nanos=5),
        a_call(3, 60, team="a", list_nanos=999, cost_nanos=999, read_saved_nanos=999),
    )  # fmt: skip
    body = api.ok("/savings")

    assert steps(body) == {
        "provider_caching": -830,
        "planning": -40,
        "compaction": -70,
        "fast_path": 0,
        "routing": 0,
        "discounts": -20,
    }
    assert body["paid_nanos"] == 205
    assert body["unmodified_nanos"] + sum(steps(body).values()) == 205
    assert body["saved_nanos"] == 40 + 70 == body["direct_nanos"] - 205
    assert body["saved_share"] == pytest.approx(110 / 315)


def test_features_have_waterfalls_of_their_own_that_add_up(api: AdminApi) -> None:
    api.keep(
        a_call(1, team="a", feature="x", read_saved_nanos=100, write_extra_nanos=0),
        a_call(2, team="b", feature="y", read_saved_nanos=5000, write_extra_nanos=9),
    )
    body = api.ok("/savings")

    assert [feature["feature"] for feature in body["features"]] == ["x", "y"]
    for index, step in enumerate(body["steps"]):
        assert step["nanos"] == sum(feature["steps"][index] for feature in body["features"])
    for feature in body["features"]:
        assert feature["unmodified_nanos"] + sum(feature["steps"]) == feature["paid_nanos"]
        assert feature["direct_nanos"] - feature["saved_nanos"] == feature["paid_nanos"]
    assert body["saved_nanos"] == sum(feature["saved_nanos"] for feature in body["features"])


def test_a_viewer_of_one_team_sees_no_savings_of_another(api: AdminApi) -> None:
    api.keep(
        a_call(1, team="a", feature="x", read_saved_nanos=1, write_extra_nanos=0),
        a_call(2, team="b", feature="y", read_saved_nanos=2, write_extra_nanos=0),
    )
    for team in ("a", "b"):
        propose(api, "model", MILLION, team=team, feature="x" if team == "a" else "y")
    mine = api.ok("/savings", of_team("a"))

    assert [feature["team"] for feature in mine["features"]] == ["a"]
    assert [(item["team"], item["fields"]) for item in mine["next"]] == [("a", {})]
    assert steps(mine)["provider_caching"] == -1
    assert api.ok("/savings", of_team("a"), team="b")["features"] == []


def test_the_part_of_the_paid_cost_that_is_estimated_is_known_by_filter(api: AdminApi) -> None:
    api.keep(
        a_call(1, team="a", feature="x", cost_nanos=7, estimated=True),
        a_call(2, team="a", feature="y", cost_nanos=5),
        a_call(3, team="b", feature="x", cost_nanos=90, estimated=True),
    )

    assert api.ok("/savings")["estimated_nanos"] == 97
    assert api.ok("/savings", of_team("a"))["estimated_nanos"] == 7
    assert api.ok("/savings", feature="y")["estimated_nanos"] == 0


def test_replies_of_another_model_are_priced_as_the_one_asked_for(
    api: AdminApi, catalog: Catalog
) -> None:
    request, *_ = catalog.models.values()
    usage = Usage(input=MILLION, output=MILLION)
    api.keep(
        a_call(1, team="a", model=request.id, route="lab/small", usage=usage, list_nanos=7),
        a_call(2, team="a", model="unlisted", route="lab/small", usage=usage, list_nanos=7),
    )
    body = api.ok("/savings")
    tariff = request.routes[0].tariff
    assert tariff is not None
    rates = tariff.periods[-1].sheets[""].rates

    assert -steps(body)["routing"] == (rates.input or 0) + (rates.output or 0) - 7
    assert body["unknown_routing_calls"] == 1


def test_layouts_that_would_change_nothing_are_no_savings(api: AdminApi) -> None:
    features = ("observes", "off", "suspended", "unused")
    api.keep(*(a_call(n, team="a", feature=feature) for n, feature in enumerate(features[:3])))
    for feature in features:
        propose(api, "model", MILLION, feature=feature)
    layouts = api.store.layouts
    layouts.switch(LayoutScope("a", "off"), PlanningMode.OFF, "ann", NOW)
    layouts.suspend(LayoutScope("a", "suspended"), "it is dearer", NOW)
    proposal, off = api.ok("/savings")["next"]

    assert (proposal["feature"], proposal["title"]) == (
        "observes",
        "Apply the layout of observes on model",
    )
    assert proposal["effect"].endswith("read from caches, and its mode becomes apply")
    assert proposal["fields"] == {"change": "approve", "version": "1", "family": "model"}
    assert proposal["link"] == "/admin/layouts/a/observes"
    assert (off["kind"], off["feature"], off["saved_nanos"]) == ("planning", "off", None)


def test_a_suspended_feature_counts_nothing_and_is_named(api: AdminApi) -> None:
    api.keep(a_call(1, team="a", feature="x", planning_nanos=40, conversation="ab"))
    api.store.layouts.suspend(LayoutScope("a", "x", "model"), "it is dearer", NOW)
    body = api.ok("/savings")

    assert steps(body)["planning"] == 0
    assert [(item["feature"], item["nanos"], item["why"]) for item in body["uncounted"]] == [
        ("x", 40, "planning is suspended: it is dearer")
    ]


def test_a_layout_saves_on_calls_of_its_own_family_alone(api: AdminApi) -> None:
    api.keep(
        a_call(1, team="a", feature="x"),
        a_call(2, team="a", feature="x"),
        a_call(3, team="a", feature="x", model="gpt-9", route="lab/gpt-9#fast"),
    )
    for family in ("model", "gpt", "claude", ""):
        propose(api, family, 30_000)
    result = api.ok("/savings", next=5)["next"]

    assert [(item["fields"]["family"], item["month_nanos"]) for item in result] == [
        ("", pytest.approx(30 * 90, rel=0.02)),
        ("model", pytest.approx(30 * 60, rel=0.02)),
        ("gpt", pytest.approx(30 * 30, rel=0.02)),
    ]


@pytest.mark.parametrize("is_merged", [False, True])
@pytest.mark.parametrize(
    ("first_call", "query", "days", "month"),
    [
        (0.9, {}, 0.9, None),
        (4, {}, 4, 30 * 60 / 4),
        (4, {"from": "2026-11-21", "to": "2026-11-21"}, 0.0, None),
        (90, {}, 0.9, None),
    ],
)
def test_a_month_of_a_saving_is_extrapolated_from_the_days_with_calls(
    api: AdminApi,
    first_call: float,
    query: dict[str, str],
    days: float,
    month: float | None,
    *,
    is_merged: bool,
) -> None:
    api.keep(
        a_call(1, first_call, team="a", feature="x"), a_call(2, 0.9, team="a", feature="x"),
        a_call(3, 8, team="b", feature="x"),
    )  # fmt: skip
    propose(api, "model", 30 * MILLION)
    if is_merged:
        api.store.pending_sums.merge(9.0)
    result = api.ok("/savings", of_team("a"), **query)["next"]

    if not days:
        assert result == []
        return
    (saving,) = result
    assert saving["nanos_per_1k_calls"] == 30 * MILLION
    assert (saving["basis"], saving["bound"]) == ("Estimated from 60 calls", "at least")
    expected = None if month is None else pytest.approx(month * MILLION / 1_000, rel=0.02)
    assert saving["month_nanos"] == expected


def test_the_comparison_with_the_control_arm_is_made_and_shown(api: AdminApi) -> None:
    arms = ["treated"] * 60 + ["control"] * 60
    api.keep(
        *(
            a_call(n, 1 + n / 1000, team="a", feature="x", conversation=f"{n:032x}", arm=arm,
                   cost_nanos=(100 if arm == "treated" else 200) + n)
            for n, arm in enumerate(arms)
        )
    )  # fmt: skip
    api.ok("/savings")
    body = api.ok("/savings")
    (result,) = body["measured"]

    assert (result["finding"], result["feature"]) == ("measured", "x")
    assert result["low"] < result["share"] < result["high"]
    assert body["measured_at"] == NOW
    assert api.ok("/savings", of_team("b"))["measured"] == []


def test_the_control_arms_word_on_a_feature_is_for_those_who_see_its_team(
    store: Store, catalog: Catalog
) -> None:
    planned: Any = {"team": "a", "conversation": "ab", "arm": "treated"}
    inserter(store._engine)([a_call(1, feature="x", **planned), a_call(2, feature="y", **planned)])
    ask = StoreQuestions(store, PATIENCE_S)
    savings = SavingsResource(ask, figures_of(store, NOW, catalog), lambda: NOW)

    async def ask_measurement(team: str, feature: str) -> Sequence[MeasuredSaving] | None:
        viewer = Viewer(name="ann", role=Role.VIEWER, own_teams=frozenset({"a"}))
        return await savings.measurement_of(viewer, team, "Acme", feature)

    (result,) = asyncio.run(ask_measurement("a", "x")) or ()
    assert (result.team_name, result.feature, result.finding) == ("Acme", "x", "not enough")
    assert asyncio.run(ask_measurement("a", "z")) == []
    with pytest.raises(CallerError, match="of this team"):
        asyncio.run(ask_measurement("b", "x"))


def test_cached_tokens_of_unknown_saving_are_said(api: AdminApi) -> None:
    api.keep(a_call(1, usage=Usage(input=1, cache_read=77)))

    assert api.ok("/savings")["unknown_cached_tokens"] == 77
