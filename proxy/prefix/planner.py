"""A call's prompt, planned: the one place where all pieces of planning meet.

::

    body ─ draft ─┬─ plan known? ───────────┐
                  └─ begun (first call) ────┴─ planned ─▶ what is sent, what should be read
    answer ─ settled ─▶ why less was read, and what is learned for the calls to come

Everything kept is bounded; time comes with each call. One thread at a time may use a planner.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Final

import msgspec

from proxy.prefix.arrangement import Arranged, Marked, arranged, as_it_came, sent
from proxy.prefix.breakpoints.keys import heads
from proxy.prefix.breakpoints.plan import Arm, Plan, Policy, forked, merged
from proxy.prefix.breakpoints.policies import (
    Road,
    back,
    key,
    policy,
    reviewed,
    shape,
    shared,
    stage,
    vetted,
)
from proxy.prefix.breakpoints.reuse_statistics import Habits
from proxy.prefix.conversation_state import Talk
from proxy.prefix.conversations import Conversations
from proxy.prefix.experiment_arms import arm
from proxy.prefix.explain.findings import Evidence
from proxy.prefix.explain.misses import claimed, miss
from proxy.prefix.explain.reasons import Miss, Said
from proxy.prefix.harm import Harm
from proxy.prefix.keyed import keyed
from proxy.prefix.layouts.canonical import named
from proxy.prefix.layouts.layout import Layout
from proxy.prefix.layouts.toolsets import Toolsets
from proxy.prefix.message_cache import Readings
from proxy.prefix.observation import calls_before, observation
from proxy.prefix.planned import Asked, Draft, Planned, Trial, Way, place
from proxy.prefix.prediction.changes import Traces
from proxy.prefix.prediction.parameters import parameters
from proxy.prefix.prediction.prefix_chains import Chains
from proxy.prefix.prediction.prompt_digests import BACK, left, opening
from proxy.prefix.prediction.sent import Sent
from proxy.prefix.prediction.unstored import Unstored
from proxy.prefix.prompts.conversation import chain
from proxy.prefix.prompts.prompt import ASSISTANT, BYTES_PER_TOKEN, Fingerprint, Slot, parsed
from proxy.prefix.prompts.recent import Recent
from proxy.prefix.unmodified import Unmodified, Variant
from proxy.records.feature_mode import Place
from slo.usage import Usage

#: Reasons told of one call.
_NOTES: Final = 16
_TEAMS: Final = 4_096
_FEATURES: Final = 4_096
#: Features whose lists of tools are remembered, of some 40 KB each at most.
_EQUIPPED: Final = 1_024


class Planner:
    """Plans calls, and learns from their answers.

    Args:
        secret: Makes fingerprints that nobody else can make.
        share: The part of all conversations that is sent as it came, to compare with.
        talks: Conversations remembered.
        credit: What a feature's marks may cost before they have earned it; None for one call's.
    """

    def __init__(
        self,
        secret: bytes,
        *,
        share: float = 0.05,
        talks: int = 50_000,
        credit: float | None = None,
    ) -> None:
        self._secret = secret
        self._share = share
        self._talks: Recent[bytes, Talk] = Recent(talks)
        self._habits: Recent[Place, Habits] = Recent(_FEATURES)
        self._toolsets: Recent[Place, Toolsets] = Recent(_EQUIPPED)
        self._readings = Readings()
        self._conversations = Conversations()
        self._unstored = Unstored()
        self._chains = Chains(unstored=self._unstored)
        self._traces = Traces()
        self._unmodified = Unmodified(credit, self._unstored)

    def draft(self, asked: Asked) -> Draft:
        """The call, read.

        Raises:
            Unplannable: If its body is none that can be planned; says why.
        """
        prompt = parsed(asked.body)
        team = fingerprint(self._secret, asked.team)
        known = self._readings.of(team, prompt.messages)
        # A conversation that was shortened is the same one.
        origin = asked.origin
        own = known if origin is None else self._readings.of(team, origin.messages)
        turns = origin.turns if origin is not None else [one.role for one in known].count(ASSISTANT)
        who = (asked.team, asked.feature, asked.key, asked.hint, asked.session)
        said = chain(prompt, own, who, team)
        return Draft(
            asked=asked,
            prompt=prompt,
            fingerprint=team,
            chain=said,
            resolved=self._conversations.resolve(said),
            turns=turns,
            known=known,
            readings=self._readings,
        )

    def recall(self, draft: Draft, held: Mapping[str, Plan]) -> Draft:
        """The call, once it is known what other processes kept where it was sought.

        From here on its conversation went on with it: of two calls at once, one parts.
        """
        self._conversations.load(held)
        resolved = self._conversations.resolve(draft.chain)
        self._conversations.note(draft.chain, resolved)
        for name in filter(None, (resolved.name, resolved.source)):
            plan = held.get(name.hex())
            if plan is not None and not plan.conversation:
                talk = self._talks.of(name, Talk)
                talk.plan = merged(plan, talk.plan) if talk.plan is not None else plan
        return msgspec.structs.replace(draft, resolved=resolved)

    def plan(self, draft: Draft) -> Plan | None:
        """What was decided for its conversation; None where that is not known here."""
        talk = self._talks.peek(draft.conversation)
        return talk.plan if talk is not None else None

    def adopt(self, draft: Draft, plan: Plan) -> None:
        """Take over what was decided for its conversation."""
        source = self._talks.peek(draft.resolved.source) or Talk()
        self._talks.of(draft.conversation, source.fork).plan = plan

    def begun(self, draft: Draft, layout: int) -> Plan:
        """What holds for a conversation of which nothing is known, or that parts from a known one.

        Args:
            draft: Its call.
            layout: The version that new conversations begin with; 0 for none.
        """
        joined = draft.turns > 0
        chosen = arm(draft.conversation, self._share)
        source = self._talks.peek(draft.resolved.source)
        if source is not None and source.plan is not None:
            tools = [tool.known for tool in named(draft.prompt.tools, draft.fingerprint)]
            return forked(source.plan, chosen, tools)
        moves = chosen is Arm.TREATED and not joined
        return Plan(arm=chosen, layout=layout if moves else 0, joined=joined)

    def planned(
        self, draft: Draft, way: Way, plan: Plan, layout: Layout | None, now: float
    ) -> Planned:
        """The call as it is sent this way.

        Args:
            draft: The call.
            way: Where it goes.
            plan: What holds for its conversation.
            layout: The one that the plan names; None for none.
            now: Seconds since the epoch.

        Raises:
            Unplannable: If the body has to go as it came; says why.
        """
        self._conversations.note(draft.chain, draft.resolved)
        plan = draft.onward(plan)
        if plan.arm is Arm.CONTROL:
            # Without the key it would keep a cache apart, and both arms would be dearer.
            found, own = as_it_came(draft, plan), Policy(key=key(way.regime, _road(draft, way)))
        else:
            plan = self._equipped(draft, way, plan)
            found = arranged(draft, plan, layout, late=way.late)
            found, own = self._decided(draft, way, found, now)
        variant, trial = self._affordable(draft, way, found, own, now)
        return Planned(
            draft=draft,
            way=way,
            plan=found.plan,
            body=variant.sending.body,
            headers=heads(own, way.regime),
            prompt=variant.sending.prompt,
            evidence=variant.evidence,
            notes=(*found.notes, *variant.sending.notes)[:_NOTES],
            direct=variant.direct,
            trial=trial,
        )

    def settled(
        self, planned: Planned, usage: Usage | None, *, told: Said | None = None
    ) -> Miss | None:
        """Why less was read than could have been; what the answer teaches is learned.

        Args:
            planned: The call that was answered.
            usage: What its provider counted; None where it did not.
            told: The provider's own reason for a miss, where it gave one.
        """
        found = missed(planned, usage, told=told)
        self.learn(planned, usage)
        return found

    def learn(self, planned: Planned, usage: Usage | None) -> None:
        """Remember the call, for what its conversation and its feature do next.

        Args:
            planned: The call that was answered.
            usage: What its provider counted; None where it did not.
        """
        draft, evidence = planned.draft, planned.evidence
        sent, now = evidence.sent, evidence.now
        if usage is not None:
            expected = evidence.expected.scaled(usage.prompt_tokens)
            if self._unstored.observe(sent, expected.hit, expected.scale, usage, now):
                self._unmodified.doubt(planned.place)
        self._chains.note(sent, usage, now)
        self._traces.note(sent, now)
        talk = self._talks.of(draft.conversation, Talk)
        found = observation(planned, usage, talk)
        self._habits.of(planned.place, Habits).observe(now, found.seen)
        talk.open_call = self._unmodified.note(planned, usage, talk.open_call)
        if found.compares:
            talk.lacked(found.seen.left)
        talk.note(sent, now, tokens=found.tokens, turns=draft.turns)

    def ended(self, planned: Planned) -> None:
        """A call has ended, answered or not."""
        self._unmodified.release(planned)

    def take_harm(self, place: Place, now: float) -> Harm | None:
        """That planning makes the place's calls surely dearer; None where it does not.

        Once it was told, the place is judged by its next calls alone.
        """
        found = self._unmodified.harm(place, now)
        if found is not None:
            self._unmodified.forget(place)
        return found

    def _equipped(self, draft: Draft, way: Way, plan: Plan) -> Plan:
        """The plan with an order for the tools of its conversation, once there are any."""
        tools = draft.prompt.tools
        if not tools or plan.tools or plan.joined:
            return plan
        toolsets = self._toolsets.of(place(draft.asked, way.model), Toolsets)
        order = toolsets.order(named(tools, draft.fingerprint))
        return msgspec.structs.replace(plan, tools=order, as_came=not toolsets.is_respelled)

    def _decided(
        self, draft: Draft, way: Way, found: Arranged, now: float
    ) -> tuple[Arranged, Policy]:
        """What the conversation marks on this kind of cache, decided at each of its stages."""
        talk = self._talks.peek(draft.conversation) or Talk()
        begins_again = talk.calls > 0 and not draft.turns
        at = stage(draft.turns, talk.calls)
        held = found.plan.policies
        known = [one for each in range(at + 1) if (one := held.get(_kind(way, each))) is not None]
        own = known[-1] if known else None
        if own is None or _kind(way, at) not in held:
            own = self._decided_anew(draft, way, found, talk, own)
            if not begins_again:
                begins = opening(found.bare)
                moves = self._habits.of(place(draft.asked, way.model), Habits).moves
                own = vetted(own, way.regime, talk.told(begins, moves=moves), begins)
            policies = {_kind(way, at): own, **held}
            plan = msgspec.structs.replace(found.plan, policies=policies)
            found = msgspec.structs.replace(found, plan=plan)
        if begins_again:
            own = vetted(own, way.regime, talk.openings, opening(found.bare))
        return found, own

    def _decided_anew(
        self, draft: Draft, way: Way, found: Arranged, talk: Talk, before: Policy | None
    ) -> Policy:
        """What the conversation marks from this stage on, by what is expected of it now."""
        habits = self._habits.of(place(draft.asked, way.model), Habits)
        lefts = (*talk.lefts, left(found.bare, talk.endings)) if talk.calls else ()
        repeats = habits.repeats(lefts)
        spoken = _spoken(found)
        beyond = back(repeats, spoken)
        uses = habits.uses(
            way.regime.lifetimes,
            is_open=bool(draft.prompt.tools) or draft.turns > 0,
            before=calls_before(draft, found.plan, talk),
            repeats=repeats[beyond],
        )
        own = policy(shape(found.blocks, spoken, beyond), uses, way.regime, _road(draft, way))
        return own if before is None else reviewed(own, before)

    def _affordable(
        self, draft: Draft, way: Way, found: Arranged, own: Policy, now: float
    ) -> tuple[Variant, Trial | None]:
        """The call with as many marks as others earned, and with all of them on paper.

        What conversations share comes again sooner and costs less, so that is bet on first.
        """
        whole = self._variant(draft, way, found, own, now)
        trial = self._unmodified.trial(whole)
        if trial is None:
            return whole, None
        where, bet = place(draft.asked, way.model), self._unmodified.bet
        number = bet(where, way, whole, on_credit=False)
        if not number:
            part = self._variant(draft, way, found, shared(own), now)
            if part.evidence.sent.marks != whole.evidence.sent.marks:
                number = bet(where, way, part, on_credit=True)
                if number:
                    return part, msgspec.structs.replace(trial, number=number)
            number = bet(where, way, whole, on_credit=True)
        if number:
            return whole, msgspec.structs.replace(trial, is_live=True, number=number)
        return self._variant(draft, way, found, Policy(key=own.key), now), trial

    def _variant(self, draft: Draft, way: Way, found: Arranged, own: Policy, now: float) -> Variant:
        sending = sent(draft, way, found, own)
        evidence = self._evidence(draft, way, found, sending, now)
        direct = self._unmodified.expect(draft, way, found, sending, evidence.sent, now)
        return Variant(sending, evidence, direct)

    def _evidence(
        self, draft: Draft, way: Way, found: Arranged, sending: Marked, now: float
    ) -> Evidence:
        origin = draft.asked.origin
        where = parameters(sending.prompt, way.regime, draft.fingerprint, way.model)
        call = Sent(
            regime=way.regime,
            place=draft.fingerprint(way.upstream.encode()),
            feature=draft.fingerprint(draft.asked.feature.encode(errors="replace")),
            conversation=draft.conversation,
            early=where.early,
            late=where.late,
            blocks=found.bare,
            marks=sending.marks,
            explicit=sending.explicit,
            tail=sending.prompt.tail,
            lines=found.lines,
            compacted=origin is not None and origin.reset,
        )
        expected = self._chains.expected(call, now)
        return Evidence(sent=call, expected=expected, before=self._traces.before(call), now=now)


def missed(planned: Planned, usage: Usage | None, *, told: Said | None = None) -> Miss | None:
    """Why less was read than could have been; from the call alone, so any thread may ask.

    Args:
        planned: The call that was answered.
        usage: What its provider counted; None where it did not.
        told: The provider's own reason for a miss, where it gave one.
    """
    if usage is None:
        return claimed(told, None)
    shown = planned.prompt if planned.draft.asked.shows else None
    return miss(planned.evidence, usage, planned.way.rates, told=told, shown=shown)


@lru_cache(_TEAMS)
def fingerprint(secret: bytes, team: str) -> Fingerprint:
    """The keyed hash of one team: 16 bytes; no other team's are equal."""
    return keyed(secret, team)


def _kind(way: Way, at: int) -> str:
    """The name of what is decided for a kind of cache, at a stage of a conversation."""
    kind = f"{way.regime.name}/{way.regime.provider}"
    return f"{kind}/{at}" if at else kind


def _spoken(found: Arranged) -> list[int]:
    """Tokens of the conversation without so many of its last blocks, by how many."""
    kept = len(found.blocks) - found.prompt.tail
    sizes = [block.size for block in found.blocks[:kept] if block.slot is Slot.VARIABLE]
    ends = [*accumulate(sizes, initial=0)][::-1]
    return [(ends[at] if at < len(ends) else 0) // BYTES_PER_TOKEN for at in range(BACK + 1)]


def _road(draft: Draft, way: Way) -> Road:
    asked = draft.asked
    names = (f"{asked.team}\0{way.model}", f"{asked.team}\0{asked.feature}\0{way.model}")
    team, feature = (draft.fingerprint(name.encode(errors="replace")).hex()[:16] for name in names)
    return Road(team=team, feature=feature)
