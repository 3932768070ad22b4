"""The values of planning: its input (a call and its target) and its result (what is sent)."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.plan import Plan, more_splits
from proxy.prefix.conversations import ResolvedConversation
from proxy.prefix.explain.findings import CallEvidence
from proxy.prefix.layouts.agent_shapes import TextSplits, longest_text, text_groups
from proxy.prefix.message_cache import Beginning, MessageCache
from proxy.prefix.prediction.leading_texts import LongText, SeenTexts, TextOwner
from proxy.prefix.prediction.prefix_chains import ExpectedRead
from proxy.prefix.prediction.sent_call import SentCall
from proxy.prefix.prompts.conversation import ConversationChain
from proxy.prefix.prompts.prompt import Fingerprint, MessageReading, Prompt, PromptSlot
from proxy.records.body_reader import SplitBody
from proxy.records.call import UncompactedConversation
from proxy.records.feature_mode import LayoutScope, model_family
from proxy.records.prompt_segments import CacheMark, PromptSegments
from slo.price import TokenRates

#: Marks of a prompt that its receipt keeps; no cache takes more than four.
_MAX_MARKS: Final = 16
#: Price of a million tokens of a model without one: no cache that takes marks has a dearer one.
_ASSUMED_PRICE: Final = 30e9
#: Scopes that are remembered.
_MAX_SCOPES: Final = 4_096


class PlanningRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call to plan.

    Attributes:
        key: The id of the caller's key.
        hint: Caller's name of the conversation; "" where there is none.
        session: Session in its client's headers; "" for none.
        slots: Slots that the caller names beside its texts; "" for none.
        shows: True if the team keeps prompts, so that its words may be quoted to it.
        origin: Whence the body was shortened; None where it is the caller's own.
        is_native: True if the body is one of the Messages API.
        split: The body, where its messages were found before.
    """

    team: str
    feature: str
    key: str
    hint: str = ""
    session: str = ""
    slots: str = ""
    body: bytes
    shows: bool = False
    origin: UncompactedConversation | None = None
    is_native: bool = False
    split: SplitBody | None = None

    @property
    def known_split(self) -> SplitBody | None:
        """The body with its messages apart; None where it was changed since these were found."""
        return self.split if self.split is not None and self.split.body is self.body else None


class PlanningTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The upstream and model that a call is sent to.

    Attributes:
        model: The name the upstream knows the model by.
        late: True if it takes system messages after the conversation.
    """

    upstream: str
    model: str
    regime: Regime
    late: bool = False
    rates: TokenRates | None = None

    @property
    def takes_marks(self) -> bool:
        """True if its cache takes marks."""
        return self.regime.takes_marks

    @property
    def token_price(self) -> float:
        """The price of a million fresh tokens in nano-dollars, a dear one's where it is unknown."""
        price = self.rates.input if self.rates is not None else None
        return _ASSUMED_PRICE if price is None else float(price or 1)


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was read and whose conversation is known.

    Attributes:
        turns: Answers it held as its caller wrote it; 0 in a conversation's first call.
        chain: Fingerprints of its messages, as its caller wrote them.
        beginning: The beginning of its body, for the next call's.
        splits: Places at which long texts of a conversation's first call are parted.
    """

    request: PlanningRequest
    prompt: Prompt
    fingerprint: Fingerprint
    chain: ConversationChain
    resolved: ResolvedConversation
    turns: int
    known: tuple[MessageReading, ...] = ()
    beginning: Beginning = msgspec.field(default_factory=lambda: Beginning(()))
    readings: MessageCache = msgspec.field(default_factory=MessageCache)
    splits: tuple[TextSplits, ...] = ()

    @property
    def conversation(self) -> bytes:
        """The id of its conversation: 16 bytes, the same on every replica."""
        return self.resolved.name

    def stored_keys(self, plan: Plan | None) -> tuple[str, ...]:
        """Keys of what another process may have kept of its conversation, in hex; () for none."""
        resolved = self.resolved
        if not self.turns or (plan is not None and resolved.is_sure):
            return ()
        names = (resolved.name, *filter(None, (resolved.source,)), *self.chain.candidates())
        return tuple(dict.fromkeys(name.hex() for name in names))

    def related_keys(self) -> dict[str, Plan]:
        """The plans that refer to its conversation, by the key (hex) that they are stored under."""
        there = Plan(conversation=self.conversation.hex())
        return {value.hex(): there for value in self.resolved.beside}

    def plan_with_continuation(self, plan: Plan) -> Plan:
        """The plan of its conversation, with how that went on, and where its texts are parted."""
        if plan.is_planned and not plan.joined:
            plan = msgspec.structs.replace(plan, splits=more_splits(plan.splits, self.splits))
        if plan.onward or self.resolved.begins:
            return plan
        ends = (self.chain.whole, next(self.chain.latest_answers(), b""))
        return msgspec.structs.replace(plan, onward=tuple(one.hex() for one in ends))

    def with_splits(self, texts: SeenTexts) -> "Draft":
        """The draft with the places at which its texts are parted, where it has no answer yet.

        If it holds what another call said, with more in one text, it goes on from that call.

        Adds its own texts to those seen.
        """
        if self.turns or self.request.origin is not None:
            return self
        splits, name, values = [], self.conversation, self.chain.values
        for group in text_groups(self.known):
            text = self._longest_text(texts, group)
            if text is None:
                continue
            before = values[max(0, len(values) - 1 - len(self.known) + text.message)]
            start = hash((self.request.feature, text.grows))
            seen_text = texts.split(start, text, TextOwner(before, name))
            if seen_text.splits or not (text.grows or text.is_last):
                splits.append(TextSplits(text.message, text.part, seen_text.splits))
            name = seen_text.owner.conversation if text.grows else name
        resolved = self.resolved
        if name != self.conversation:
            resolved = ResolvedConversation(name=name, is_sure=False)
        return msgspec.structs.replace(self, splits=tuple(splits), resolved=resolved)

    def _longest_text(self, texts: SeenTexts, group: tuple[int, ...]) -> LongText | None:
        """The longest text of some messages; its words are left out where they were seen."""
        key = hash((group, *[self.prompt.messages[index] for index in group]))
        text = texts.longest.get(key)
        if text is None or not texts.knows(hash((self.request.feature, text.grows)), text.digest):
            text = longest_text(self.prompt, group)
            if text is not None:
                texts.longest.put(key, text._replace(words=b""))
        return text

    def without_words(self) -> "Draft":
        """The draft without its words, for what need not hold them while it waits."""
        request = msgspec.structs.replace(self.request, body=b"", split=None, origin=None)
        return msgspec.structs.replace(self, request=request, prompt=Prompt(fields={}, messages=()))


class UnmodifiedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call as it would have been sent unmodified, had all calls been."""

    sent: SentCall
    expected: ExpectedRead


class FullyMarkedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call with the marks that its policy asks for, had all calls had theirs.

    Attributes:
        is_live: True if that is what is sent; else it is reckoned alone.
        number: Tells its stake from others; 0 where none of its marks is sent.
        waits: The reason that some of its marks are not sent; "" where all are.
    """

    sent: SentCall
    expected: ExpectedRead
    is_live: bool = False
    number: int = 0
    waits: str = ""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A planned call, as it is sent.

    Attributes:
        body: The chat body; the caller's own where nothing changed.
        plan: Plan of the conversation from now on; more than before where it grew.
        prompt: The prompt as it is sent, without the marks that were added.
        direct: The same call unmodified; None where nothing of it was modified.
        trial: The same call with its marks; None where marks cost nothing or none was asked for.
    """

    draft: Draft
    target: PlanningTarget
    plan: Plan
    body: bytes
    headers: Mapping[str, str] = {}
    prompt: Prompt
    evidence: CallEvidence
    notes: tuple[str, ...] = ()
    direct: UnmodifiedCall | None = None
    trial: FullyMarkedCall | None = None

    @property
    def place(self) -> LayoutScope:
        """Scope of its layout."""
        return layout_place(self.draft.request, self.target.model)

    def segments(self, total: int = 0) -> PromptSegments:
        """Sizes of the segments of the prompt that is sent, and its cache marks.

        ``total`` is the provider's count of its tokens; 0 where it did not count.
        """
        call, scale = self.evidence.sent, self.evidence.expected.scale
        tokens_of = (scale.with_total(total) if total else scale).tokens_of
        ends, heads = call.ends, call.blocks[: call.block_ranges.heads.stop]
        stable = tokens_of(ends[sum(block.slot is PromptSlot.STABLE for block in heads)])
        leading, whole = tokens_of(ends[len(heads)]), tokens_of(call.size)
        marks = (
            CacheMark(tokens_of(ends[block + 1]), ttl) for block, ttl in sorted(call.marks.items())
        )
        return PromptSegments(
            stable=stable,
            semi_stable=leading - stable,
            variable=whole - leading,
            marks=tuple(islice(marks, _MAX_MARKS)),
        )


class Passthrough(msgspec.Struct, frozen=True):
    """A call that is sent unmodified.

    Attributes:
        why: Reason for the caller; "" where nothing was to be planned.
        reason: A code for why nothing was to be planned, for its receipt; "" where ``why`` tells.
    """

    why: str = ""
    reason: str = ""


def layout_place(request: PlanningRequest, model: str) -> LayoutScope:
    """Scope of a call's layout: its team's feature on the model's family."""
    return _layout_scope(request.team, request.feature, model)


@lru_cache(_MAX_SCOPES)
def _layout_scope(team: str, feature: str, model: str) -> LayoutScope:
    return LayoutScope(team, feature, model_family(model))
