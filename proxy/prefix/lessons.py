"""Learns a layout for each feature's instructions from its calls; decides when it changes."""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from math import inf
from typing import Final, NamedTuple

import msgspec

from proxy.caches.regime import prompt_cost
from proxy.prefix.arrangement import (
    ArrangedPrompt,
    MarkedPrompt,
    arrange_prompt,
    declared_pieces,
    sent_call,
)
from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.layouts.layout import Layout, LayoutMove, find_moves, instructions
from proxy.prefix.layouts.learning import PLAIN_CALLS, FeatureLearner, ProposalTarget
from proxy.prefix.layouts.text_pieces import TextPiece
from proxy.prefix.planned import Draft, Planned, PlanningTarget
from proxy.prefix.prediction.prefix_chains import ExpectedRead
from proxy.prefix.prediction.sent_call import SentCall
from proxy.prefix.prompts.prompt import RANK, Fingerprint, PromptSlot, count_leading_roles
from proxy.records.feature_mode import LayoutScope
from proxy.records.lru_cache import LruCache
from slo.usage import Usage

#: Sets of tools of one feature whose instructions are told apart.
_MAX_TOOL_SETS: Final = 8
#: Lists of tools whose order was undone lately.
_MAX_TOOL_LISTS: Final = 1_024
DEFAULT_BYTES: Final = 32 * 2**20
"""Bytes of all features' learners."""
#: Calls of a feature after each of which it is looked at, calls between two looks up to so many
#: calls, and later.
_EVERY_CALL_UNTIL: Final = 12
_FIRST_CALLS: Final = 50
_FIRST_CALLS_BETWEEN_LOOKS: Final = 5
_CALLS_BETWEEN_LOOKS: Final = 25
#: Seconds between two of the later looks, at least: one takes up to a tenth of a second.
_MIN_LOOK_INTERVAL_S: Final = 2.0
_TOKENS_PER_MILLION: Final = 1_000_000
#: A layout that saves a tenth of what calls cost with another takes its place at once.
_REPLACED_SHARE: Final = 10
#: Price assumed for a feature whose price is unknown, in nano-dollars a token.
_DEFAULT_NANOS_PER_TOKEN: Final = Fraction(1_000)


def is_due(calls: int, elapsed_s: float = inf) -> bool:
    """True if to look at what a feature shows after so many calls: after each of its first.

    ``elapsed_s`` are the seconds since the last look.
    """
    if calls <= _EVERY_CALL_UNTIL:
        return calls >= PLAIN_CALLS
    if calls < _FIRST_CALLS:
        return calls % _FIRST_CALLS_BETWEEN_LOOKS == 0
    return calls % _CALLS_BETWEEN_LOOKS == 0 and elapsed_s >= _MIN_LOOK_INTERVAL_S


