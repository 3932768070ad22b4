"""The wheel: which routes a call takes while objectives are missed, and what became of it.

A conversation keeps the level it began on: moved in its midst, it would be read anew by a cold
cache. Only where calls fail are conversations under way moved down, too, and where they cost too
much and already the next call is cheaper there with a cold cache. What a level's model
cannot do (tools, schemas, images, long prompts, another region) stays where it was asked for, and
so does what goes on with answers that its provider keeps.
"""

from collections import Counter, OrderedDict
from typing import Final

import msgspec

from proxy.calls.requirements import call_requirements, missing_on_every_route
from proxy.calls.retry_policy import GENERATING_ENDPOINTS
from proxy.calls.route_choice import RouteChoice, RoutingDecision, substitute_routes
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.errors import CallerError
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt
from proxy.services.objectives.conversations import canary_draw, conversation_key, is_bound, is_new
from proxy.services.objectives.objective_state import CACHE_ONLY, ELSEWHERE, SHED, TrackedObjective
from proxy.services.objectives.switch_cost import is_worth_switching
from slo.controller.canary_share import level_for
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.ladder import CallRequirements
from slo.objective import CallMeasurements, Metric, ObjectiveIndex, classify_call
from slo.tally import Tally

#: Conversations whose level is remembered, and for how many seconds after their last call.
_MAX_CONVERSATIONS: Final = 50_000
_CONVERSATION_TTL_S: Final = 3600.0
#: Calls under way that are remembered; those that left no receipt are not remembered for ever.
_MAX_CALLS: Final = 100_000
#: Seconds after which a call that was refused may be tried again.
_RETRY_AFTER_S: Final = 30.0


#: States in which some new conversations go to level 0 to show whether all can.
_CANARY_STATES: Final = frozenset({ControllerState.DEGRADED, ControllerState.RECOVERING})


class _Open(msgspec.Struct):
    """A call under way that objectives are about."""

    call: Call
    tracks: list[TrackedObjective]
    is_first: bool
    level: int = 0
    nanos: int | None = 0
    skipped: dict[str, str] = msgspec.field(default_factory=dict)


class _Kept(msgspec.Struct, frozen=True):
    """The level a conversation is on, by whose ladder, and when its last call was."""

    name: str
    level: int
    at: float


