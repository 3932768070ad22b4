"""Routes calls to fallback levels while objectives are missed, and counts how calls went.

A conversation keeps the level it began on: elsewhere it would begin with a cold cache. There are
two exceptions. An objective for errors also reroutes conversations under way. An objective for
costs does so where already the next call is cheaper there with a cold cache. A call stays with
the model it asks for if the level's model lacks something it needs (tools, schemas, images, a
long prompt, the region), or if it continues answers that its provider keeps.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Final

import msgspec

from proxy.calls.eligibility.requirements import missing_on_every_route
from proxy.calls.eligibility.retry_policy import GENERATING_ENDPOINTS
from proxy.calls.route_choice import RouteChoice, RoutingDecision, substitute_routes
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route
from proxy.records.call import Call
from proxy.records.receipt import Receipt, ServedBy
from proxy.services.objectives.call_results import (
    fallback_reason,
    first_content_deadline,
    levels_by_route,
    load_shed,
    measure_call,
    note_broken_stage,
)
from proxy.services.objectives.conversations import (
    ConversationLevel,
    ConversationLevels,
    canary_draw,
    conversation_key,
    is_bound,
    is_new,
    is_worth_switching,
)
from proxy.services.objectives.fallback_order import FallbackOrder, requirements_of
from proxy.services.objectives.objective_state import (
    CACHE_ONLY,
    ELSEWHERE,
    SHED,
    BurnWindow,
    Miss,
    TrackedObjective,
)
from proxy.services.objectives.route_misses import RouteMisses
from slo.budgets.stages import StageMisses
from slo.budgets.tally import Tally
from slo.controller.canary_share import level_for
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.objectives.latency_target import LatencyTarget, latency_target
from slo.objectives.objective import CallMeasurements, ObjectiveIndex, classify_call
from slo.price import Tariff

#: Conversations whose level is remembered, and for how many seconds after their last call.
_MAX_CONVERSATIONS: Final = 50_000
_CONVERSATION_TTL_S: Final = 3600.0
#: Calls under way that are remembered; those that left no receipt are forgotten in the end.
_MAX_CALLS: Final = 100_000
#: States in which some new conversations go to level 0 to show whether all can.
_CANARY_STATES: Final = frozenset({ControllerState.DEGRADED, ControllerState.RECOVERING})


class _ActiveCall(msgspec.Struct):
    """A call under way that objectives are about, without its body, which would outlive it here."""

    call: Call
    tracks: list[TrackedObjective]
    is_first: bool
    level: int = 0
    nanos: int | None = 0
    route: str = ""
    skipped: dict[str, str] = msgspec.field(default_factory=dict)


class ObjectiveRouter:
    """Chooses the fallback levels of one process's calls, and counts how calls went.

    Attributes:
        tracks: The objectives, by name.
        snapshots: State of each objective, by name; absent is healthy.
        burns: Burn rates by objective, as the leader measured them.
        missed: Objectives that are missed now, by name, as the leader judged.
        tally: Results of this process's calls, by objective and level.
        rerouted: Calls that fell back, by objective and ladder entry.
        not_enforced: Calls that would have, were their objective enforced.
        costs: Costs of the calls that missed an objective, in nano-dollars, by objective.
        misses: Stages that late calls broke, by objective.
        totals: Good and bad events of this process, by objective.
    """

    def __init__(
        self,
        tracks: dict[str, TrackedObjective],
        catalog: Catalog,
        tariff: Callable[[Route], Tariff | None] = attrgetter("tariff"),
    ) -> None:
        self._tariff = tariff
        self.update(tracks, catalog)
        self._open: dict[str, _ActiveCall] = {}
        self._levels = ConversationLevels(_MAX_CONVERSATIONS)
        self.snapshots: dict[str, ControllerSnapshot] = {}
        self.burns: Mapping[str, tuple[BurnWindow, ...]] = {}
        self.missed: Mapping[str, Miss] = {}
        self.tally = Tally()
        self.rerouted: Counter[tuple[str, str]] = Counter()
        self.not_enforced: Counter[tuple[str, str]] = Counter()
        self.costs: Counter[str] = Counter()
        self.misses = StageMisses()
        self._route_misses = RouteMisses()
        self.totals: dict[str, tuple[int, int]] = {}

    def update(self, tracks: dict[str, TrackedObjective], catalog: Catalog) -> None:
        """Apply these objectives from now on; counts of those that stay are kept."""
        self.tracks = tracks
        self._objectives = ObjectiveIndex(track.objective for track in tracks.values())
        self._catalog = catalog
        self._route_levels = {
            name: levels_by_route(track, catalog) for name, track in tracks.items()
        }
        self._fallback_order = FallbackOrder(catalog)

    def forget(self, now: float) -> None:
        """Forget the levels of conversations that were not heard of for long."""
        self._levels.forget(now - _CONVERSATION_TTL_S)

    def decide(self, call: Call, requested: tuple[RouteChoice, ...]) -> RoutingDecision:
        """The routes a call takes.

        Raises:
            CallerError: It is refused just now.
        """
        if call.endpoint not in GENERATING_ENDPOINTS:
            return RoutingDecision(choices=requested)
        matching = self._objectives.applicable(call.key.team_name, call.feature, call.is_streaming)
        if not matching:
            return RoutingDecision(choices=requested)
        tracks = [self.tracks[objective.name] for objective in matching]
        counted = msgspec.structs.replace(call, body=b"")
        if is_bound(call):
            opened, decision = (
                _ActiveCall(counted, tracks, is_first=False),
                RoutingDecision(choices=requested),
            )
        else:
            opened = _ActiveCall(counted, tracks, is_first=is_new(call))
            decision = self._choose(call, requested, opened)
        opened.level = decision.level
        self._open[call.id] = opened
        if len(self._open) > _MAX_CALLS:
            del self._open[next(iter(self._open))]
        return decision

    def latency_target(self, call: Call) -> LatencyTarget | None:
        """The tightest latency limits of the objectives that the call counts in."""
        key, feature = call.key, call.feature
        return latency_target(
            self._objectives.applicable(key.team_name, feature, call.is_streaming)
        )

    def record_receipt(self, receipt: Receipt) -> None:
        """Count how an attempt ended; with the last one, how its call did."""
        opened = self._open.get(receipt.call_id)
        if opened is None:
            return
        if opened.nanos is not None and receipt.cost_nanos is not None:
            opened.nanos += receipt.cost_nanos
        elif receipt.spent_nanos is None:
            opened.nanos = None
        if receipt.served_by is not ServedBy.DRAFT:
            opened.route = opened.route or receipt.route
        if not receipt.final:
            return
        del self._open[receipt.call_id]
        self._count_fallback(opened, receipt)
        ended = measure_call(opened.call, receipt, opened.nanos, first_turn=opened.is_first)
        for opened_track in opened.tracks:
            track = self.tracks.get(opened_track.name)  # by what is promised now, where it still is
            counts = classify_call(track.objective, ended) if track is not None else None
            if track is not None and counts is not None:
                self._count_levels(track, opened, receipt, counts)
                self._count_totals(track, counts, ended)

    def _count_levels(
        self,
        track: TrackedObjective,
        opened: _ActiveCall,
        receipt: Receipt,
        counts: tuple[int, int],
    ) -> None:
        """Count a call's events for its level and its route; one that none answered, for neither.

        An answer given before is quick while every route is dead: among a level's calls it would
        hide that.
        """
        ended_at = receipt.started + receipt.duration
        if receipt.served_by is ServedBy.CACHE:
            self.tally.add(track.kept_arm, *counts, ended_at)
            return
        level = self._accountable_level(track, opened, receipt, counts)
        self.tally.add(track.arm(level), *counts, ended_at)
        route = opened.route if counts[1] else receipt.route
        self._route_misses.note(track.name, route, ended_at, is_bad=bool(counts[1]))

    def _count_totals(
        self, track: TrackedObjective, counts: tuple[int, int], ended: CallMeasurements
    ) -> None:
        """Count a call's good and bad events; of a bad one, its cost and its late stage."""
        had = self.totals.get(track.name, (0, 0))
        self.totals[track.name] = (had[0] + counts[0], had[1] + counts[1])
        if counts[1]:
            note_broken_stage(self.misses, track, ended)
        if counts[1] and ended.cost_nanos:
            self.costs[track.name] += ended.cost_nanos

    def _accountable_level(
        self,
        track: TrackedObjective,
        opened: _ActiveCall,
        receipt: Receipt,
        counts: tuple[int, int],
    ) -> int:
        """The level among whose calls it is counted.

        This is the level that answered. A bad call counts for its own level where that level's
        first attempts failed, or were left out because its routes do not begin: else answers from
        elsewhere would hide that the level fails.
        """
        level = opened.level if opened.level <= track.rules.fallback_levels else 0
        if not counts[0] and (receipt.attempt or not receipt.reroute_reason):
            return level
        return self._answering_level(track, receipt, level)

    def _answering_level(self, track: TrackedObjective, receipt: Receipt, level: int) -> int:
        """The level of the route that answered; the given one if no ladder entry names it.

        A small model that is tried first answers on level 0, also where the ladder names it.
        """
        if not receipt.reroute_reason or receipt.served_by is ServedBy.SMALL:
            return 0
        route_level = self._route_levels[track.name].get(receipt.route, level)
        return min(route_level, track.rules.fallback_levels)

    def _count_fallback(self, opened: _ActiveCall, receipt: Receipt) -> None:
        """Count a call that a fallback level answered."""
        track = self.tracks.get(receipt.reroute_reason.partition(": ")[0])
        level = self._answering_level(track, receipt, opened.level) if track is not None else 0
        if track is not None and level:
            self.rerouted[track.name, track.ladder_entry(level)] += 1

    def _choose(
        self, call: Call, requested: tuple[RouteChoice, ...], opened: _ActiveCall
    ) -> RoutingDecision:
        key = conversation_key(call) if self._levels or not self._is_calm(opened) else b""
        former = self._levels.get(key)
        level, mover = self._highest_level(call, opened, former)
        choices = None
        while mover is not None and level and choices is None:
            is_there = former is not None and (former.name, former.level) == (mover.name, level)
            choices = self._routes_of_level(call, requested, mover, level, opened)
            if choices is not None and not (opened.is_first or is_there) and mover.is_cost:
                choices = (
                    choices
                    if is_worth_switching(call, requested[0].route, choices[0].route, self._tariff)
                    else None
                )
            level -= choices is None
        if choices is None:
            level = 0
            choices, skipped = self._fallback_order.routes(
                call, requested, opened.tracks, is_first=opened.is_first
            )
            opened.skipped |= skipped
        if mover is not None and level:
            self._levels.remember(key, ConversationLevel(mover.name, level, call.arrived))
        elif opened.is_first and key:
            self._levels.discard(key)  # a new conversation with the same first words is on 0
        is_trial = mover is None and opened.is_first and self._awaits_canaries(opened)
        deadline = first_content_deadline(opened.tracks) if call.is_streaming else None
        return RoutingDecision(
            choices=choices,
            level=level,
            deadline=deadline,
            is_trial=is_trial,
            skipped=opened.skipped,
        )

    def _awaits_canaries(self, opened: _ActiveCall) -> bool:
        """True if an objective that fell back needs calls on level 0 to see whether to return."""
        acting = (track.name for track in opened.tracks if track.acts)
        states = (self.snapshots.get(name) for name in acting)
        return any(state is not None and state.state in _CANARY_STATES for state in states)

    def _is_calm(self, opened: _ActiveCall) -> bool:
        """True if no objective reroutes calls now."""
        states = (self.snapshots.get(track.name) for track in opened.tracks)
        return all(state is None or state.state is ControllerState.HEALTHY for state in states)

    def _highest_level(
        self, call: Call, opened: _ActiveCall, former: ConversationLevel | None
    ) -> tuple[int, TrackedObjective | None]:
        """The highest level that an objective asks for, and that objective; 0 and None if none."""
        highest: tuple[int, TrackedObjective | None] = (0, None)
        if former is None and self._is_calm(opened):
            return highest
        lot = canary_draw(call)
        for track in opened.tracks:
            had = former.level if former is not None and former.name == track.name else 0
            level = self._level_for_objective(
                track, lot, min(had, track.rules.fallback_levels), is_first=opened.is_first
            )
            if level and not track.acts:
                self.not_enforced[track.name, track.ladder_entry(level)] += 1
            elif level > highest[0]:
                highest = level, track
        return highest

    def _level_for_objective(
        self, track: TrackedObjective, lot: float, had: int, *, is_first: bool
    ) -> int:
        """The level of one call by one objective; ``had`` is its conversation's level so far."""
        if not is_first and not track.is_hard and not track.is_cost:
            return had
        snapshot = self.snapshots.get(track.name)
        level = 0 if snapshot is None else level_for(snapshot, lot, track.rules)
        return level if is_first else max(level, had)

    def _routes_of_level(
        self,
        call: Call,
        requested: tuple[RouteChoice, ...],
        track: TrackedObjective,
        level: int,
        opened: _ActiveCall,
    ) -> tuple[RouteChoice, ...] | None:
        """The routes of a level; None where it cannot serve.

        The requested routes follow for failures. For slow answers they follow only if they begin
        in time again, and only where the conversation need not change its model for it.

        Raises:
            CallerError: It serves no calls.
        """
        snapshot = self.snapshots.get(track.name)
        is_pinned = snapshot is not None and snapshot.state is ControllerState.PINNED
        entry = track.ladder_entry(level)
        why = fallback_reason(track, level, self.misses, is_pinned=is_pinned)
        if entry == SHED or (entry == CACHE_ONLY and opened.is_first):
            self.rerouted[track.name, entry] += 1
            raise load_shed(track, is_pinned=is_pinned)
        if entry == CACHE_ONLY:
            return requested
        if entry == ELSEWHERE:
            return self._route_misses.elsewhere(track.objective, requested, why, call.arrived)
        model = self._catalog.models.get(entry)
        if model is None or model.id == requested[0].model:
            return None
        if lack := missing_on_every_route(requirements_of(call, requested), model):
            opened.skipped[model.id] = lack
            return None
        # For when all others failed; for new conversations also while these begin in time again.
        behind = (
            msgspec.structs.replace(
                choice, is_suspect=opened.is_first, is_last_resort=not opened.is_first
            )
            for choice in requested
        )
        return (*substitute_routes(model, why), *behind)
