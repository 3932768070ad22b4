"""Plans a call's prompt from its conversation: the entry point of prefix planning.

::

    body ─ read_call ─┬─ known_plan ────────────────┐
                      └─ begin_plan (first call) ───┴─ plan_call ─▶ request, expected read
    answer ─ settle_call ─▶ why less was read, and what is learned for later calls

All memory is bounded by its bytes; time comes with each call. One thread at a time may use
a planner.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from proxy.prefix.agent_keys import SHARED_KEY_NOTE
from proxy.prefix.arrangement import (
    arrange_prompt,
    unmodified_prompt,
)
from proxy.prefix.breakpoints import policies
from proxy.prefix.breakpoints.feature_account import DEFAULT_STAKE
from proxy.prefix.breakpoints.plan import (
    ExperimentArm,
    Plan,
    assign_arm,
    fork_plan,
    merge_plans,
)
from proxy.prefix.conversations import ConversationState
from proxy.prefix.explain.reasons import CacheMiss, ProviderReason
from proxy.prefix.guard import Harm
from proxy.prefix.layouts.agent_shapes import known_shape
from proxy.prefix.layouts.layout import Layout
from proxy.prefix.layouts.tool_order import Toolsets, movable_tools
from proxy.prefix.lessons import LayoutChange, is_free_change
from proxy.prefix.marking import (
    CallToMark,
    affordable_variant,
    paper_call,
    record_marks,
    with_all_marks,
    with_cache_key,
)
from proxy.prefix.observation import find_miss, observe_call
from proxy.prefix.planned import (
    Draft,
    Planned,
    PlanningRequest,
    PlanningTarget,
    layout_place,
)
from proxy.prefix.prompts.conversation import conversation_chain
from proxy.prefix.prompts.fingerprints import team_fingerprint
from proxy.prefix.prompts.prompt import ASSISTANT, parse_prompt
from proxy.prefix.team_indexes import DEFAULT_BYTES, TeamIndexes, TeamMemory
from proxy.prefix.unmodified import compare_usage
from proxy.records.body_reader import SplitBody
from slo.usage import Usage

_MAX_NOTES: Final = 16  # reasons told of one call


class Planner:
    """Plans calls, and learns from their answers.

    Args:
        secret: Makes fingerprints that no one without it can make.
        share: The part of all conversations that is sent unmodified, to compare with.
        stake: Amount that a feature's marks may lose, in nano-dollars times a million tokens.
        process: Tells the keys that agents' sessions share here from those of other processes.
    """

    def __init__(
        self,
        secret: bytes,
        *,
        share: float = 0.05,
        max_bytes: int = DEFAULT_BYTES,
        stake: float = DEFAULT_STAKE,
        process: bytes = b"",
    ) -> None:
        self._secret = secret
        self._share = share
        self.memory = TeamMemory(partial(TeamIndexes, stake, process), max_bytes)

    def unread_bytes(self, request: PlanningRequest, split: SplitBody) -> int:
        """Bytes of a call's body that have to be read, for they were not met before."""
        if request.origin is not None:
            return len(request.body)
        around = 0 if split.known else len(split.around)
        team = team_fingerprint(self._secret, request.team)
        readings = self.memory.of(request.team).readings
        return around + readings.unread_bytes(team, split)

    def read_call(self, request: PlanningRequest) -> Draft:
        """The call, read.

        Raises:
            Unplannable: If its body is none that can be planned; says why.
        """
        prompt = parse_prompt(request.body, is_native=request.is_native, split=request.split)
        team = team_fingerprint(self._secret, request.team)
        indexes = self.memory.read_call(request.team)
        readings = indexes.readings
        body_readings, beginning = readings.readings_of_body(
            team, prompt.messages, request.known_split
        )
        # A conversation that was shortened is the same one.
        origin = request.origin
        own = body_readings if origin is None else readings.readings_of(team, origin.messages)
        turns = (
            origin.turns
            if origin is not None
            else [one.role for one in body_readings].count(ASSISTANT)
        )
        who = (request.team, request.feature, request.key, request.hint, request.session)
        chain = conversation_chain(prompt, own, who, team, indexes.latest_chains)
        draft = Draft(
            request=request,
            prompt=prompt,
            fingerprint=team,
            chain=chain,
            resolved=indexes.conversations.resolve(chain),
            turns=turns,
            known=body_readings,
            beginning=beginning,
            readings=readings,
        )
        return draft.with_splits(indexes.texts)

    def recall(self, draft: Draft, stored_plans: Mapping[str, Plan]) -> Draft:
        """The call with what other processes kept of it; of two such calls at once, one parts."""
        indexes = self._indexes_of(draft)
        indexes.conversations.load_plans(stored_plans)
        resolved = indexes.conversations.resolve(draft.chain)
        indexes.conversations.record_call(draft.chain, resolved)
        for name in filter(None, (resolved.name, resolved.source)):
            plan = stored_plans.get(name.hex())
            if plan is not None and not plan.conversation:
                past = indexes.states.peek(name)
                own_plan = past.plan if past is not None else None
                indexes.adopt_plan(
                    name, merge_plans(plan, own_plan) if own_plan is not None else plan
                )
        return msgspec.structs.replace(draft, resolved=resolved)

    def known_plan(self, draft: Draft) -> Plan | None:
        """The plan of its conversation; None where it is not known here."""
        past = self._indexes_of(draft).states.peek(draft.conversation)
        return past.plan if past is not None else None

    def adopt_plan(self, draft: Draft, plan: Plan) -> None:
        """Take over what was decided for its conversation."""
        indexes = self._indexes_of(draft)
        source = indexes.states.peek(draft.resolved.source) or ConversationState()
        indexes.adopt_plan(draft.conversation, plan, source.fork)

    def begin_plan(self, draft: Draft, layout: int) -> Plan:
        """Make the plan of a conversation that is new, or parts from a known one.

        Args:
            layout: The version that new conversations begin with; 0 for none.
        """
        joined = draft.turns > 0
        indexes = self._indexes_of(draft)
        request, chosen = draft.request, assign_arm(draft.conversation, self._share)
        if not indexes.unmodified.can_compare(request.team, request.feature):
            chosen = ExperimentArm.TREATED
        source = indexes.states.peek(draft.resolved.source)
        if source is not None and source.plan is not None:
            tools = [tool.digest for tool in movable_tools(draft.prompt.tools, draft.fingerprint)]
            return fork_plan(source.plan, chosen, tools)
        if joined or chosen is not ExperimentArm.TREATED:
            return Plan(arm=chosen, joined=joined)
        return Plan(arm=chosen, layout=layout, shape=known_shape(draft.prompt))

    def allowed_layout(self, draft: Draft, layout: int, now: float) -> int:
        """The layout of a conversation that begins; 0 where its team may lose nothing today."""
        request, unmodified = draft.request, self._indexes_of(draft).unmodified
        return layout if layout and unmodified.may_move(request.team, request.feature, now) else 0

    def renew_plan(
        self, draft: Draft, target: PlanningTarget, plan: Plan, change: LayoutChange, now: float
    ) -> Plan:
        """The plan with the layout that holds, where its conversation ran here and that is free.

        An unmodified conversation takes it over once comparing has cost what it may.
        """
        indexes = self._indexes_of(draft)
        past, request = indexes.states.peek(draft.conversation), draft.request
        if past is None or not past.calls:
            return plan
        if not plan.is_planned and indexes.unmodified.can_compare(request.team, request.feature):
            return plan
        is_newer = change.version > plan.layout
        if is_newer and not self.allowed_layout(draft, change.version, now):
            return plan
        target = _requested_target(draft, target)
        lost = past.lost_tokens(target.regime, now)
        reads = partial(indexes.chains.expect_read, now=now)
        if not is_free_change(draft, target, plan, change, reads, lost):
            return plan
        return plan.with_layout(change.version)

    def plan_call(
        self, draft: Draft, target: PlanningTarget, plan: Plan, layout: Layout | None, now: float
    ) -> Planned:
        """Plan the call for this target.

        Raises:
            Unplannable: If the body has to go unmodified; says why.
        """
        target = _requested_target(draft, target)
        indexes = self.memory.of(draft.request.team, now)
        indexes.conversations.record_call(draft.chain, draft.resolved)
        plan = draft.plan_with_continuation(plan)
        if plan.arm is ExperimentArm.CONTROL:
            arrangement = unmodified_prompt(draft, plan)
            call = CallToMark.begin(indexes, draft, target, arrangement, now)
            # Without the key it would keep a cache apart, and both arms would be dearer.
            own = policy = call.key_policy()
        else:
            plan = self._with_tool_order(draft, target, plan)
            arrangement = arrange_prompt(
                draft, plan, layout, late=target.late, regime=target.regime
            )
            call, own = with_cache_key(CallToMark.begin(indexes, draft, target, arrangement, now))
            arrangement, policy = call.found, with_all_marks(call, own)
        indexes.agent_keys.record_call(draft, target, now)
        variant, trial = affordable_variant(call, policy)
        notes = (*arrangement.notes, *((SHARED_KEY_NOTE,) if own.shared_key else ()))
        return Planned(
            draft=draft,
            target=target,
            plan=arrangement.plan,
            body=variant.sending.body,
            headers=policies.key_headers(own, target.regime),
            prompt=variant.sending.prompt,
            evidence=variant.evidence,
            notes=(*notes, *variant.sending.notes)[:_MAX_NOTES],
            direct=variant.direct,
            trial=trial,
        )

    def settle_call(
        self, planned: Planned, usage: Usage | None, *, reason: ProviderReason | None = None
    ) -> CacheMiss | None:
        """Learn from a call's answer; return why its cache missed, the provider's word besides."""
        miss = find_miss(planned, usage, provider_reason=reason)
        self.learn(planned, usage)
        return miss

    def learn(self, planned: Planned, usage: Usage | None) -> None:
        """Remember an answered call, for what its conversation and its feature do next."""
        draft, call, now = planned.draft, planned.evidence.sent, planned.evidence.now
        indexes = self._indexes_of(draft)
        indexes.agent_keys.record_answer(planned, usage)
        if usage is not None and planned.target.takes_marks:
            expected = planned.evidence.expected.rescale(usage.prompt_tokens)
            if indexes.unstored.record_answer(call, expected.hit, expected.scale, usage, now):
                indexes.stakes.reset(planned.place)
        paper = paper_call(planned, usage)
        indexes.chains.record_call(call, usage, now, paper)
        indexes.traces.record_call(call, now)
        past = indexes.states.get_or_make(draft.conversation, ConversationState)
        observation = observe_call(planned, usage, past)
        compared = compare_usage(planned, usage) if usage is not None else None
        past.open_call = indexes.unmodified.record_call(planned, compared, past.open_call)
        record_marks(indexes, planned, usage, compared, paper, observation)
        if compared is not None and planned.plan.layout:
            past.lost += compared.lost_tokens(call.regime)
        past.record_call(call, now, tokens=observation.tokens, turns=draft.turns)
        self.memory.trim(draft.request.team)

    def end_call(self, planned: Planned) -> None:
        """A call has ended, answered or not."""
        self._indexes_of(planned.draft).stakes.release(planned)

    def take_harm(self, planned: Planned, now: float) -> Harm | None:
        """The harm that planning surely does to calls of its feature and layout; None for none.

        Once it was told, they are judged by the next ones alone.
        """
        unmodified = self._indexes_of(planned.draft).unmodified
        return unmodified.take_harm(planned.place, planned.plan.layout, now)

    def _indexes_of(self, draft: Draft) -> TeamIndexes:
        return self.memory.of(draft.request.team)

    def _with_tool_order(self, draft: Draft, target: PlanningTarget, plan: Plan) -> Plan:
        """The plan with an order for all tools of its conversation."""
        tools = movable_tools(draft.prompt.tools, draft.fingerprint)
        if plan.joined or {tool.digest for tool in tools}.issubset(plan.tools):
            return plan
        place = layout_place(draft.request, target.model)
        toolsets = self._indexes_of(draft).toolsets.get_or_make(place, Toolsets)
        order = toolsets.order(tools, plan.tools)
        return msgspec.structs.replace(plan, tools=order)


def _requested_target(draft: Draft, target: PlanningTarget) -> PlanningTarget:
    """The target with its cache at the retention that the caller asks for."""
    regime = policies.requested_regime(draft.prompt, target.regime)
    same = regime is target.regime
    return target if same else msgspec.structs.replace(target, regime=regime)
