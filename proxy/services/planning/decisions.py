"""Decides how a call is sent, by what this process knows of its conversation.

::

    read_and_decide ──▶ planned, or what the store has to be asked for
                         ├─ plans ──▶ recall_and_decide ──▶ planned, or a layout
                         └─ layout ──▶ decide_next ──▶ planned

Each step runs in one piece, on any thread, while no other step does.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.lessons import LayoutChange
from proxy.prefix.planned import Draft, Planned, PlanningRequest, PlanningTarget
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.items import is_stored
from proxy.records.feature_mode import LayoutScope
from proxy.services.planning.known_layouts import KnownLayouts


class PlanningRules(msgspec.Struct, frozen=True):
    """Route, feature and layout that a call is planned by; the layout is new conversations'."""

    target: PlanningTarget
    where: LayoutScope
    layout: int


class PlanningStep(msgspec.Struct, frozen=True, kw_only=True):
    """A call as far as it could be planned without the store.

    Attributes:
        missing_plans: Keys of plans that another process may have made, or given another layout.
        missing_layout: Layout of its conversation that is not at hand; 0 for none.
        known_plan: The plan of its conversation; None where it is not known here.
        planned: The call as it is sent; None where something is missing.
    """

    draft: Draft
    missing_plans: Sequence[str] = ()
    missing_layout: int = 0
    known_plan: Plan | None = None
    planned: Planned | None = None


class PlanningDecisions:
    """Decisions of one process; its steps must not run at once."""

    def __init__(self, planner: Planner, layouts: KnownLayouts, now: Callable[[], float]) -> None:
        self._planner, self._layouts, self._now = planner, layouts, now

    def read_and_decide(self, request: PlanningRequest, rules: PlanningRules) -> PlanningStep:
        """The call, read, and as it is sent unless the store is asked first."""
        draft = self._planner.read_call(request)
        known_plan = self._planner.known_plan(draft)
        is_known = known_plan is not None and not known_plan.is_outdated(rules.layout)
        names = draft.stored_keys(known_plan if is_known else None)
        if names:
            return PlanningStep(draft=draft, missing_plans=names)
        return self.decide_next(draft, rules)

    def recall_and_decide(
        self, draft: Draft, rules: PlanningRules, stored_plans: Mapping[str, Plan]
    ) -> PlanningStep:
        """The call with what the store has of its conversation."""
        return self.decide_next(self._planner.recall(draft, stored_plans), rules)

    def decide_next(
        self, draft: Draft, rules: PlanningRules, *, is_fetched: bool = False
    ) -> PlanningStep:
        """The call as it is sent; without it where its layout is not at hand and may be fetched."""
        known_plan, plan = self._known_and_next_plan(draft, rules.layout)
        if not is_fetched and not self._layouts.has(rules.where, plan.layout):
            return PlanningStep(draft=draft, missing_layout=plan.layout)
        planned = self._decide(draft, rules, self._renew_plan(draft, rules, plan))
        return PlanningStep(draft=draft, known_plan=known_plan, planned=planned)

    def adopt_and_decide(self, draft: Draft, rules: PlanningRules, plan: Plan) -> Planned:
        """The call as it is sent by a plan that processes agreed on."""
        self._planner.adopt_plan(draft, plan)
        return self._decide(draft, rules, plan)

    def _known_and_next_plan(self, draft: Draft, current: int) -> tuple[Plan | None, Plan]:
        """The plan of its conversation, None where it is not known here, and the one to go by."""
        known_plan = self._planner.known_plan(draft)
        # Where a provider keeps what it is sent, no text changes its place.
        current = 0 if is_stored(draft.prompt.fields) else current
        current = self._planner.allowed_layout(draft, current, self._now())
        if known_plan is not None and not draft.turns and known_plan.is_outdated(current):
            # It begins like one we know: what was learned meanwhile holds for it.
            fresh = Plan(
                arm=known_plan.arm,
                shape=known_plan.shape,
                splits=known_plan.splits,
                replaced=known_plan.replaced,
            )
            known_plan = fresh.with_layout(current)
            self._planner.adopt_plan(draft, known_plan)
        return known_plan, known_plan or self._planner.begin_plan(draft, current)

    def _renew_plan(self, draft: Draft, rules: PlanningRules, plan: Plan) -> Plan:
        """The plan of a running conversation, with the layout that holds where that is free."""
        current = rules.layout
        if not draft.turns or plan.layout == current or is_stored(draft.prompt.fields):
            return plan
        planned_layout, holds = (
            self._layouts.layout(rules.where, version) for version in (plan.layout, current)
        )
        if current and holds is None:
            return plan
        change = LayoutChange(planned_layout, holds, current)
        renewed = self._planner.renew_plan(draft, rules.target, plan, change, self._now())
        if renewed is not plan:
            self._planner.adopt_plan(draft, renewed)
        return renewed

    def _decide(self, draft: Draft, rules: PlanningRules, plan: Plan) -> Planned:
        """The call as it is sent; what is decided with it holds for its conversation from now on.

        Of calls that begin a conversation at once, the first decides.
        """
        known_plan = self._planner.known_plan(draft)
        plan = known_plan or plan
        fixed = is_stored(draft.prompt.fields)
        layout = None if fixed else self._layouts.layout(rules.where, plan.layout)
        planned = self._planner.plan_call(draft, rules.target, plan, layout, self._now())
        if planned.plan is not known_plan:
            self._planner.adopt_plan(draft, planned.plan)
        return planned
