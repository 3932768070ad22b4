"""A call's prompt, planned: the one place where all pieces of planning meet.

::

    body ─ draft ─┬─ plan known? ───────────┐
                  └─ begun (first call) ────┴─ planned ─▶ what is sent, what should be read
    answer ─ settled ─▶ why less was read, and what is learned for the calls to come

Everything kept is bounded; time comes with each call. One thread at a time may use a planner.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from proxy.prefix.arms import arm
from proxy.prefix.arrangement import Arranged, Marked, arranged, as_it_came, sent
from proxy.prefix.bare import Bare
from proxy.prefix.chains import Chains
from proxy.prefix.changes import Traces
from proxy.prefix.conversation import conversation
from proxy.prefix.findings import Evidence
from proxy.prefix.habits import Habits, Seen
from proxy.prefix.keys import heads
from proxy.prefix.layout import Layout
from proxy.prefix.marks import understood
from proxy.prefix.misses import miss
from proxy.prefix.parameters import parameters
from proxy.prefix.plan import Arm, Plan, Policy
from proxy.prefix.planned import Asked, Draft, Planned, Way, place
from proxy.prefix.policies import Road, Shape, policy, reviewed, stage
from proxy.prefix.positions import is_enough
from proxy.prefix.prompt import AUTHORITY, Block, Fingerprint, Slot, parsed
from proxy.prefix.readings import Readings
from proxy.prefix.reasons import Miss, Said
from proxy.prefix.sent import Sent, Texts
from proxy.prefix.standing import Place
from slo.usage import Usage

_BYTES_PER_TOKEN: Final = 4
_ASSISTANT: Final = "assistant"
#: Reasons told of one call.
_NOTES: Final = 16
#: Seconds after which an answer has begun, so that others may read what its call stored.
_ANSWERED: Final = 1.0
_TEAMS: Final = 4_096
_FEATURES: Final = 4_096


class _Talk(msgspec.Struct):
    """What is remembered of a conversation.

    Attributes:
        calls: Calls seen of it.
        latest: When the last of them was made.
        turns: Answers that one held.
        tokens: What that one was; by estimate, where nobody counted.
    """

    plan: Plan | None = None
    calls: int = 0
    latest: float = 0.0
    tokens: int = 0
    turns: int = 0


class Planner:
    """Plans calls, and learns from their answers.

    Args:
        secret: Makes fingerprints that nobody else can make.
        share: The part of all conversations that is sent as it came, to compare with.
        talks: Conversations remembered.
    """

    def __init__(self, secret: bytes, *, share: float = 0.05, talks: int = 50_000) -> None:
        self._secret = secret
        self._share = share
        self._most = talks
        self._talks: OrderedDict[bytes, _Talk] = OrderedDict()
        self._prints: OrderedDict[str, Fingerprint] = OrderedDict()
        self._habits: OrderedDict[Place, Habits] = OrderedDict()
        self._readings = Readings()
        self._bare = Bare()
        self._texts = Texts()
        self._chains = Chains()
        self._traces = Traces()

    def draft(self, asked: Asked) -> Draft:
        """The call, read.

        Raises:
            Unplannable: If its body is none that can be planned; says why.
        """
        prompt = parsed(asked.body)
        fingerprint = self._fingerprint(asked.team)
        readings = self._readings.of(fingerprint, prompt.messages)
        who = (asked.team, asked.feature, asked.key, asked.hint)
        talk = (at for at, one in enumerate(readings) if one.role not in AUTHORITY)
        first = next(talk, len(readings))
        opening = b""
        if first < len(readings):
            opening = self._readings.opening(fingerprint, prompt.messages[first])
        return Draft(
            asked=asked,
            prompt=prompt,
            fingerprint=fingerprint,
            conversation=conversation(prompt, who, fingerprint, opening),
            turns=sum(one.role == _ASSISTANT for one in readings),
            readings=self._readings,
        )

    def plan(self, draft: Draft) -> Plan | None:
        """What was decided for its conversation; None where that is not known here."""
        talk = self._talks.get(draft.conversation)
        return talk.plan if talk is not None else None

    def adopt(self, draft: Draft, plan: Plan) -> None:
        """Take over what was decided for its conversation."""
        self._talk(draft.conversation).plan = plan

    def begun(self, draft: Draft, layout: int) -> Plan:
        """What holds for a conversation of which nothing is known.

        Args:
            draft: Its call.
            layout: The version that new conversations begin with; 0 for none.
        """
        joined = draft.turns > 0
        chosen = arm(draft.conversation, self._share)
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
        if plan.arm is Arm.CONTROL:
            found, own = as_it_came(draft, plan), Policy()
            theirs = understood(found.given, found.blocks, way.regime)
            came = found.prompt == draft.prompt
            body = draft.asked.body if came else found.prompt.rendered()
            sending = Marked(prompt=found.prompt, marks=theirs, body=body)
        else:
            found = arranged(draft, plan, layout, late=way.late)
            own = self._policy(draft, way, found)
            sending = sent(draft, way, found, own)
            policies = {_kind(way, self._stage(draft)): own, **found.plan.policies}
            plan = msgspec.structs.replace(found.plan, policies=policies)
        return Planned(
            draft=draft,
            way=way,
            plan=plan,
            body=sending.body,
            headers=heads(own, way.regime),
            prompt=sending.prompt,
            tail=sending.prompt.tail,
            evidence=self._evidence(draft, way, found.blocks, sending, own, now),
            notes=(*found.notes, *sending.notes)[:_NOTES],
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
        evidence = planned.evidence
        found = None
        if usage is not None:
            shown = planned.prompt if planned.draft.asked.shows else None
            found = miss(evidence, usage, planned.way.rates, told=told, shown=shown)
        self._chains.note(evidence.sent, usage, evidence.now)
        self._traces.note(evidence.sent, evidence.now)
        self._learn(planned, usage)
        return found

    def _learn(self, planned: Planned, usage: Usage | None) -> None:
        """Remember the call, for what its conversation and its feature do next."""
        draft, evidence = planned.draft, planned.evidence
        talk = self._talk(draft.conversation)
        total = usage.prompt if usage is not None else evidence.sent.estimate
        known = evidence.expected.scaled(total).known
        counts = is_enough(total, planned.way.regime)
        gap = max(0.0, evidence.now - talk.latest) if talk.calls else 0.0
        answered = draft.turns > talk.turns or gap >= _ANSWERED
        seen = Seen(
            before=max(talk.calls, draft.turns),
            gap=gap,
            extends=answered and known * 10 >= talk.tokens * 9,
            counts=counts,
            counted=not talk.calls or is_enough(talk.tokens, planned.way.regime),
            repeats=counts and known >= total and (evidence.expected.idle or 0.0) >= _ANSWERED,
            shares=known * 10 >= total * _stable(evidence.sent.blocks) * 9,
            layout=planned.plan.layout,
        )
        self._habits_of(planned.place).observe(evidence.now, seen)
        talk.calls += 1
        talk.latest = max(talk.latest, evidence.now)
        talk.tokens = total
        talk.turns = draft.turns

    def _policy(self, draft: Draft, way: Way, found: Arranged) -> Policy:
        """What the conversation marks on this kind of cache, decided at each of its stages."""
        at = self._stage(draft)
        earlier = [found.plan.policies.get(_kind(way, each)) for each in range(at + 1)]
        known = [each for each in earlier if each is not None]
        if known and earlier[at] is not None:
            return known[-1]
        talk = self._talks.get(draft.conversation)
        uses = self._habits_of(place(draft.asked, way.model)).uses(
            way.regime.lifetimes,
            is_open=bool(draft.prompt.tools) or draft.turns > 0,
            before=max(talk.calls if talk is not None else 0, draft.turns),
        )
        decided = policy(_shape(found.blocks), uses, way.regime, _road(draft, way))
        if known:
            return reviewed(decided, known[-1])
        return decided

    def _stage(self, draft: Draft) -> int:
        """Which of its conversation's decisions the call is subject to."""
        talk = self._talks.get(draft.conversation)
        return stage(draft.turns, again=talk is not None and talk.calls > 0)

    def _evidence(
        self,
        draft: Draft,
        way: Way,
        blocks: Sequence[Block],
        sending: Marked,
        own: Policy,
        now: float,
    ) -> Evidence:
        prompt, fingerprint = sending.prompt, draft.fingerprint
        where = parameters(prompt, way.regime, fingerprint, way.model)
        found = Sent(
            regime=way.regime,
            place=fingerprint(way.upstream.encode()),
            feature=draft.asked.feature.encode(errors="replace"),
            conversation=draft.conversation,
            early=where.early,
            late=where.late,
            blocks=self._bare.blocks(prompt, tuple(blocks), fingerprint),
            marks=sending.marks,
            explicit=own.explicit,
            tail=prompt.tail,
            lines=self._texts.lines(prompt, tuple(blocks), fingerprint),
        )
        expected = self._chains.expected(found, now)
        return Evidence(sent=found, expected=expected, before=self._traces.before(found), now=now)

    def _habits_of(self, where: Place) -> Habits:
        found = self._habits.get(where)
        if found is None:
            found = self._habits[where] = Habits()
        self._habits.move_to_end(where)
        while len(self._habits) > _FEATURES:
            self._habits.popitem(last=False)
        return found

    def _talk(self, named: bytes) -> _Talk:
        found = self._talks.get(named)
        if found is None:
            found = self._talks[named] = _Talk()
        self._talks.move_to_end(named)
        while len(self._talks) > self._most:
            self._talks.popitem(last=False)
        return found

    def _fingerprint(self, team: str) -> Fingerprint:
        found = self._prints.get(team)
        if found is None:
            found = self._prints[team] = fingerprint(self._secret, team)
        self._prints.move_to_end(team)
        while len(self._prints) > _TEAMS:
            self._prints.popitem(last=False)
        return found