class ObjectiveRouter:
    """Moves the calls of one process, and counts how they went.

    Args:
        tracks: The objectives.
        catalog: The models there are.

    Attributes:
        tracks: The objectives, by name.
        standings: Where each objective stands, by name; absent is healthy.
        tally: How the calls of this process went, by objective and level.
        moved: How many calls went to a rung, by objective and rung.
        spared: The same of those that would have, were their objective enforced.
        costs: What the calls that missed an objective cost, in nano-dollars, by objective.
        totals: Good and bad events of this process, by objective.
    """

    def __init__(self, tracks: dict[str, TrackedObjective], catalog: Catalog) -> None:
        self._places: dict[tuple[str, str, bool], tuple[RouteChoice, ...]] = {}
        self.update(tracks, catalog)
        self._open: dict[str, _Open] = {}
        self._levels: OrderedDict[bytes, _Kept] = OrderedDict()
        self.standings: dict[str, ControllerSnapshot] = {}
        self.tally = Tally()
        self.rerouted: Counter[tuple[str, str]] = Counter()
        self.not_enforced: Counter[tuple[str, str]] = Counter()
        self.costs: Counter[str] = Counter()
        self.totals: dict[str, tuple[int, int]] = {}

    def update(self, tracks: dict[str, TrackedObjective], catalog: Catalog) -> None:
        """Go by these objectives from now on; what was counted of those that stay goes on."""
        self.tracks = tracks
        self._objectives = ObjectiveIndex(each.objective for each in tracks.values())
        self._catalog = catalog
        self._rungs = {name: _by_route(track, catalog) for name, track in tracks.items()}
        self._places.clear()

    def forget(self, now: float) -> None:
        """Forget the levels of conversations that were not heard of for long."""
        while self._levels and next(iter(self._levels.values())).at < now - _CONVERSATION_TTL_S:
            self._levels.popitem(last=False)

    def decide(self, call: Call, asked: tuple[RouteChoice, ...]) -> RoutingDecision:
        """The routes a call takes.

        Raises:
            CallerError: It is refused just now.
        """
        if call.endpoint not in GENERATING_ENDPOINTS:
            return RoutingDecision(choices=asked)
        found = self._objectives.applying(call.key.team_name, call.feature, call.is_streaming)
        if not found:
            return RoutingDecision(choices=asked)
        tracks = [self.tracks[each.name] for each in found]
        if is_bound(call):
            opened, decision = _Open(call, tracks, is_first=False), RoutingDecision(choices=asked)
        else:
            opened = _Open(call, tracks, is_first=is_new(call))
            decision = self._choose(call, asked, opened)
        opened.level = decision.level
        self._open[call.id] = opened
        if len(self._open) > _MAX_CALLS:
            del self._open[next(iter(self._open))]
        return decision

    def record_receipt(self, receipt: Receipt) -> None:
        """Count how an attempt ended; with the last one, how its call did."""
        opened = self._open.get(receipt.call_id)
        if opened is None:
            return
        if opened.nanos is not None and receipt.cost_nanos is not None:
            opened.nanos += receipt.cost_nanos
        elif receipt.spent_nanos is None:
            opened.nanos = None
        if not receipt.final:
            return
        del self._open[receipt.call_id]
        self._count_moved(opened, receipt)
        ended = _call_end(opened, receipt)
        now = receipt.started + receipt.duration
        for each in opened.tracks:
            track = self.tracks.get(each.name)  # by what is promised now, where it still is
            counts = classify_call(track.objective, ended) if track is not None else None
            if track is None or counts is None:
                continue
            self.tally.add(
                track.arm(self._accountable_level(track, opened, receipt, counts)), *counts, now
            )
            had = self.totals.get(track.name, (0, 0))
            self.totals[track.name] = (had[0] + counts[0], had[1] + counts[1])
            if counts[1] and ended.cost_nanos:
                self.costs[track.name] += ended.cost_nanos

    def _accountable_level(
        self, track: TrackedObjective, opened: _Open, receipt: Receipt, counts: tuple[int, int]
    ) -> int:
        """The level whose calls it counts among.

        A call that went badly after attempts that did not begin is theirs that it began with; all
        else is said of the level that answered. Else calls that another model answers in time,
        while the one asked for is left alone, would say that all is well there.
        """
        level = opened.level if opened.level <= track.rules.fallback_levels else 0
        if receipt.attempt and not counts[0]:
            return level
        return self._answering(track, receipt, level)

    def _answering(self, track: TrackedObjective, receipt: Receipt, level: int) -> int:
        """The level of the route that answered; the given one where it is on no rung by name."""
        found = self._rungs[track.name].get(receipt.route, level) if receipt.moved else 0
        return min(found, track.rules.fallback_levels)

    def _count_moved(self, opened: _Open, receipt: Receipt) -> None:
        """Count a call that ended on another rung than it asked for."""
        track = self.tracks.get(receipt.moved.partition(": ")[0])
        level = self._answering(track, receipt, opened.level) if track is not None else 0
        if track is not None and level:
            self.rerouted[track.name, track.ladder_entry(level)] += 1

    def _choose(self, call: Call, asked: tuple[RouteChoice, ...], opened: _Open) -> RoutingDecision:
        key = conversation_key(call) if self._levels or not self._is_calm(opened) else b""
        kept = self._levels.get(key)
        level, mover = self._level(call, opened, kept)
        choices = None
        while mover is not None and level and choices is None:
            is_there = kept is not None and (kept.name, kept.level) == (mover.name, level)
            choices = self._routes_of_level(call, asked, mover, level, opened)
            if choices is not None and not (opened.is_first or is_there) and mover.is_cost:
                choices = (
                    choices if is_worth_switching(call, asked[0].route, choices[0].route) else None
                )
            level -= choices is None
        if choices is None:
            level, choices = 0, self._with_fallbacks(call, asked, opened)
        if mover is not None and level:
            self._remember(key, _Kept(mover.name, level, call.arrived))
        elif opened.is_first and key:
            self._levels.pop(key, None)  # what begins anew in the same words stays where it is
        is_trial = mover is None and opened.is_first and self._is_tried(opened)
        deadline = _deadline(opened)
        return RoutingDecision(
            choices=choices,
            level=level,
            deadline=deadline,
            is_trial=is_trial,
            skipped=opened.skipped,
        )

    def _is_tried(self, opened: _Open) -> bool:
        """True if an objective waits for evidence of what was asked for, to come back to it."""
        acting = (track.name for track in opened.tracks if track.acts)
        found = (self.standings.get(name) for name in acting)
        return any(each is not None and each.state in _CANARY_STATES for each in found)

    def _is_calm(self, opened: _Open) -> bool:
        """True if no objective moves calls now."""
        found = (self.standings.get(track.name) for track in opened.tracks)
        return all(each is None or each.state is ControllerState.HEALTHY for each in found)

    def _level(
        self, call: Call, opened: _Open, kept: _Kept | None
    ) -> tuple[int, TrackedObjective | None]:
        """The highest level that an objective asks for, and which does; 0 and None for none."""
        found: tuple[int, TrackedObjective | None] = (0, None)
        if kept is None and self._is_calm(opened):
            return found
        lot = canary_draw(call)
        for track in opened.tracks:
            had = kept.level if kept is not None and kept.name == track.name else 0
            level = self._level_for_objective(
                track, lot, min(had, track.rules.fallback_levels), is_first=opened.is_first
            )
            if level and not track.acts:
                self.not_enforced[track.name, track.ladder_entry(level)] += 1
            elif level > found[0]:
                found = level, track
        return found

    def _level_for_objective(
        self, track: TrackedObjective, lot: float, had: int, *, is_first: bool
    ) -> int:
        """The level of one call in one objective, whose conversation had a level there or 0."""
        if not is_first and not track.is_hard and not track.is_cost:
            return had
        standing = self.standings.get(track.name)
        level = 0 if standing is None else level_for(standing, lot, track.rules)
        return level if is_first else max(level, had)

    def _remember(self, key: bytes, kept: _Kept) -> None:
        self._levels[key] = kept
        self._levels.move_to_end(key)
        if len(self._levels) > _MAX_CONVERSATIONS:
            self._levels.popitem(last=False)

    def _routes_of_level(
        self,
        call: Call,
        asked: tuple[RouteChoice, ...],
        track: TrackedObjective,
        level: int,
        opened: _Open,
    ) -> tuple[RouteChoice, ...] | None:
        """The routes of a level; None where it cannot serve.

        What was asked for stands behind them for when they fail, not for when they are late.

        Raises:
            CallerError: It serves nobody.
        """
        standing = self.standings.get(track.name)
        is_pinned = standing is not None and standing.state is ControllerState.PINNED
        rung = track.ladder_entry(level)
        why = f"{track.name}: rung {level}{', pinned' if is_pinned else ''}"
        if rung == SHED or (rung == CACHE_ONLY and opened.is_first):
            self.rerouted[track.name, rung] += 1
            raise _load_shed(track, is_pinned=is_pinned)
        if rung == CACHE_ONLY:
            return asked
        if rung == ELSEWHERE:
            others = tuple(msgspec.structs.replace(each, reroute_reason=why) for each in asked[1:])
            return (*others, *_as_last_resort(asked[:1])) if others else None
        model = self._catalog.models.get(rung)
        if model is None or model.id == asked[0].model:
            return None
        if lack := missing_on_every_route(_wants(call, asked), model):
            opened.skipped[model.id] = lack
            return None
        return (*substitute_routes(model, why), *_as_last_resort(asked))

    def _with_fallbacks(
        self, call: Call, asked: tuple[RouteChoice, ...], opened: _Open
    ) -> tuple[RouteChoice, ...]:
        """The requested routes, followed by the ladder's models for when they fail or are late.

        A conversation under way goes there only where its routes fail.
        """
        found, wanted = list(asked), None
        known = {each.model for each in asked}
        for track in opened.tracks:
            if not track.acts:
                continue
            for rung in track.objective.ladder:
                model = self._catalog.models.get(rung)
                if model is None or rung in known:
                    continue
                known.add(rung)
                wanted = wanted or _wants(call, asked)
                if lack := missing_on_every_route(wanted, model):
                    opened.skipped[model.id] = lack
                else:
                    found += self._fallback_routes(track, model, is_last_resort=not opened.is_first)
        return tuple(found)

    def _fallback_routes(
        self, track: TrackedObjective, model: Model, *, is_last_resort: bool
    ) -> tuple[RouteChoice, ...]:
        """The routes of a rung's model behind those that were asked for, made once."""
        key = (track.name, model.id, is_last_resort)
        made = self._places.get(key)
        if made is None:
            made = self._places[key] = tuple(
                msgspec.structs.replace(each, is_last_resort=is_last_resort)
                for each in substitute_routes(model, f"{track.name}: in its place")
            )
        return made


