"""Recorded calls as the gateway would have planned them, with what it knew by then."""

from typing import Final

from proxy.prefix.layout import Layout
from proxy.prefix.lessons import Lessons, effect, is_due
from proxy.prefix.plan import Plan
from proxy.prefix.planned import Asked, Planned, Way, place
from proxy.prefix.planner import Planner
from proxy.prefix.prompt import Unplannable
from proxy.prefix.standing import Place
from proxy.replay.lines import Line
from proxy.replay.prompts import Reading
from proxy.ways import way
from slo.usage import Usage

_SECRET: Final = b"replay"


class Planning:
    """Marked, and arranged where that is asked for; nothing comes from a later call.

    Args:
        reading: The route.
        day: The day whose prices are valid, in seconds since the epoch.
        arranges: Whether text moves: declared moves, and learned ones at once.
    """

    def __init__(self, reading: Reading, day: float, *, arranges: bool) -> None:
        self.name = "arranged" if arranges else "marked"
        self._planner = Planner(_SECRET, share=0.0)
        self._way: Way = way(reading.route, reading.public, day)
        self._lessons = Lessons()
        self._arranges = arranges
        self._layouts: dict[Place, list[Layout]] = {}
        self._looked: dict[Place, int] = {}
        self._planned: Planned | None = None

    def body(self, line: Line, now: float) -> bytes:
        """The chat body as it is planned; the line's own where it cannot be."""
        asked = Asked(
            team="replay",
            feature=line.feature,
            key=line.key,
            hint=line.conversation,
            body=line.body,
        )
        self._planned = None
        try:
            draft = self._planner.draft(asked)
            versions = self._layouts.setdefault(place(asked, self._way.model), [])
            plan = self._planner.plan(draft) or self._planner.begun(draft, len(versions))
            layout = self._layout(plan, versions)
            self._planned = self._planner.planned(draft, self._way, plan, layout, now)
        except Unplannable:
            return line.body
        self._planner.adopt(draft, self._planned.plan)
        return self._planned.body

    def served(self, line: Line, usage: Usage, now: float) -> None:
        """Learn from the call just answered."""
        planned = self._planned
        if planned is not None:
            self._planner.settled(planned, usage)
            if self._arranges:
                self._lessons.observe(planned)
                self._look(planned)

    def _layout(self, plan: Plan, versions: list[Layout]) -> Layout | None:
        return versions[plan.layout - 1] if plan.layout else None

    def _look(self, planned: Planned) -> None:
        """Take over what the feature shows by now, for conversations to come."""
        at = planned.place
        self._looked[at] = self._looked.get(at, 0) + 1
        if not is_due(self._looked[at]):
            return
        found = self._lessons.proposal(planned)
        versions = self._layouts.setdefault(at, [])
        if found is not None and (not versions or effect(found) != effect(versions[-1])):
            versions.append(found)
