"""Plans compaction: decides at each point of a conversation, beginning with its first messages.

::

    point ─ extend suffix ─ cut ─ estimate ─ decision ─┬─ no: goes on unmodified
                                                       └─ segment ─ decision ─ compaction

A longer conversation repeats the decisions of a shorter one that it begins with. So what is sent
stays the beginning of what is sent later, except at a compaction, and no state has to be stored.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import msgspec

from compaction.compacted_part import CompactedPart, PartCompactor, SegmentCache, region_digest
from compaction.conversation_view import ConversationView, step_cut, turn_cut
from compaction.cost_model import (
    CostInputs,
    ShownCut,
    call_savings,
    decide_by_built_segment,
    decide_compaction,
    rewrite_cost,
)
from compaction.facts.segment_fitting import Region, SegmentFitter
from compaction.memory import CompactionState
from compaction.policy import FACTS_MODES, CompactionPolicy
from compaction.reading.message import Count
from compaction.reading.text_analysis_cache import TextAnalyzer, analyze_uncached
from compaction.recall.tool_index import index_text, index_tokens
from compaction.signed_content import ChangeableMessages, changeable_messages, closed_turns_end
from compaction.verbatim_suffix import (
    SuffixContext,
    VerbatimSuffix,
    cut_shown_results,
    extend_suffix,
)

#: Share of a conversation below which a compaction at one point alone splits the last turns, too.
_SMALL_REGION_SHARE: Final = 0.25
#: Maximum share of a target that the last turns may take; where they take more, fewer of them stay.
_MAX_SUFFIX_TARGET_SHARE: Final = 0.3


class CompactionPlanner(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A conversation and what holds for it.

    Attributes:
        policy: Limits of its compaction.
        fixed: Tokens of the tools.
        count: Returns the number of tokens in a text.
        keys: Digests of each beginning of the conversation, from its first message on.
        find: Finds the facts in its texts.
        segments: Segments that were made before.
        scope: Whose conversation it is.
    """

    conversation: ConversationView
    policy: CompactionPolicy
    fixed: int
    count: Count
    keys: Sequence[bytes]
    segments: SegmentCache
    find: TextAnalyzer = analyze_uncached
    scope: bytes = b""

    def initial_state(self) -> CompactionState:
        """The state before the first call."""
        lead = self.conversation.lead
        return CompactionState(suffix=VerbatimSuffix(start=lead, end=lead))

    def states(self, state: CompactionState) -> Iterator[CompactionState]:
        """The states after each compaction, then the state after all calls."""
        points = list(self.conversation.points_after(state.suffix.end))
        for point in points[-1:] if self.policy.once else points:
            before, state = state, self._advance_to(state, point)
            if len(state.parts) > len(before.parts):
                yield state
        yield self._extend_suffix(state, len(self.conversation.messages))

    def _advance_to(self, state: CompactionState, point: int) -> CompactionState:
        """The state at a point."""
        state = self._cut_shown_results(state, point)
        shown = state.suffix.end
        state = self._extend_suffix(state, point)
        raw = self._head_tokens + self.conversation.tokens_between(self.conversation.lead, point)
        before, sent_tokens, prices = state.sent, self._sent_tokens(state), self.policy.prices
        saved = call_savings(prices, state.raw - before, (raw - state.raw) - (sent_tokens - before))
        state = msgspec.structs.replace(
            state,
            calls=state.calls + 1,
            calls_since=state.calls_since + 1,
            bank=state.bank + saved,
            sent=sent_tokens,
            raw=raw,
            shown=shown,
            start=state.start or sent_tokens,
        )
        if self.policy.mode not in FACTS_MODES:
            return state
        if not self._changeable.allows_compaction(point):
            return msgspec.structs.replace(state, decision=self._changeable.refusal(point))
        end = self._cut_index(state, point)
        return self._apply_decision(state, self._cost_inputs(state, end, sent_tokens - before), end)

    def _cut_shown_results(self, state: CompactionState, point: int) -> CompactionState:
        """The state with the long results cut that the last call showed, where that soon pays.

        That is the cheapest moment: hardly anything stands behind them yet.
        """
        prices, conversation = self.policy.prices, self.conversation
        if (
            self.policy.mode not in FACTS_MODES
            or state.sent < prices.min_cut_tokens
            or not self._changeable.allows_compaction(point)
            or conversation.has_signed_between(conversation.last_user_message(point) or 0, point)
        ):
            return state
        shown = max(state.shown, state.suffix.start)
        suffix = cut_shown_results(conversation, state.suffix, shown, self.count)
        cut = ShownCut(
            ahead=state.sent - state.suffix.tokens_from(conversation, shown),
            before=state.sent,
            after=state.sent - state.suffix.tokens + suffix.tokens,
        )
        if not cut.pays(prices, state.bank, state.calls):
            return state
        bank = state.bank - cut.cost(prices)
        return msgspec.structs.replace(
            state, suffix=suffix, sent=cut.after, bank=bank, cut_at=point
        )

    def _apply_decision(
        self, state: CompactionState, inputs: CostInputs, end: int
    ) -> CompactionState:
        """The state with the part up to a cut compacted, if that is due.

        The segment takes long to build: first its likely size has to speak for it.
        """
        decision = decide_compaction(self.policy, inputs)
        if decision.is_due and not self.policy.force:
            inputs = msgspec.structs.replace(inputs, regrowth=self._suffix_regrowth(state, end))
            decision = decide_compaction(self.policy, inputs)
        if not decision.is_due:
            return msgspec.structs.replace(state, decision=decision)
        compactor = self._part_compactor(state, end)
        if not (self.policy.force or self.policy.target):
            inputs = msgspec.structs.replace(inputs, segment=compactor.likely_tokens())
            decision = decide_compaction(self.policy, inputs)
            if not decision.is_due:
                return state.after_vain_try(inputs, decision)
        return self._compact_part(state, inputs, compactor)

    def _compact_part(
        self, state: CompactionState, inputs: CostInputs, compactor: PartCompactor
    ) -> CompactionState:
        """The state with a part compacted, if that is due by the size of its segment."""
        target = self.policy.target - self._tokens_after_point(state)
        max_tokens = target - inputs.fixed - inputs.earlier_segments - inputs.tail
        part = compactor.part_within(max_tokens) if self.policy.target else compactor.part()
        state = state.with_segment(inputs.region, part.tokens)
        after = self._after_compaction(state, part)
        regrowth = after.suffix.tokens - inputs.tail
        likely = inputs
        inputs = msgspec.structs.replace(inputs, segment=part.tokens, regrowth=regrowth)
        decision = decide_by_built_segment(self.policy, inputs, likely)
        if not decision.is_due:
            return state.after_vain_try(inputs, decision)
        prices = self.policy.prices
        saved = prices.read * inputs.gain - rewrite_cost(prices, inputs)
        over = after.sent - target
        if self.policy.target and over > 0:
            # What comes back in the suffix may not have been reckoned with.
            less = compactor.part_within(min(max_tokens, part.tokens) - over)
            after = after if less.segment is part.segment else self._after_compaction(state, less)
        last = msgspec.structs.replace(after.parts[-1], reason=decision.reason)
        parts = (*after.parts[:-1], last)
        return msgspec.structs.replace(
            after, parts=parts, decision=decision, bank=state.bank + saved
        )

    @cached_property
    def _changeable(self) -> ChangeableMessages:
        """The messages that signed content lets change."""
        return changeable_messages(self.conversation, self.policy)

    def _suffix_regrowth(self, state: CompactionState, end: int) -> int:
        """The least number of tokens by which the suffix behind a cut would grow if rebuilt.

        A result that only points to an earlier one is sent whole once that one is compacted.
        """
        start = state.suffix.start
        before = SuffixContext(
            text=lambda: (
                self.text_before_suffix(state) + self.conversation.words_between(start, end)
            ),
            changeable=self._changeable,
        )
        tail = extend_suffix(
            self.conversation,
            state.suffix.rebuilt_from(end),
            state.suffix.end,
            self.count,
            before,
            find=self.find,
        )
        return tail.tokens - state.suffix.tokens_from(self.conversation, end)

    def _tokens_after_point(self, state: CompactionState) -> int:
        """Tokens behind the only point there is; 0 where others may come."""
        end = len(self.conversation.messages)
        return self.conversation.tokens_between(state.suffix.end, end) if self.policy.once else 0

    def _after_compaction(self, state: CompactionState, part: CompactedPart) -> CompactionState:
        """The state right after a compaction; the suffix is rebuilt, for it is written anew."""
        end = part.segment.end
        tail = state.suffix.rebuilt_from(end)
        after = msgspec.structs.replace(state, parts=(*state.parts, part), suffix=tail)
        after = self._extend_suffix(after, part.at)
        sent_tokens = self._sent_tokens(after)
        return msgspec.structs.replace(
            after, calls_since=0, start=sent_tokens, sent=sent_tokens, failed=0
        )

    def _extend_suffix(self, state: CompactionState, point: int) -> CompactionState:
        """The state with the messages up to a point in the suffix.

        Results stay whole until the prompt is long enough for its cache.
        """
        before = SuffixContext(
            text=lambda: self.text_before_suffix(state),
            above=self.policy.prices.min_trim_tokens
            - self._sent_tokens(state)
            + state.suffix.tokens,
            least=0 if state.parts else self.policy.prices.coarse_step_tokens,
            changeable=self._changeable,
        )
        tail = extend_suffix(
            self.conversation, state.suffix, point, self.count, before, find=self.find
        )
        return msgspec.structs.replace(state, suffix=tail)

    def prefix_key(self, end: int) -> bytes:
        """The key of the prefix up to a message."""
        return self.keys[end - 1]

    def text_before_suffix(self, state: CompactionState) -> str:
        """The text of all that is sent before the suffix."""
        messages = self.conversation.messages
        lead = [message.text for message in messages[: self.conversation.lead]]
        for part in state.parts:
            lead.append(part.segment.text)
            lead += [messages[index].text for index in part.kept]
        return "\n".join(lead) + "\n"

    @property
    def _head_tokens(self) -> int:
        """Tokens before the conversation."""
        return self.fixed + self.conversation.cumulative_tokens[self.conversation.lead]

    def _sent_tokens(self, state: CompactionState) -> int:
        return self._head_tokens + sum(part.tokens for part in state.parts) + state.suffix.tokens

    def _cut_index(self, state: CompactionState, point: int) -> int:
        """The end of the part to compact; fewer turns stay where a target asks for it."""
        ahead = self._sent_tokens(state) - state.suffix.tokens + self._tokens_after_point(state)
        keep = max(self.policy.keep_turns, 1)
        end = self._cut_index_keeping(state, point, keep)
        most = _MAX_SUFFIX_TARGET_SHARE * self.policy.target - ahead
        while keep > 1 and self.policy.target:
            if state.suffix.tokens_from(self.conversation, end) <= most:
                break
            keep -= 1
            end = self._cut_index_keeping(state, point, keep)
        return end

    def _cut_index_keeping(self, state: CompactionState, point: int, keep: int) -> int:
        end = self._unsigned_cut_index(state, point, keep)
        start, drops = state.suffix.start, self.policy.drops_signed
        return closed_turns_end(self.conversation, start, end, point) if drops else end

    def _unsigned_cut_index(self, state: CompactionState, point: int, keep: int) -> int:
        """The cut where nothing is signed."""
        start = state.suffix.start
        end = turn_cut(self.conversation, point, start, keep)
        if self.policy.once and self.conversation.tokens_between(
            start, end
        ) < _SMALL_REGION_SHARE * self.conversation.tokens_between(start, point):
            return max(end, step_cut(self.conversation, point, start, keep))
        short = self.policy.force and not self.policy.once
        if short and self.conversation.tokens_between(start, end) < self.policy.least:
            return start
        return end

    def _cost_inputs(self, state: CompactionState, end: int, fresh: int) -> CostInputs:
        behind = state.suffix.tokens_from(self.conversation, end)
        region = state.suffix.tokens - behind
        grew = (state.sent - state.start) / max(1, state.calls_since - 1)
        return CostInputs(
            calls=state.calls,
            calls_since=state.calls_since,
            fixed=self._head_tokens,
            earlier_segments=sum(part.tokens for part in state.parts),
            region=region,
            segment=state.likely_segment(region),
            tail=behind,
            fresh=min(fresh, behind),
            growth=grew,
            bank=state.bank,
            failed=state.failed,
            adds_tool=self.policy.is_recalled and not state.parts,
        )

    def _part_compactor(self, state: CompactionState, end: int) -> PartCompactor:
        """Compacts the part up to a cut, read once."""
        start = state.suffix.start
        kept_indexes = self.conversation.standing_messages(start, end, state.suffix.end)
        messages = self.conversation.messages
        units, number = self.conversation.units_between(start, end), len(state.parts) + 1
        index = index_text(number, units) if self.policy.is_recalled else ""
        region = Region(
            messages=messages,
            units=self.conversation.units,
            start=start,
            end=end,
            point=state.suffix.end,
            kept=frozenset(kept_indexes),
            earlier=tuple(part.segment for part in state.parts),
        )
        return PartCompactor(
            fitter=SegmentFitter(region, self.count, self.find),
            key=(self.scope, self.count, region_digest(region)),
            segments=self.segments,
            at=state.suffix.end,
            kept=kept_indexes,
            index=index,
            beside=sum(messages[place].tokens for place in kept_indexes)
            + index_tokens(index, number, self.count),
            sent_tokens=state.suffix.tokens - state.suffix.tokens_from(self.conversation, end),
        )
