"""``/api/v1/objectives``: objectives, the controller's reroutes, and pins that people set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from pydantic import BaseModel, Field

from dashboards.access import Action, Viewer
from dashboards.board import (
    AdminBoard,
    CeilingStatus,
    MissedTime,
    ObjectiveStatus,
    Reroute,
    StateSpan,
    StateTimeline,
)
from dashboards.views.access import AuditEntryView
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.policies.undo import change_to_undo, last_change_id, not_in_force_error
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.services.objectives.objective_state import MISSED
from proxy.store.sql.settings.pins import PIN_CHANGES, PinRow
from proxy.store.store import Store
from slo.budgets.budget import EVERY

MAX_PIN_S: Final = 30 * 86_400.0
MAX_REASON_CHARS: Final = 200
#: Seconds of a timeline, and reroutes that the board tells: where there are so many, those before
#: the oldest are not known.
_DAY_S: Final = 86_400.0
_MAX_REROUTES: Final = 300
#: Reroutes of objectives that are only observed are told to nobody.
_OBSERVED: Final = "observe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivesView:
    """Objectives and what became of them; a part is null where it is not known just now.

    Attributes:
        objectives: Objectives that bind calls of the viewer's teams, in the file's order.
        reroutes: Latest reroutes of these, the newest first.
        timelines: The last day of each that is enforced or alerts, as its reroutes and alerts tell
            it.
        ceilings: Cost ceilings of calls of the viewer's teams, the lowest first.
    """

    objectives: Sequence[ObjectiveStatus] | None
    reroutes: Sequence[Reroute] | None
    timelines: Sequence[StateTimeline] | None
    ceilings: Sequence[CeilingStatus]


class PinRequest(BaseModel):
    """A pin to set: the level that new conversations get, for how many seconds, and why."""

    level: Annotated[int, Field(ge=0)]
    seconds: Annotated[float, Field(gt=0, le=MAX_PIN_S)]
    why: Annotated[str, Field(max_length=MAX_REASON_CHARS)] = ""


@dataclass(eq=False)
class ObjectivesResource(Resource):
    """Objectives as viewers see and pin them."""

    tag = "objectives"

    _board: AdminBoard
    _store: Store
    _ask: StoreQuestions
    _now: Clock

    @route("GET", "/objectives", name="list_objectives")
    async def list(self, viewer: SignedIn) -> ObjectivesView:
        """Objectives and their state, and the latest reroutes."""
        check_allowed(viewer, Action.SEE_OPERATIONS)
        names = await self._visible_names(viewer)
        ceilings = [
            ceiling
            for ceiling in await self._board.ceilings()
            if names is None or ceiling.team in {EVERY, *names}
        ]
        objectives = await self._board.objectives()
        if objectives is None:
            return ObjectivesView(objectives=None, reroutes=None, timelines=None, ceilings=ceilings)
        seen = [
            objective
            for objective in objectives
            if names is None or objective.team in {EVERY, *names}
        ]
        shown = {objective.name for objective in seen}
        reroutes, misses = await self._board.reroutes(), await self._board.missed_times()
        own = None
        if reroutes is not None:
            own = [reroute for reroute in reroutes if reroute.objective in shown]
        return ObjectivesView(
            objectives=seen,
            reroutes=reroutes if names is None else own,
            timelines=(
                None
                if reroutes is None or misses is None
                else _timelines(seen, reroutes, misses, self._now())
            ),
            ceilings=ceilings,
        )

    @route("PUT", "/objectives/{name}/pin", name="pin_objective")
    async def pin(
        self, viewer: SignedIn, name: str, request: PinRequest, seen: str | None = None
    ) -> ObjectiveStatus:
        """Pins an objective to a fallback level for a while.

        With ``seen``, the id in the audit log of its last pin or release, nothing newer is lost.
        """
        objective = await self._find(viewer, name)
        _check_level(objective, request)
        now = self._now()
        pin = PinRow(
            objective=name,
            level=request.level,
            until=now + request.seconds,
            why=request.why,
            made=now,
            who=viewer.name,
        )
        await self._store.ask(self._store.pins.set, pin, seen)
        return await self._find_changed(viewer, name)

    async def previewed_pin(
        self, viewer: Viewer, name: str, request: PinRequest
    ) -> tuple[ObjectiveStatus, str]:
        """The objective that a pin would change, and the id of its last change.

        Raises:
            CallerError: It cannot be set.
        """
        objective = await self._find(viewer, name)
        _check_level(objective, request)
        return objective, await last_change_id(self._store, name, PIN_CHANGES)

    @route("POST", "/objectives/{name}/pin/undo", name="undo_pin")
    async def undo(self, viewer: SignedIn, name: str, seen: str | None = None) -> ObjectiveStatus:
        """Takes the last pin or release of an objective back; a pin that has ended stays ended.

        With ``seen``, its id in the audit log, a newer one is not taken back.
        """
        objective, pins, now = await self._find(viewer, name), self._store.pins, self._now()
        last = await change_to_undo(self._store, name, PIN_CHANGES, seen)
        if last.before is not None and last.before["until"] > now:
            pin = PinRow(objective=name, made=now, who=viewer.name, **last.before)
            _check_earlier_level(objective, pin)
            await self._store.ask(pins.set, pin, last.id)
        elif not await self._store.ask(pins.release, name, now, viewer.name, last.id):
            raise CallerError(
                f"There is nothing to undo: no pin of {name} holds, and the last has ended.",
                code="nothing_to_undo",
                status=409,
            )
        return await self._find_changed(viewer, name)

    async def pin_changes(self, viewer: Viewer) -> Mapping[str, AuditEntryView]:
        """The last pin or release of each objective within a day, for those who may pin."""
        if not viewer.may(Action.CHANGE_OBJECTIVES):
            return {}
        now, audit = self._now(), self._store.audit
        changes = await self._ask(
            "pins", lambda: audit.changes_between(now - _DAY_S, now + 1, PIN_CHANGES, _MAX_REROUTES)
        )
        return {change.subject: change for change in reversed(changes or ())}

    @route("DELETE", "/objectives/{name}/pin", name="release_objective")
    async def release(
        self, viewer: SignedIn, name: str, seen: str | None = None
    ) -> ObjectiveStatus:
        """Ends the pin of an objective; with ``seen``, no newer one than that of this id."""
        await self._find(viewer, name)
        pins, now = self._store.pins, self._now()
        if not await self._store.ask(pins.release, name, now, viewer.name, seen):
            raise CallerError(f"{name} is not pinned.", code="not_pinned", status=404)
        return await self._find_changed(viewer, name)

    async def _visible_names(self, viewer: Viewer) -> frozenset[str] | None:
        """Names of the teams that a viewer may see; None for all."""
        if (own := viewer.teams) is None:
            return None
        teams = await self._ask("teams", self._store.teams.all)
        return frozenset(team.name for team in teams or () if team.id in own)

    async def _find_changed(self, viewer: Viewer, name: str) -> ObjectiveStatus:
        """An objective whose change is kept; raises CallerError that says so where it is away."""
        try:
            return await self._find(viewer, name)
        except CallerError:
            raise not_in_force_error("objectives cannot be read just now.") from None

    async def _find(self, viewer: Viewer, name: str) -> ObjectiveStatus:
        check_allowed(viewer, Action.CHANGE_OBJECTIVES)
        for objective in await self._board.objectives() or ():
            if objective.name == name:
                return objective
        raise CallerError(
            "There is no objective of this name; see GET /api/v1/objectives.",
            code="unknown_objective",
            status=404,
        )


def _check_level(objective: ObjectiveStatus, request: PinRequest) -> None:
    """Checks that the objective has the level; else raises CallerError."""
    if request.level > len(objective.ladder):
        raise CallerError(
            f"{objective.name} has the levels 0 to {len(objective.ladder)}.",
            code="unknown_level",
            param="level",
        )


def _check_earlier_level(objective: ObjectiveStatus, pin: PinRow) -> None:
    """Checks that the ladder still has the level of an earlier pin; else raises CallerError."""
    if pin.level > len(objective.ladder):
        raise CallerError(
            f"{objective.name} was pinned to level {pin.level}, which its ladder no longer has."
            " Release the pin instead.",
            code="unknown_level",
            status=409,
        )


def _timelines(
    objectives: Sequence[ObjectiveStatus],
    reroutes: Sequence[Reroute],
    misses: Sequence[MissedTime],
    now: float,
) -> list[StateTimeline]:
    """The last day of each objective that is not only observed."""
    began = now - _DAY_S
    for rows in (reroutes, misses):
        if len(rows) >= _MAX_REROUTES:
            began = min(max(began, rows[-1].began), now)
    return [
        StateTimeline(
            objective=one.name,
            began=began,
            ended=now,
            spans=[
                *_missed_spans(one, misses, began, now),
                *(
                    _span(reroute, reroute.state, reroute.level, began, now)
                    for reroute in reversed(reroutes)
                    if reroute.objective == one.name and _is_within(reroute, began, now)
                ),
            ],
        )
        for one in objectives
        if one.enforce != _OBSERVED
    ]


def _missed_spans(
    objective: ObjectiveStatus, misses: Sequence[MissedTime], began: float, now: float
) -> list[StateSpan]:
    """The times in which an objective was missed; several alerts at once are one span."""
    times = [miss for miss in misses if miss.objective == objective.name]
    if objective.state == MISSED and objective.since is not None:
        times.append(MissedTime(objective=objective.name, began=objective.since, ended=None))
    spans: list[StateSpan] = []
    for miss in sorted(times, key=lambda time: time.began):
        if not _is_within(miss, began, now):
            continue
        span = _span(miss, MISSED, "", began, now)
        if spans and span.began <= spans[-1].ended:
            last = spans.pop()
            span = replace(last, ended=max(last.ended, span.ended))
        spans.append(span)
    return spans


def _is_within(time: Reroute | MissedTime, began: float, now: float) -> bool:
    """True if a part of it lies between two moments."""
    return time.began < now and (time.ended is None or time.ended > began)


def _span(
    time: Reroute | MissedTime, state: str, level: str, began: float, now: float
) -> StateSpan:
    """The part of it between two moments."""
    ended = now if time.ended is None else min(time.ended, now)
    return StateSpan(state=state, level=level, began=max(time.began, began), ended=ended)
