"""Planners of recorded conversations, as the gateway would plan them in each of its modes."""

from collections.abc import Callable, Mapping

import msgspec

from proxy.calls.eligibility.route_target import route_target
from proxy.prefix.layouts.layout import Layout
from proxy.prefix.lessons import LayoutLearner
from proxy.prefix.planned import Planned, PlanningRequest, PlanningTarget
from proxy.prefix.planner import Planner
from proxy.records.feature_mode import LayoutScope
from tests.fakes.recorded import RecordedDialogue
from tests.fakes.wire_prefix import ROUTES, PlannedBody, as_sent

#: What is made of a body of this conversation.
Plans = Callable[[RecordedDialogue, bytes], PlannedBody]
#: Calls of a feature between two looks at what it shows.
_EVERY = 25
_SECRET = b"secret"


class DayPlanning:
    """A gateway's planning of one day; what it has learned can be handed to the next.

    Args:
        to: Where all calls go.
        arranges: Whether text moves, as soon as the feature shows what varies.
        layouts: What was learned before, by place.
    """

    def __init__(
        self,
        to: PlanningTarget,
        *,
        arranges: bool,
        layouts: Mapping[LayoutScope, list[Layout]] | None = None,
    ) -> None:
        self.layouts: dict[LayoutScope, list[Layout]] = dict(layouts or {})
        self._planner = Planner(_SECRET, share=0.0)
        self._lessons = LayoutLearner()
        self._way = to
        self._arranges = arranges
        self._now = 0.0
        self._seen: dict[LayoutScope, int] = {}

    def __call__(self, one: RecordedDialogue, body: bytes) -> PlannedBody:
        """Return what is sent of it; each call is answered before the next, ten seconds later."""
        self._now += 10.0
        planned = self._plan(PlanningRequest(team="t", feature=one.feature, key="k", body=body))
        self._planner.adopt_plan(planned.draft, planned.plan)
        self._planner.settle_call(planned, None)
        if self._arranges:
            self._lessons.observe(planned)
            self._look(planned)
        return PlannedBody(planned.body, planned.prompt.tail)

    def next_day(self) -> "DayPlanning":
        """Another one that knows the layouts of this one and none of its conversations."""
        return DayPlanning(self._way, arranges=True, layouts=self.layouts)

    def _plan(self, question: PlanningRequest) -> Planned:
        draft = self._planner.read_call(question)
        place = LayoutScope(question.team, question.feature, "any")
        versions = self.layouts.setdefault(place, [])
        plan = self._planner.known_plan(draft) or self._planner.begin_plan(draft, len(versions))
        layout = versions[plan.layout - 1] if plan.layout else None
        return self._planner.plan_call(draft, self._way, plan, layout, self._now)

    def _look(self, planned: Planned) -> None:
        place = planned.place
        self._seen[place] = self._seen.get(place, 0) + 1
        proposal = self._lessons.proposal(planned) if self._seen[place] % _EVERY == 0 else None
        versions = self.layouts[place]
        if proposal is not None and (not versions or _does(proposal) != _does(versions[-1])):
            versions.append(proposal)


def _does(layout: Layout) -> list[object]:
    """Its moves without their evidence."""
    return [(move.before, move.after, move.slot, move.at, move.count) for move in layout.moves]


def sent_as_it_came(_regime: str) -> Plans:
    """Nothing is planned."""
    return lambda _one, body: as_sent(body)


def plans_with_marks(regime: str) -> Plans:
    """Return what costs no word its place: tools in order, marks and keys."""
    return DayPlanning(route_target(ROUTES[regime], "any", 0.0), arranges=False)


def plans_that_arrange(regime: str) -> DayPlanning:
    """Text moves too; the upstream takes system messages at the end."""
    return DayPlanning(route_target(ROUTES[regime], "any", 0.0), arranges=True)


def arranged_early(regime: str) -> DayPlanning:
    """Text moves too; the upstream takes system messages at the start alone."""
    to = msgspec.structs.replace(route_target(ROUTES[regime], "any", 0.0), late=False)
    return DayPlanning(to, arranges=True)
