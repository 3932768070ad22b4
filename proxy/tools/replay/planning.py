"""Replays recorded calls through the gateway's planning, with what it knew at each call."""

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable
from heapq import nlargest
from math import inf
from typing import Final

import msgspec

from proxy.calls.eligibility.eligibility import UNDER_2_KB, planning_request, skip_reason
from proxy.calls.eligibility.route_target import route_target
from proxy.prefix.breakpoints.feature_account import DEFAULT_STAKE
from proxy.prefix.lessons import (
    LayoutChange,
    LayoutLearner,
    is_due,
    is_worth_replacing,
    layout_effect,
)
from proxy.prefix.observation import ANSWERED_S
from proxy.prefix.planned import Planned, PlanningTarget, layout_place
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.objects import Unplannable
from proxy.records.call import MESSAGES, Call, Key
from proxy.records.feature_mode import LayoutScope
from proxy.records.request_fields import parse_request_fields
from proxy.tools.replay.prompts import PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.unmoved_text import FeatureNote, FeatureProgress
from slo.usage import Usage

_log = logging.getLogger(__name__)

_TEAM: Final = "replay"
_SECRET: Final = b"replay"
_CHAT: Final = "chat/completions"
#: Exceptions that a mistake of planning raises; one with a line must not cost the others.
MISTAKES: Final = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip
#: Seconds that no layout approves itself once one was rolled back, as in a gateway.
_CLOSED_FOR_S: Final = 86_400.0
_SKIP_TEXTS: Final = {UNDER_2_KB: "its prompts are under 2 KB"}
WITHOUT_LAYOUTS: Final = "without layouts"
DEFAULT: Final = "by default"
#: Features that the report names.
_MAX_SHOWN_FEATURES: Final = 5