def _by_route(track: TrackedObjective, catalog: Catalog) -> dict[str, int]:
    """The level of each route that a rung of the ladder names, by the route's name."""
    found: dict[str, int] = {}
    for level, rung in enumerate(track.objective.ladder, 1):
        model = catalog.models.get(rung)
        for route in model.routes if model is not None else ():
            found.setdefault(route.name, level)
    return found


def _as_last_resort(choices: tuple[RouteChoice, ...]) -> tuple[RouteChoice, ...]:
    """The choices, for when all others failed."""
    return tuple(msgspec.structs.replace(each, is_last_resort=True) for each in choices)


def _wants(call: Call, asked: tuple[RouteChoice, ...]) -> CallRequirements:
    """The call's requirements, bound to the region of the model it asks for."""
    return call_requirements(call, asked[0].route.upstream.region)


def _deadline(opened: _Open) -> float | None:
    """Seconds to the first content of a stream, by the strictest objective that acts."""
    if not opened.call.is_streaming:
        return None
    found = [
        track.objective.under
        for track in opened.tracks
        if track.acts and track.objective.metric is Metric.TTFT and track.objective.under
    ]
    return min(found, default=None)


def _call_end(opened: _Open, receipt: Receipt) -> CallMeasurements:
    usage, call = receipt.usage, opened.call
    return CallMeasurements(
        team=call.key.team_name,
        feature=call.feature,
        streamed=call.is_streaming,
        ttft=receipt.ttft,
        total=receipt.duration,
        failed=receipt.outcome in {Outcome.FAILED, Outcome.BROKEN},
        hung_up=receipt.outcome is Outcome.HUNG_UP,
        cost_nanos=opened.nanos,
        prompt_tokens=usage.prompt_tokens if usage is not None else 0,
        cache_read=usage.cache_read if usage is not None else 0,
        first_turn=opened.is_first,
        generated=receipt.outcome is not Outcome.REFUSED,
    )


def _load_shed(track: TrackedObjective, *, is_pinned: bool) -> CallerError:
    why = "is pinned to a fallback level that serves nobody new" if is_pinned else "is missed"
    until = "it is released" if is_pinned else "others are served in time again"
    error = CallerError(
        f"The objective `{track.name}` {why}, so this call is refused until {until}."
        " Try again shortly.",
        code="objective_shed",
        retry_after=_RETRY_AFTER_S,
        status=429,
    )
    error.details = {"objective": track.name}
    return error
