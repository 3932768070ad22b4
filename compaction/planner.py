"""The compaction planner: decides call by call from what was said before each.

::

    point ─ newest messages told ─ proof ─ cut ─ guess ─ verdict ─┬─ no: it goes on as it is
                                                                  └─ segment ─ verdict ─ compaction

A longer conversation repeats the decisions of a shorter one that it begins with: so the bytes sent
stay the beginning of what is sent later, but at a compaction, and nothing has to be kept anywhere.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from compaction.conversation_view import ConversationView, step_cut, turn_cut
from compaction.cost_model import (
    CompactionDecision,
    CompactionReason,
    CostInputs,
    call_savings,
    decide_compaction,
    rewrite_cost,
)
from compaction.facts.detail_levels import DetailLadder, Region
from compaction.facts.fact import Segment
from compaction.policy import CompactionMode, CompactionPolicy
from compaction.reading.message import Count, Voice
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.verbatim_suffix import SuffixContext, VerbatimSuffix, extend_suffix

#: What a model found in the part compacted before, by what identifies that part and the new one:
#: the same answer whenever it is asked of the same two.
Notes = Callable[[bytes, bytes], tuple[str, ...]]

#: What a segment takes of what it stands for at best, until one was written.
_INITIAL_SEGMENT_SHARE: Final = 0.15
#: The part of a conversation that hardly shortens it; where no more stands before the last turns,
#: and once is all there is, these are cut between their steps.
_SMALL_REGION_SHARE: Final = 0.15
#: What surrounds a message that is added.
_MESSAGE_TOKENS: Final = 4
_COMPACTING_MODES: Final = frozenset({CompactionMode.FACTS, CompactionMode.FACTS_MODEL})


def no_notes(_before: bytes, _here: bytes) -> tuple[str, ...]:
    """No notes."""
    return ()


class CompactedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A compacted part of a conversation.

    Attributes:
        at: The point where that was decided.
        segment: What is sent in its place.
        kept: Messages of the part that stay messages: those of authority, the request that was
            under way, and a user's that hold more than text.
        tokens: What segment and messages weigh.
        reason: Why it was compacted; None until that is decided.
    """

    at: int
    segment: Segment
    kept: tuple[int, ...]
    tokens: int
    reason: CompactionReason | None = None