def fingerprint(secret: bytes, team: str) -> Fingerprint:
    """The keyed hash of one team: 16 bytes; no other team's are equal."""
    key = blake2b(team.encode(errors="replace"), key=secret[:64]).digest()
    blank = blake2b(key=key, digest_size=16)

    def digest(raw: bytes) -> bytes:
        found = blank.copy()
        found.update(raw)
        return found.digest()

    return digest


def _kind(way: Way, at: int) -> str:
    """The name of what is decided for a kind of cache, at a stage of a conversation."""
    kind = f"{way.regime.name}/{way.regime.provider}"
    return f"{kind}/{at}" if at else kind


def _stable(blocks: Sequence[Block]) -> float:
    """Which share of a prompt is its stable slot; 0 for an empty prompt."""
    total = sum(block.size for block in blocks)
    return sum(block.size for block in blocks if block.slot is Slot.STABLE) / max(1, total)


def _shape(blocks: Sequence[Block]) -> Shape:
    sizes = dict.fromkeys(Slot, 0)
    for block in blocks:
        sizes[block.slot] += block.size
    return Shape(
        stable=sizes[Slot.STABLE] // _BYTES_PER_TOKEN,
        semi=sizes[Slot.SEMI_STABLE] // _BYTES_PER_TOKEN,
        history=sizes[Slot.VARIABLE] // _BYTES_PER_TOKEN,
        ends_system=any(block.slot is Slot.STABLE and block.message >= 0 for block in blocks),
    )


def _road(draft: Draft, way: Way) -> Road:
    asked = draft.asked
    feature = f"{asked.team}\0{asked.feature}\0{way.model}".encode(errors="replace")
    return Road(
        prefix=draft.fingerprint(feature).hex()[:16],
        conversation=draft.conversation.hex(),
    )