class LayoutLearner:
    """Learners of all features, in so many bytes. One thread at a time.

    Beyond them the team that takes most forgets the feature that it used longest ago.
    """

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._known: dict[LayoutScope, LruCache[bytes, FeatureLearner]] = {}
        self._sizes: Counter[LayoutScope] = Counter()
        #: Keys of tools in any order, by those in theirs.
        self._named: LruCache[tuple[Fingerprint, int], bytes] = LruCache(_MAX_TOOL_LISTS)

    def __len__(self) -> int:
        return len(self._known)

    def observe(self, planned: Planned, usage: Usage | None = None) -> None:
        """Learn from a call that was answered, as its caller wrote it.

        Texts whose slots the caller declares are passed over, as when a layout is applied.

        Raises:
            Unplannable: If a message cannot be read.
        """
        draft, now = planned.draft, planned.evidence.now
        first, messages = (
            count_leading_roles(one.role for one in draft.known),
            draft.prompt.messages,
        )
        if not first:
            return
        learner, mark = self._learner_of(planned), hash(messages[:first]) or 1
        if usage is not None:
            learner.record_tokens(planned.evidence.sent.size, usage.prompt_tokens)
            if not planned.plan.layout:
                learner.record_cost(prompt_cost(usage, planned.target.regime))
        begins, history = not draft.turns, sum(map(len, messages[first:]))
        if learner.samples.observe_without_texts(
            draft.conversation, now, first=begins, history=history, mark=mark
        ):
            return
        declared = declared_pieces(draft).moves
        texts = [text for index, text in instructions(draft.prompt) if index not in declared]
        learner.samples.add_call(
            texts, draft.conversation, now, first=begins, history=history, mark=mark
        )
        self._trim(planned.place)

    def proposal(self, planned: Planned, current_layout: Layout | None = None) -> Layout | None:
        """The moves that would pay for a call's feature; None for none, or too little seen.

        They save beside ``current_layout``, the layout in force.
        """
        learners = self._known.get(planned.place)
        if learners is None:
            return None
        rates = planned.target.rates
        rate = rates.input if rates is not None else None
        target = ProposalTarget(
            fresh=_DEFAULT_NANOS_PER_TOKEN if rate is None else Fraction(rate, _TOKENS_PER_MILLION),
            regime=planned.target.regime,
            held_slot=partial(_held_slot, planned.draft, current_layout),
        )
        # In the order of their tools: which was used last must not make it another layout.
        every = [learner for _, learner in sorted(learners.items())]
        calls = sum(learner.calls for learner in every)
        moves: list[LayoutMove] = []
        held_cost, is_early = 0, False
        for learner in every:
            share = Fraction(learner.calls, calls)
            layout = learner.proposal(msgspec.structs.replace(target, fresh=target.fresh * share))
            if layout is not None:
                moves += layout.moves
                held_cost += layout.held_cost
                is_early = is_early or layout.is_early
        if not moves or (current_layout is not None and not any(move.saving for move in moves)):
            return None
        return Layout(moves=_merge_moves(moves), held_cost=held_cost, is_early=is_early)

    def _learner_of(self, planned: Planned) -> FeatureLearner:
        """The one of its feature and tools, in whatever order they come."""
        draft = planned.draft
        tools = draft.prompt.tools
        key = draft.fingerprint, hash(tools)
        named = self._named.get_or_make(
            key, lambda: draft.fingerprint(b"".join(sorted(map(draft.fingerprint, tools))))
        )
        learners = self._known.pop(planned.place, None) or LruCache(_MAX_TOOL_SETS)
        self._known[planned.place] = learners  # in the order of their use
        return learners.get_or_make(
            named,
            lambda: FeatureLearner(
                draft.fingerprint, tools=sum(map(len, tools)), shows=draft.request.shows
            ),
        )

    def _trim(self, place: LayoutScope) -> None:
        """Forget features until all take no more than they may, once one has grown."""
        self._sizes[place] = sum(learner.size_bytes for _, learner in self._known[place].items())
        while self._sizes.total() > self._max_bytes:
            teams: Counter[str] = Counter()
            for scope, size in self._sizes.items():
                teams[scope.team] += size
            team = teams.most_common(1)[0][0]
            oldest = next(scope for scope in self._known if scope.team == team)
            del self._known[oldest], self._sizes[oldest]


class LayoutChange(NamedTuple):
    """The layout of a running conversation, and the one that holds by now; None for none.

    Attributes:
        version: Version of the one that holds; 0 for none.
    """

    held: Layout | None
    current: Layout | None
    version: int


