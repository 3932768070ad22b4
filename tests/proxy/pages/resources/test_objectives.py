"""Objectives as people of each role see and pin them."""

import asyncio
from collections.abc import Sequence

import pytest

from dashboards.access import Role, Viewer
from dashboards.board import MissedTime, ObjectiveStatus, Reroute, StateTimeline
from proxy.errors import CallerError
from proxy.pages.resources.objectives import ObjectivesResource, PinRequest
from proxy.pages.store_questions import StoreQuestions
from proxy.store.store import Store
from tests.fakes.admin_api import PATIENCE_S
from tests.fakes.board import NOW, FakeBoard, a_ceiling, a_reroute, an_objective, overview

ADMIN = Viewer(name="ann", role=Role.ADMIN)


class ObjectivesHarness:
    """The resource over a board and a store, with what it wrote to the audit log."""

    def __init__(self, store: Store, board_kind: type[FakeBoard] = FakeBoard) -> None:
        objectives = [
            an_objective(name="everyone"),
            an_objective(name="acme", team="acme"),
            an_objective(name="other", team="other"),
        ]
        reroutes = [a_reroute(objective="acme"), a_reroute(objective="other")]
        ceilings = [a_ceiling(name="all"), a_ceiling(name="others", team="other")]
        board = board_kind(overview(objectives=objectives, reroutes=reroutes, ceilings=ceilings))
        self.store = store
        self.resource = ObjectivesResource(
            board, store, StoreQuestions(store, PATIENCE_S), lambda: NOW
        )


def test_a_member_sees_objectives_of_everyone_and_of_the_own_team(store: Store) -> None:
    team = store.teams.create("acme", now=NOW)
    viewer = Viewer(name="bob", role=Role.VIEWER, own_teams=frozenset({team.id}))

    view = asyncio.run(ObjectivesHarness(store).resource.list(viewer))

    assert [objective.name for objective in view.objectives or ()] == ["everyone", "acme"]
    assert [reroute.objective for reroute in view.reroutes or ()] == ["acme"]
    assert [ceiling.name for ceiling in view.ceilings] == ["all"]


def timelines(store: Store, *reroutes: Reroute) -> dict[str, StateTimeline]:
    objectives = [an_objective(name="acme"), an_objective(name="dry", enforce="observe")]
    board = FakeBoard(overview(objectives=objectives, reroutes=list(reroutes)))
    resource = ObjectivesResource(board, store, StoreQuestions(store, PATIENCE_S), lambda: NOW)
    timelines = asyncio.run(resource.list(ADMIN)).timelines or ()
    return {timeline.objective: timeline for timeline in timelines}


def test_the_last_day_of_an_objective_is_told_by_its_reroutes(store: Store) -> None:
    (timeline,) = timelines(
        store,
        a_reroute(objective="acme", began=NOW - 60, ended=None, state="pinned", level=""),
        a_reroute(objective="acme", began=NOW - 90_000, ended=NOW - 80_000),
        a_reroute(objective="acme", began=NOW - 200_000, ended=NOW - 190_000),
        a_reroute(objective="another"),
    ).values()

    assert (timeline.objective, timeline.began, timeline.ended) == ("acme", NOW - 86_400, NOW)
    assert [(span.state, span.level, span.began, span.ended) for span in timeline.spans] == [
        ("degraded", "small", NOW - 86_400, NOW - 80_000),
        ("pinned", "", NOW - 60, NOW),
    ]


def test_a_timeline_begins_where_reroutes_are_known_from(store: Store) -> None:
    many = [a_reroute(objective="acme", began=NOW - n, ended=NOW - n + 1) for n in range(1, 301)]

    assert timelines(store, *many)["acme"].began == NOW - 300
    assert timelines(store, *many[:299])["acme"].began == NOW - 86_400


def test_a_pin_is_set_and_released_and_both_are_audited(store: Store) -> None:
    desk = ObjectivesHarness(store)
    request = PinRequest(level=2, seconds=3600.0, why="an incident")

    asyncio.run(desk.resource.pin(ADMIN, "everyone", request))
    (pin,) = store.pins.current_pins(NOW).values()
    assert (pin.objective, pin.level, pin.until, pin.why, pin.who) == (
        "everyone",
        2,
        NOW + 3600,
        "an incident",
        "ann",
    )

    asyncio.run(desk.resource.release(ADMIN, "everyone"))
    assert store.pins.current_pins(NOW) == {}
    changes = {entry.action: entry for entry in store.audit.entries(10, who="ann")}
    assert {name: entry.subject for name, entry in changes.items()} == {
        "pin objective": "everyone",
        "release objective": "everyone",
    }


class VanishingBoard(FakeBoard):
    """A board whose objectives can be read once."""

    async def objectives(self) -> Sequence[ObjectiveStatus] | None:
        known, self.page = self.page.objectives, overview(objectives=None)
        return known


def test_pin_that_is_kept_while_objectives_cannot_be_read_again_is_said_to_be_kept(
    store: Store,
) -> None:
    desk = ObjectivesHarness(store, VanishingBoard)

    with pytest.raises(CallerError, match="Kept, but not yet in force: ") as kept:
        asyncio.run(desk.resource.pin(ADMIN, "everyone", PinRequest(level=2, seconds=60.0)))
    assert kept.value.code == "not_in_force"
    assert list(store.pins.current_pins(NOW)) == ["everyone"]


@pytest.mark.parametrize(
    ("name", "level", "code"),
    [("everyone", 3, "unknown_level"), ("none", 1, "unknown_objective")],
)
def test_a_pin_of_what_is_not_there_is_refused(
    store: Store, name: str, level: int, code: str
) -> None:
    desk = ObjectivesHarness(store)
    with pytest.raises(CallerError) as refused:
        asyncio.run(desk.resource.pin(ADMIN, name, PinRequest(level=level, seconds=60.0)))

    assert refused.value.code == code
    assert store.pins.current_pins(NOW) == {}
    assert store.audit.entries(10, who="ann") == []


@pytest.mark.parametrize("role", [Role.VIEWER, Role.TEAM_ADMIN, Role.FINANCE])
def test_only_admins_pin(store: Store, role: Role) -> None:
    with pytest.raises(CallerError, match="may not pin objectives"):
        asyncio.run(
            ObjectivesHarness(store).resource.pin(
                Viewer(name="bob", role=role), "everyone", PinRequest(level=1, seconds=60.0)
            )
        )


def test_the_last_day_of_a_missed_objective_is_told_by_its_alerts(store: Store) -> None:
    missed = an_objective(name="acme", state="missed", since=NOW - 30, enforce="alert", ladder=())
    times = [
        MissedTime(objective="acme", began=NOW - 20, ended=None),
        MissedTime(objective="acme", began=NOW - 700, ended=NOW - 500),
        MissedTime(objective="acme", began=NOW - 900, ended=NOW - 600),
        MissedTime(objective="acme", began=NOW - 200_000, ended=NOW - 190_000),
        MissedTime(objective="another", began=NOW - 50, ended=None),
    ]
    board = FakeBoard(overview(objectives=[missed], reroutes=[], missed_times=times))
    resource = ObjectivesResource(board, store, StoreQuestions(store, PATIENCE_S), lambda: NOW)
    (timeline,) = asyncio.run(resource.list(ADMIN)).timelines or ()

    assert [(span.state, span.began, span.ended) for span in timeline.spans] == [
        ("missed", NOW - 900, NOW - 500),
        ("missed", NOW - 30, NOW),
    ]
