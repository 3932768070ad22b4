"""Planning and compaction of features: seen by their teams, changed by those who may."""

import asyncio
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from compaction.policy import CompactionMode
from dashboards.access import Role, Viewer
from dashboards.views.access import AuditEntryView
from proxy.errors import CallerError
from proxy.pages.resources.ledger.features import (
    CompactionModeRequest,
    FeaturesResource,
    LayoutDecision,
    ModeRequest,
)
from proxy.pages.store_questions import StoreQuestions, view_itself
from proxy.prefix.layouts.layout import Layout
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql.ids import call_ids
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from tests.fakes.admin_api import PATIENCE_S
from tests.fakes.board import NOW
from tests.fakes.receipts import a_receipt

MOVES = msgspec.json.encode(Layout(version=1, moves=())).decode()


class FeaturesHarness:
    """The resource over a store of two teams, and what the audit log says of people's changes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.acme = store.teams.create("acme", now=NOW).id
        self.other = store.teams.create("other", now=NOW).id
        self.resource = FeaturesResource(
            store, StoreQuestions(store, PATIENCE_S), CompactionMode.OFF, lambda: NOW, 10_000_000
        )
        for team in (self.acme, self.other):
            store.layouts.propose(LayoutScope(team, "chat", "gpt"), "d1", MOVES, NOW)

    def audit_entries(self) -> list[AuditEntryView]:
        """Changes by ann, in the order of their names."""
        result = self.store.audit.entries(100, who="ann")
        return sorted(result, key=lambda entry: entry.action)

    def viewer(self, role: Role) -> Viewer:
        return Viewer(name="ann", role=role, own_teams=frozenset({self.acme}))

    def change(self, role: Role, kind: str, team: str, *request: Any) -> None:
        asyncio.run(getattr(self.resource, kind)(self.viewer(role), team, "chat", *request))

    def resume(self, place: LayoutScope, *parts: Any) -> None:
        asyncio.run(self.resource.resume(self.viewer(Role.TEAM_ADMIN), place, *parts))


@pytest.fixture
def desk(store: Store) -> FeaturesHarness:
    return FeaturesHarness(store)


def test_savings_reckoned_before_an_approval_are_shown_no_more(desk: FeaturesHarness) -> None:
    place = LayoutScope(desk.acme, "chat", "gpt")
    desk.store.layouts.propose(place, "d2", MOVES, NOW + 1)
    desk.store.layouts.approve(place, 1, "ann", NOW + 2)

    view = asyncio.run(desk.resource.get(desk.viewer(Role.VIEWER), desk.acme, "chat"))

    (_, on_gpt) = view.layouts
    assert [(version.version, version.saving_nanos) for version in on_gpt.versions] == [
        (2, None),
        (1, 0),
    ]


@pytest.mark.parametrize(
    ("mode", "saved", "lost"),
    [
        (CompactionMode.FACTS, -10_000_000, 10_000_000),
        (CompactionMode.FACTS, -9_999_999, None),
        (CompactionMode.NATIVE, -20_000_000, None),
    ],
)
def test_a_feature_that_lost_its_stake_of_the_last_day_says_how_much(
    desk: FeaturesHarness, mode: CompactionMode, saved: int, lost: int | None
) -> None:
    losing: dict[str, Any] = {"team": desk.acme, "feature": "chat", "compaction": "facts"}
    days = [(NOW - 3_600, saved), (NOW - 200_000, -90_000_000)]
    make_id = call_ids()
    calls = [
        a_receipt(call_id=make_id(at), started=at, compaction_nanos=nanos, **losing)
        for at, nanos in days
    ]
    assert inserter(desk.store._engine)(calls) is None
    desk.change(Role.ADMIN, "set_compaction", desk.acme, CompactionModeRequest(mode=mode))

    view = asyncio.run(desk.resource.get(desk.viewer(Role.VIEWER), desk.acme, "chat"))

    assert view.compaction_lost_nanos == lost


def test_the_savings_of_the_last_30_days_stand_with_the_named_feature(
    desk: FeaturesHarness,
) -> None:
    make_id, days = call_ids(), (NOW - 60, NOW - 29 * 86_400, NOW - 32 * 86_400)
    receipts = [
        a_receipt(
            call_id=make_id(at), started=at, team=desk.acme, feature=feature, planning_nanos=nanos
        )
        for at, feature, nanos in [
            *zip(days, ["chat"] * 3, (5_000, -1_000, 70_000), strict=True),
            (NOW - 60, "other", 9),
        ]
    ]
    assert inserter(desk.store._engine)(receipts) is None
    viewer = desk.viewer(Role.TEAM_ADMIN)
    month = asyncio.run(desk.resource.get(viewer, desk.acme, "chat")).month

    assert month is not None
    assert (month.calls, month.planning, month.compaction) == (2, 4_000, 0)
    listed = asyncio.run(desk.resource.list(viewer, view_itself))
    assert [view.month for view in listed] == [None]


def test_a_member_sees_features_of_the_own_team_only(desk: FeaturesHarness) -> None:
    result = asyncio.run(desk.resource.list(desk.viewer(Role.VIEWER), view_itself))
    assert [(view.team_name, view.feature) for view in result] == [("acme", "chat")]
    (_, on_gpt) = result[0].layouts
    assert (on_gpt.family, [version.state for version in on_gpt.versions]) == ("gpt", ["proposed"])

    with pytest.raises(CallerError, match="of this team"):
        asyncio.run(desk.resource.get(desk.viewer(Role.VIEWER), desk.other, "chat"))


def test_a_team_admin_approves_a_layout_and_rolls_it_back(desk: FeaturesHarness) -> None:
    place = LayoutScope(desk.acme, "chat", "gpt")
    desk.change(Role.TEAM_ADMIN, "decide", desk.acme, LayoutDecision(version=1, family="gpt"))
    assert desk.store.layouts.states().of(place).version == 1
    assert desk.store.layouts.states().of(place).changed_by == "ann"

    desk.change(Role.TEAM_ADMIN, "decide", desk.acme, LayoutDecision(version=None, family="gpt"))
    assert desk.store.layouts.states().of(place).version == 0
    actions = [change.action for change in desk.audit_entries()]
    assert actions == ["approve layout", "roll back layout"]


def test_modes_of_planning_and_compaction_are_set(desk: FeaturesHarness) -> None:
    desk.change(Role.ADMIN, "set_mode", desk.other, ModeRequest(mode=PlanningMode.AUTO))
    desk.change(
        Role.ADMIN, "set_compaction", desk.other, CompactionModeRequest(mode=CompactionMode.FACTS)
    )

    scope = LayoutScope(desk.other, "chat")
    assert desk.store.layouts.states().of(scope).mode is PlanningMode.AUTO
    chosen = desk.store.compactions.all_settings().of(desk.other, "chat")
    assert chosen.mode is CompactionMode.FACTS
    modes = [(change.before or {}, change.after or {}) for change in desk.audit_entries()]
    assert [(before["mode"], after["mode"]) for before, after in modes] == [
        (None, "facts"),
        (None, "auto"),
    ]


def test_a_suspended_feature_is_resumed_once(desk: FeaturesHarness) -> None:
    desk.store.layouts.suspend(LayoutScope(desk.acme, "chat"), "it cost more", NOW)
    place = LayoutScope(desk.acme, "chat")
    desk.resume(place)
    assert not desk.store.layouts.states().of(LayoutScope(desk.acme, "chat")).suspended

    with pytest.raises(CallerError, match="not stopped planning or compaction here"):
        desk.resume(place)


def test_compaction_is_resumed_while_planning_stays_suspended(desk: FeaturesHarness) -> None:
    place = LayoutScope(desk.acme, "chat")
    desk.store.layouts.suspend(place, "it cost more", NOW)
    desk.store.compactions.choose((desk.acme, "chat"), CompactionMode.FACTS, "bob", NOW)
    desk.store.compactions.step_back((desk.acme, "chat"), CompactionMode.TRIM, "lost a fact", NOW)
    desk.resume(place, ["compaction"])

    assert desk.store.layouts.states().of(place).suspended
    assert desk.store.compactions.all_settings().of(desk.acme, "chat").stepped is None
    assert [change.action for change in desk.audit_entries()] == ["resume compaction"]
    with pytest.raises(CallerError, match="not stopped compaction here"):
        desk.resume(place, ["compaction"])


def test_the_extent_of_compaction_stays_until_it_is_changed(desk: FeaturesHarness) -> None:
    settings: tuple[tuple[dict[str, Any], tuple[int | None, int | None]], ...] = (
        ({"keep_turns": 5, "target_tokens": 9_000}, (5, 9_000)),
        ({}, (5, 9_000)),
        ({"keep_turns": None}, (None, 9_000)),
        ({"target_tokens": ""}, (None, None)),
    )
    for fields, expected in settings:
        request = CompactionModeRequest.model_validate({"mode": "facts", **fields})
        desk.change(Role.TEAM_ADMIN, "set_compaction", desk.acme, request)
        result = asyncio.run(desk.resource.get(desk.viewer(Role.VIEWER), desk.acme, "chat"))
        assert (result.keep_turns, result.target_tokens) == expected


@pytest.mark.parametrize("fields", [{"keep_turns": 0}, {"target_tokens": -1}, {"keep_turns": "x"}])
def test_compaction_keeps_at_least_a_turn_and_a_token(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CompactionModeRequest.model_validate({"mode": "facts", **fields})


@pytest.mark.parametrize("role", [Role.VIEWER, Role.FINANCE])
def test_only_admins_change_a_feature(desk: FeaturesHarness, role: Role) -> None:
    with pytest.raises(CallerError, match="may not change layouts"):
        desk.change(role, "set_mode", desk.acme, ModeRequest(mode=PlanningMode.OFF))
    assert desk.audit_entries() == []


def test_a_team_admin_changes_no_other_team(desk: FeaturesHarness) -> None:
    with pytest.raises(CallerError, match="of this team"):
        desk.change(Role.TEAM_ADMIN, "set_mode", desk.other, ModeRequest(mode=PlanningMode.OFF))


def test_a_version_that_is_not_there_is_named(desk: FeaturesHarness) -> None:
    with pytest.raises(CallerError) as refused:
        desk.change(Role.ADMIN, "decide", desk.acme, LayoutDecision(version=9, family="gpt"))
    assert refused.value.code == "unknown_layout"


def test_a_feature_without_settings_has_the_defaults_and_no_proposal(desk: FeaturesHarness) -> None:
    result = asyncio.run(desk.resource.get(desk.viewer(Role.VIEWER), desk.acme, "quiet"))

    (layout,) = result.layouts
    assert (result.team_name, result.feature) == ("acme", "quiet")
    assert (layout.mode, layout.version, layout.versions) == (PlanningMode.OBSERVE, 0, [])
    assert (result.compaction, result.compaction_chosen) == (CompactionMode.OFF, None)
    listed = asyncio.run(desk.resource.list(desk.viewer(Role.VIEWER), view_itself))
    assert [view.feature for view in listed] == ["chat"]


def test_a_feature_of_a_team_that_is_not_there_is_refused(desk: FeaturesHarness) -> None:
    with pytest.raises(CallerError) as refused:
        asyncio.run(desk.resource.get(desk.viewer(Role.ADMIN), "team_none", "chat"))
    assert (refused.value.code, refused.value.status) == ("unknown_team", 404)
