"""Calls that are planned, and processes that plan them."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import orjson

from proxy.calls.eligibility.route_target import route_target
from proxy.prefix.breakpoints.feature_account import DEFAULT_STAKE
from proxy.prefix.breakpoints.plan import Plan, merge_plans
from proxy.prefix.layouts.layout import Layout
from proxy.prefix.lessons import LayoutLearner
from proxy.prefix.planned import Planned, PlanningRequest, PlanningTarget
from proxy.prefix.planner import Planner
from proxy.prefix.prediction.prefix_chains import expected_usage
from proxy.prefix.prompts.marks import MARKS
from slo.price import TokenRates
from slo.usage import Usage
from tests.fakes.handbook import handbook
from tests.fakes.wire_prefix import ROUTES, PlannedBody

NOW = 1_790_000_000.0
SECRET = b"the installation's secret"
RATES = TokenRates(input=1_000_000_000, cache_read=100_000_000, output=4_000_000_000)
#: One way for every regime there is.
TARGETS: Mapping[str, PlanningTarget] = {
    name: msgspec.structs.replace(route_target(route, "any", NOW), rates=RATES)
    for name, route in ROUTES.items()
}
RULES = handbook(20, "askings")
Json = dict[str, Any]


def chat_message(role: str, content: object) -> Json:
    return {"role": role, "content": content}


def body(*messages: Json, **fields: object) -> bytes:
    return orjson.dumps({"model": "any", "messages": messages, **fields})


def tool(name: str, **more: object) -> Json:
    function = {"name": name, "description": f"Does {name}.", "parameters": {}}
    return {"type": "function", "function": function, **more}


def conversation_messages(
    turns: int, rules: str = RULES, opening: str = "Where is my parcel?"
) -> list[Json]:
    """The messages of a call that ``turns`` answers precede."""
    messages = [chat_message("system", rules), chat_message("user", opening)]
    for turn in range(turns):
        messages.append(chat_message("assistant", f"Case {turn} is open. Which number has it?"))
        messages.append(chat_message("user", f"It has number {turn}{turn}7."))
    return messages


def planning_request(raw: bytes, **fields: Any) -> PlanningRequest:
    return PlanningRequest(
        **{"team": "team_1", "feature": "desk", "key": "key_1", "body": raw, **fields}
    )


def without_marks(raw: bytes) -> Any:
    """A body without its marks, and a text that is all of a content as that text.

    Marks are no part of a prefix, so processes that learned other things may send others.
    """
    return _without_marks(orjson.loads(raw))


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(element) for element in value]
    if not isinstance(value, dict):
        return value
    members = {name: _without_marks(one) for name, one in value.items() if name not in MARKS}
    match members:
        case {"content": [{"type": "text" | "input_text", "text": str(text), **more}]} if not more:
            return members | {"content": text}
    return members


def usage_of(planned: Planned) -> Usage:
    """Usage at a provider that keeps its promises."""
    sent, expected = planned.evidence.sent, planned.evidence.expected
    return expected_usage(sent, expected, sent.estimate)


class PlanningProcess:
    """One process that plans; its clock moves ten seconds with each call.

    Args:
        to: Where it sends.
        plans: What was decided, shared with other processes, as they read it from a store.
        layout: Version 1, which new conversations begin with.
        share: Of the control arm.
        stake: Amount that a feature's marks may lose.
    """

    def __init__(
        self,
        to: PlanningTarget,
        *,
        plans: dict[str, bytes] | None = None,
        layout: Layout | None = None,
        share: float = 0.0,
        stake: float = DEFAULT_STAKE,
    ) -> None:
        self.planner = Planner(SECRET, share=share, stake=stake)
        self.lessons = LayoutLearner()
        self.to = to
        self.now = NOW
        self._plans = {} if plans is None else plans
        self.layout = layout

    def plan(self, call: PlanningRequest) -> Planned:
        """The call as it is sent; nobody has answered it yet."""
        self.now += 10.0
        draft = self.planner.read_call(call)
        if sought := draft.stored_keys(self.planner.known_plan(draft)):
            draft = self.planner.recall(draft, self._stored_plans(sought))
        plan = self._stored_plans((draft.conversation.hex(),)).get(draft.conversation.hex())
        if plan is None or plan.conversation:
            current = int(self.layout is not None)
            plan = self.planner.begin_plan(
                draft, self.planner.allowed_layout(draft, current, self.now)
            )
        layout = self.layout if plan.layout else None
        planned = self.planner.plan_call(draft, self.to, plan, layout, self.now)
        self.planner.adopt_plan(draft, planned.plan)
        sent_plans = {**draft.related_keys(), draft.conversation.hex(): planned.plan}
        for name, sent_plan in sent_plans.items():
            held = (
                msgspec.json.decode(self._plans[name], type=Plan) if name in self._plans else None
            )
            grown = merge_plans(held, sent_plan) if held else sent_plan
            self._plans[name] = msgspec.json.encode(grown)
        return planned

    def _stored_plans(self, sought: Iterable[str]) -> dict[str, Plan]:
        """Return what a store has under these names, and where those lead."""
        plans = {}
        for name in sought:
            if held := self._plans.get(name):
                plans[name] = plan = msgspec.json.decode(held, type=Plan)
                if there := self._plans.get(plan.conversation):
                    plans[plan.conversation] = msgspec.json.decode(there, type=Plan)
        return plans

    def plan_and_settle(self, call: PlanningRequest, usage: Usage | None = None) -> Planned:
        """The call as it was sent, and learned from once it was answered.

        Args:
            call: The call.
            usage: Usage as counted by its provider; as should be expected by default.
        """
        planned = self.plan(call)
        self.planner.settle_call(planned, usage or usage_of(planned))
        self.lessons.observe(planned)
        return planned

    def send(self, raw: bytes) -> PlannedBody:
        """Return what is sent of a body."""
        planned = self.plan_and_settle(planning_request(raw))
        return PlannedBody(planned.body, planned.prompt.tail)


def learned_layout(to: PlanningTarget, bodies: Iterable[bytes], **fields: Any) -> Layout | None:
    """Return what a feature shows once these calls were answered."""
    process, last = PlanningProcess(to), None
    for raw in bodies:
        last = process.plan_and_settle(planning_request(raw, **fields))
    return process.lessons.proposal(last) if last is not None else None