def is_free_change(
    draft: Draft,
    target: PlanningTarget,
    plan: Plan,
    change: LayoutChange,
    expect_read: Callable[[SentCall], ExpectedRead],
    lost: float = 0.0,
) -> bool:
    """True if a call reads no message of its conversation as it is, so another layout costs none.

    What changes per call has cut the conversation off then, or it is cold. Instructions in a new
    order are written once for all conversations, those that begin with it among them. A layout that
    was rolled back is left, too, once the conversation lost more with it than leaving costs: what
    is read no more then.

    ``lost`` is what the conversation lost with its layout, in fresh tokens; infinite where it is
    cold.

    Raises:
        Unplannable: If a message cannot be read.
    """
    earlier, current = (
        arrange_prompt(draft, plan, layout, late=target.late, regime=target.regime)
        for layout in (change.held, change.current)
    )
    if earlier.prompt.messages == current.prompt.messages:
        return False
    call = _unmarked_call(draft, target, earlier)
    expected = expect_read(call)
    if lost == inf or expected.same <= call.block_ranges.messages.start:
        return True
    if plan.layout < change.version:
        return not expected.tokens and not target.takes_marks
    regime, instead = target.regime, expect_read(_unmarked_call(draft, target, current))
    again = expected.stored - instead.stored  # what marks find is not known here
    if not target.takes_marks:
        again = expected.tokens - instead.tokens
    return lost >= again * float(max(regime.writes.values(), default=1) - regime.read)


def _unmarked_call(draft: Draft, target: PlanningTarget, arrangement: ArrangedPrompt) -> SentCall:
    """The call as its cache sees it, with its caller's marks alone."""
    sending = MarkedPrompt(
        prompt=arrangement.prompt, marks=arrangement.given, explicit=False, body=b""
    )
    return sent_call(draft, target, arrangement, sending)


def is_worth_replacing(newer: Layout) -> bool:
    """True if a layout saves so much more than the one in force that it need not wait a day."""
    return newer.saved_nanos * _REPLACED_SHARE >= newer.held_cost and newer.saved_nanos > 0


def _held_slot(draft: Draft, layout: Layout | None, move: LayoutMove) -> PromptSlot:
    """The slot in which a layout puts the text of a move; stable where it leaves it."""
    for had in layout.moves if layout is not None else ():
        if _moved_text(had) == _moved_text(move):
            return had.slot
    here = _leaving_pieces(draft, Layout(moves=(move,)))
    texts = [piece.text for piece in here if piece.text.strip()]
    there = _leaving_pieces(draft, layout) if layout is not None and texts else ()
    slots = [piece.slot for piece in there if texts[0] in piece.text or piece.text in texts[0]]
    return slots[0] if slots else PromptSlot.STABLE


def _leaving_pieces(draft: Draft, layout: Layout) -> list[TextPiece]:
    """The pieces of a call's texts that a layout moves."""
    every = find_moves(draft.prompt, layout, draft.fingerprint).moves.values()
    return [one for pieces in every for one in pieces if one.slot is not PromptSlot.STABLE]


def layout_effect(layout: Layout) -> tuple[tuple[object, ...], ...]:
    """The effect of a layout; equal for layouts that differ in their evidence alone."""
    return tuple((*_moved_text(move), move.slot, move.label) for move in layout.moves)


def layout_digest(layout: Layout) -> str:
    """A digest that is equal for layouts that do the same, whatever their evidence."""
    return blake2b(msgspec.json.encode(layout_effect(layout)), digest_size=16).hexdigest()


def _merge_moves(moves: Sequence[LayoutMove]) -> tuple[LayoutMove, ...]:
    """The moves of several sets of tools as one: of two of the same text, the farther one."""
    moves_by_text: dict[tuple[object, ...], LayoutMove] = {}
    for move in moves:
        had = moves_by_text.setdefault(_moved_text(move), move)
        if RANK[move.slot] > RANK[had.slot]:
            moves_by_text[_moved_text(move)] = move
    labels: Counter[str] = Counter()
    for text, move in moves_by_text.items():
        labels[move.label] += 1
        if labels[move.label] > 1:
            moves_by_text[text] = msgspec.structs.replace(
                move, label=f"{move.label} {labels[move.label]}"
            )
    return tuple(moves_by_text.values())


def _moved_text(move: LayoutMove) -> tuple[object, ...]:
    """The text that a move takes."""
    return move.before, move.after, move.at, move.count, move.of