class CompactionState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a conversation at a point.

    Attributes:
        calls: Points passed.
        since: Points passed since the last compaction.
        folds: The parts compacted, in order.
        tail: All after them.
        start: Tokens of the whole as it was sent right after the last compaction.
        sent: Tokens of the whole as it was sent at the last point.
        raw: The same, unmodified.
        bank: What shortening has saved, in tokens of uncached input.
        failed: Tokens of the part that was last tried in vain.
        share: What a segment takes of what it stands for, as the last one that was written did.
        verdict: What was decided at the last point.
    """

    tail: VerbatimSuffix
    calls: int = 0
    since: int = 0
    folds: tuple[CompactedPart, ...] = ()
    start: int = 0
    sent: int = 0
    raw: int = 0
    bank: float = 0.0
    failed: int = 0
    share: float = _INITIAL_SEGMENT_SHARE
    verdict: CompactionDecision = CompactionDecision(
        folds=False, reason=CompactionReason.NOTHING_TO_FOLD, break_even=None
    )


class CompactionPlanner(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation and what holds for it.

    Attributes:
        talk: The conversation.
        policy: How it may be compacted.
        fixed: Tokens of the tools.
        count: How tokens are counted.
        notes: What a model found in the part compacted before; it joins the new one.
        keys: What identifies each beginning of the conversation, from its first message on.
        find: What is found in its texts.
    """

    talk: ConversationView
    policy: CompactionPolicy
    fixed: int
    count: Count
    notes: Notes
    keys: Sequence[bytes]
    find: TextAnalyzer = analyze_uncached

    def initial_state(self) -> CompactionState:
        """The state before the first call."""
        lead = self.talk.lead
        return CompactionState(tail=VerbatimSuffix(start=lead, end=lead))

    def state_at_end(self, state: CompactionState) -> CompactionState:
        """The state after all calls."""
        points = list(self.talk.points_after(state.tail.end))
        for at in points[-1:] if self.policy.once else points:
            state = self._advance_to(state, at)
        return self._extend_to_end(state)

    def _advance_to(self, state: CompactionState, at: int) -> CompactionState:
        """The state at a point."""
        state = self._extend_suffix(state, at)
        raw = self._head_tokens + self.talk.tokens_between(self.talk.lead, at)
        before, sent = state.sent, self._sent_tokens(state)
        saved = call_savings(
            self.policy.prices, state.raw - before, (raw - state.raw) - (sent - before)
        )
        state = msgspec.structs.replace(
            state,
            calls=state.calls + 1,
            since=state.since + 1,
            bank=state.bank + saved,
            sent=sent,
            raw=raw,
            start=state.start or sent,
        )
        if self.policy.mode not in _COMPACTING_MODES:
            return state
        end = self._cut_index(state, at)
        return self._apply_decision(state, self._cost_inputs(state, end, sent - before), end)

    def _apply_decision(
        self, state: CompactionState, standing: CostInputs, end: int
    ) -> CompactionState:
        """The state with the part up to a cut compacted, if that is due."""
        found = decide_compaction(self.policy, standing)
        if found.folds and not self.policy.force:
            standing = msgspec.structs.replace(standing, back=self._suffix_regrowth(state, end))
            found = decide_compaction(self.policy, standing)
        if not found.folds:
            return msgspec.structs.replace(state, verdict=found)
        target = self.policy.target - self._tokens_after_point(state)
        most = target - standing.fixed - standing.folded - standing.tail
        folded = self._part_compactor(state, end)
        fold = folded(most)
        share = min(fold.tokens / max(1, standing.region), 1.0)
        state = msgspec.structs.replace(state, share=share)
        after = self._after_compaction(state, fold)
        back = after.tail.tokens - standing.tail
        standing = msgspec.structs.replace(standing, segment=fold.tokens, back=back)
        found = decide_compaction(self.policy, standing)
        if not found.folds:
            failed = (
                standing.region if found.reason is CompactionReason.NO_PROGRESS else state.failed
            )
            return msgspec.structs.replace(state, verdict=found, failed=failed)
        prices = self.policy.prices
        saved = prices.read * standing.gain - rewrite_cost(prices, standing)
        over = after.sent - target
        if self.policy.target and over > 0:
            # What comes back in the suffix may not have been reckoned with.
            less = folded(min(most, fold.tokens) - over)
            after = after if less.segment is fold.segment else self._after_compaction(state, less)
        last = msgspec.structs.replace(after.folds[-1], reason=found.reason)
        folds = (*after.folds[:-1], last)
        return msgspec.structs.replace(after, folds=folds, verdict=found, bank=state.bank + saved)

    def _suffix_regrowth(self, state: CompactionState, end: int) -> int:
        """Tokens by which the suffix behind a cut would be longer told anew, at least.

        A result that is told as the same as an earlier one is told whole where that is compacted.
        """
        start = state.tail.start
        before = SuffixContext(
            text=lambda: self.text_before_suffix(state) + self.talk.words_between(start, end)
        )
        tail = VerbatimSuffix(start=end, end=end)
        tail = extend_suffix(self.talk, tail, state.tail.end, self.count, before, find=self.find)
        return tail.tokens - state.tail.tokens_from(self.talk, end)

    def _tokens_after_point(self, state: CompactionState) -> int:
        """Tokens behind the only point there is; 0 where others may come."""
        end = len(self.talk.messages)
        return self.talk.tokens_between(state.tail.end, end) if self.policy.once else 0

    def _after_compaction(self, state: CompactionState, fold: CompactedPart) -> CompactionState:
        """The state right after a compaction; the suffix is rebuilt, for it is written anew."""
        end = fold.segment.end
        tail = VerbatimSuffix(start=end, end=end)
        after = msgspec.structs.replace(state, folds=(*state.folds, fold), tail=tail)
        after = self._extend_suffix(after, fold.at)
        sent = self._sent_tokens(after)
        return msgspec.structs.replace(after, since=0, start=sent, sent=sent, failed=0)

    def _extend_suffix(self, state: CompactionState, at: int) -> CompactionState:
        """The state with the messages up to a point in the suffix.

        Results stay whole until the prompt is long enough for its cache.
        """
        before = SuffixContext(
            text=lambda: self.text_before_suffix(state),
            above=self.policy.prices.trims - self._sent_tokens(state) + state.tail.tokens,
            least=0 if state.folds else self.policy.prices.spares,
        )
        tail = extend_suffix(self.talk, state.tail, at, self.count, before, find=self.find)
        return msgspec.structs.replace(state, tail=tail)

    def _extend_to_end(self, state: CompactionState) -> CompactionState:
        """The state with the messages behind the last point, where no decision is made."""
        end = len(self.talk.messages)
        return self._extend_suffix(state, end) if state.tail.end < end else state

    def prefix_key(self, end: int) -> bytes:
        """The key of the prefix up to a message."""
        return self.keys[end - 1]

    def text_before_suffix(self, state: CompactionState) -> str:
        """The text of all that is sent before the suffix."""
        messages = self.talk.messages
        lead = [message.text for message in messages[: self.talk.lead]]
        for fold in state.folds:
            lead.append(fold.segment.text)
            lead += [messages[at].text for at in fold.kept]
        return "\n".join(lead) + "\n"

    @property
    def _head_tokens(self) -> int:
        """Tokens before the conversation."""
        return self.fixed + self.talk.cumulative_tokens[self.talk.lead]

    def _sent_tokens(self, state: CompactionState) -> int:
        return self._head_tokens + sum(each.tokens for each in state.folds) + state.tail.tokens

    def _cut_index(self, state: CompactionState, at: int) -> int:
        start, keep = state.tail.start, max(self.policy.keep_turns, 1)
        end = turn_cut(self.talk, at, start, keep)
        if self.policy.once and self.talk.tokens_between(
            start, end
        ) < _SMALL_REGION_SHARE * self.talk.tokens_between(start, at):
            return max(end, step_cut(self.talk, at, start, keep))
        short = self.policy.force and not self.policy.once
        if short and self.talk.tokens_between(start, end) < self.policy.least:
            return start
        return end

    def _cost_inputs(self, state: CompactionState, end: int, fresh: int) -> CostInputs:
        behind = state.tail.tokens_from(self.talk, end)
        region = state.tail.tokens - behind
        grew = (state.sent - state.start) / max(1, state.since - 1)
        return CostInputs(
            calls=state.calls,
            since=state.since,
            fixed=self._head_tokens,
            folded=sum(each.tokens for each in state.folds),
            region=region,
            segment=int(region * state.share),
            tail=behind,
            fresh=min(fresh, behind),
            growth=grew,
            bank=state.bank,
            failed=state.failed,
        )

    def _part_compactor(self, state: CompactionState, end: int) -> Callable[[int], CompactedPart]:
        """Compacts the part up to a cut, read once: to so many tokens, where there is a target."""
        start = state.tail.start
        kept = self._kept_messages(start, end, state.tail.end)
        beside = _MESSAGE_TOKENS + sum(self.talk.messages[at].tokens for at in kept)
        region = Region(
            messages=self.talk.messages,
            units=self.talk.units,
            start=start,
            end=end,
            part=len(state.folds) + 1,
            held=frozenset(kept),
            earlier=tuple(each.segment for each in state.folds),
            notes=self.notes(self.prefix_key(start), self.prefix_key(end)) if state.folds else (),
        )
        ladder = DetailLadder(region, self.count, self.find)

        def folded(most: int) -> CompactedPart:
            segment = ladder.segment_within(max(1, most - beside) if self.policy.target else 0)
            tokens = segment.tokens + beside
            return CompactedPart(at=state.tail.end, segment=segment, kept=kept, tokens=tokens)

        return folded

    def _kept_messages(self, start: int, end: int, at: int) -> tuple[int, ...]:
        """Messages of a part that stay messages of their own."""
        live = self.talk.last_user_message(at)
        return tuple(
            index
            for index in range(start, end)
            if (message := self.talk.messages[index]).voice is Voice.AUTHORITY
            or index == live
            or (message.voice is Voice.USER and not message.whole)
        )