class PlannedVariant:
    """Marked, and arranged where that is asked for; nothing comes from a later call.

    Args:
        arranges: True if text moves: declared moves, and learned ones at once.
        names: True if callers name their conversations, in the header that says so; where they do
            not, a conversation is known by its prompt alone.
        stake: Amount that a feature's marks may lose, in nano-dollars times a million tokens.
    """

    def __init__(
        self,
        reading: PromptReader,
        day: float,
        *,
        arranges: bool,
        names: bool = True,
        stake: float = DEFAULT_STAKE,
        max_features: int = 4_096,
    ) -> None:
        self.name = DEFAULT if arranges else WITHOUT_LAYOUTS
        self._planner = Planner(_SECRET, share=0.0, stake=stake)
        self._way: PlanningTarget = route_target(reading.route, reading.public, day)
        self._route = reading.route
        self._native_way = route_target(reading.route, reading.public, day, MESSAGES)
        self._lessons = LayoutLearner()
        self._arranges = arranges
        self._names = names
        self._most = max_features
        self._features: OrderedDict[LayoutScope, FeatureProgress] = OrderedDict()
        self._planned: Planned | None = None
        self._answers: deque[tuple[float, Planned, Usage]] = deque()
        self._now = 0.0
        self._failed: set[str] = set()

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The chat body as it is planned; the line's own where it cannot be."""
        call = recorded_as_call(
            line if self._names else msgspec.structs.replace(line, conversation=""), now
        )
        request = planning_request(call)
        way = self._native_way if line.is_native else self._way
        self._now = now
        self._learn_from_answers(now)
        feature = self._feature(layout_place(request, way.model))
        self._planned = None
        skipped = skip_reason(call, self._route)
        if skipped is not None:
            code = skipped.reason
            feature.leave(skipped.why or _SKIP_TEXTS.get(code, code.replace("_", " ")))
            return line.body
        try:
            draft = self._planner.read_call(request)
            plan = self._planner.known_plan(draft) or self._planner.begin_plan(
                draft, self._planner.allowed_layout(draft, feature.current_version, now)
            )
            layout = feature.layout_version(plan.layout)
            version = feature.current_version
            if version != plan.layout and draft.turns:
                change = LayoutChange(layout, feature.layout_version(version), version)
                plan = self._planner.renew_plan(draft, way, plan, change, now)
                layout = feature.layout_version(plan.layout)
            self._planned = self._planner.plan_call(draft, way, plan, layout, now)
        except Unplannable as why:
            feature.leave(str(why))
            return line.body
        except MISTAKES:
            self._fail("planning failed")
            feature.leave("planning failed")
            return line.body
        feature.record_marks(self._planned)
        self._planner.adopt_plan(draft, self._planned.plan)
        return self._planned.body

    def record_answer(self, usage: Usage) -> None:
        """Learn from the call just sent, once its answer has begun."""
        if self._planned is not None:
            self._answers.append((self._now + ANSWERED_S, self._planned, usage))

    def _learn_from_answers(self, now: float) -> None:
        while self._answers and self._answers[0][0] <= now:
            _, planned, usage = self._answers.popleft()
            try:
                self._learn(planned, usage)
            except MISTAKES:
                self._fail("learning failed")

    def unmoved_features(self) -> tuple[FeatureNote, ...]:
        """The features of which no text moved where some could, and why: those of most calls."""
        self._learn_from_answers(inf)
        features = self._features.items() if self._arranges else ()
        return _most_calls(
            FeatureNote(feature=scope.feature, calls=progress.calls, why=progress.why())
            for scope, progress in features
            if not progress.moved
        )

    def waiting_features(self) -> tuple[FeatureNote, ...]:
        """The features whose cache marks wait at the end of the log: those of most such calls."""
        return _most_calls(
            FeatureNote(feature=scope.feature, calls=progress.waiting, why=progress.waits)
            for scope, progress in self._features.items()
            if progress.waits
        )

    def _learn(self, planned: Planned, usage: Usage) -> None:
        self._planner.settle_call(planned, usage)
        if self._arranges:
            feature = self._feature(planned.place)
            feature.observe(planned)
            self._lessons.observe(planned, usage)
            if (harm := self._planner.take_harm(planned, self._now)) is not None:
                feature.step_back(harm.layout, self._now + _CLOSED_FOR_S)
            self._look(planned, feature)

    def _fail(self, what: str) -> None:
        """Say what went wrong, once; it is the same with one line as with thousands."""
        if what not in self._failed:
            self._failed.add(what)
            _log.exception("%s: %s with a line, and maybe with others", self.name, what)

    def _look(self, planned: Planned, feature: FeatureProgress) -> None:
        """Take over what the feature shows by now, for conversations to come."""
        is_closed = self._now < feature.closed_until
        if is_closed or not feature.varies or not is_due(feature.planned):
            return
        current = feature.layout_version(feature.current_version)
        proposal = self._lessons.proposal(planned, current)
        feature.beyond = self._beyond(planned) if proposal is None and current is None else 0
        layouts = feature.layouts
        if proposal is None or layout_effect(proposal) in map(layout_effect, layouts):
            return
        if current is None or is_worth_replacing(proposal):
            feature.approve(proposal)

    def _beyond(self, planned: Planned) -> int:
        """The least tokens that the cache keeps, where moves would pay but for them; else 0."""
        regime = planned.target.regime
        if not regime.least:
            return 0
        keeping = msgspec.structs.replace(regime, least=0)
        elsewhere = msgspec.structs.replace(planned.target, regime=keeping)
        proposal = self._lessons.proposal(msgspec.structs.replace(planned, target=elsewhere))
        return 0 if proposal is None else regime.least

    def _feature(self, scope: LayoutScope) -> FeatureProgress:
        progress = self._features.setdefault(scope, FeatureProgress())
        self._features.move_to_end(scope)
        while len(self._features) > self._most:
            self._features.popitem(last=False)
        return progress


def _most_calls(notes: Iterable[FeatureNote]) -> tuple[FeatureNote, ...]:
    return tuple(nlargest(_MAX_SHOWN_FEATURES, notes, key=lambda note: note.calls))


def recorded_as_call(line: RecordedCall, now: float) -> Call:
    """The recorded call as one that a gateway takes."""
    return Call(
        id="",
        key=Key(id=line.key, team=_TEAM, team_name=_TEAM),
        method="POST",
        endpoint=MESSAGES if line.is_native else _CHAT,
        headers={},
        body=line.body,
        fields=parse_request_fields(line.body),
        feature=line.feature,
        conversation=line.conversation,
        arrived=now,
        origin=line.origin,
    )
