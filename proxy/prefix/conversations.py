"""Finds the conversation a call belongs to, and holds this process's state of it; pure.

::

    first call          c₁               a new conversation, named by the chain of that call
    the same again      c₁               the same one: a retry, or nothing tells two apart yet
    it goes on          c₁ answer … c₂   its chain holds the latest call's
    changed in between                   it answers the latest call's last answer
    another goes on     c₁ answer' … c₃  a fork: one of its own, which inherits the plan

It holds fingerprints only.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from math import inf
from typing import Any, Final

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.plan import SEVERAL, Plan
from proxy.prefix.prediction.sent_call import (
    PromptEnding,
    PromptStart,
    SentCall,
    digest_end,
)
from proxy.prefix.prompts.conversation import ConversationChain
from proxy.records.lru_cache import LruCache

#: Bytes of a value with its conversation, and of a conversation's latest call, as measured.
_VALUE_BYTES: Final = 130
_LATEST_BYTES: Final = 220
#: Bytes of a conversation's state, and of each tool and each place of a parted text in its plan.
_STATE_BYTES: Final = 2_400
_TOOL_BYTES: Final = 100
_SPLIT_BYTES: Final = 36
#: Calls of a conversation that are compared with the next one.
_MAX_COMPARED_CALLS: Final = 4
#: Openings of its calls that are remembered; several agents may speak in one conversation.
_MAX_STARTS: Final = 12
#: Stands for more than one conversation.
_SEVERAL: Final = b""
#: Places from the latest back where a first call may have ended otherwise than it is sent now.
_MAX_CHANGED_PLACES: Final = 2


class ConversationState(msgspec.Struct):
    """A conversation.

    Attributes:
        points: Stand for what later calls may repeat of the latest calls; an agent and its
            helpers may take turns.
        tokens: Tokens of its last call; by estimate, where none were counted.
        lost: Expected cost of its calls with its layout over that of the same calls unmodified, in
            fresh tokens.
        open_call: The number of its latest call while that waits to be judged; 0 for none.
    """

    plan: Plan | None = None
    calls: int = 0
    latest: float = 0.0
    tokens: int = 0
    turns: int = 0
    points: tuple[int, ...] = ()
    openings: tuple[PromptStart, ...] = ()
    endings: tuple[PromptEnding, ...] = ()
    lost: float = 0.0
    open_call: int = 0
    size: int = _STATE_BYTES

    def adopt_plan(self, plan: Plan) -> int:
        """Take over what was decided for it; returns how many bytes more it takes."""
        if self.plan is not None and plan.replaced != self.plan.replaced:
            self.lost = 0.0
        before, self.plan = self.size, plan
        places = sum(1 + len(splits.ends) for splits in plan.splits)
        self.size = _STATE_BYTES + _TOOL_BYTES * len(plan.tools) + _SPLIT_BYTES * places
        return self.size - before

    def lost_tokens(self, regime: Regime, now: float) -> float:
        """Fresh tokens lost with its layout; infinite where a cache holds nothing of it by now."""
        is_cold = now - self.latest > max(regime.lifetimes.values(), default=inf)
        return inf if is_cold else self.lost

    def fork(self) -> "ConversationState":
        """A conversation that parts from this one: the same past, and no call to be judged."""
        branch = copy(self)
        branch.open_call = 0
        return branch

    def record_call(self, call: SentCall, now: float, *, tokens: int, turns: int) -> None:
        """A call of it was answered."""
        self.calls += 1
        self.latest = max(self.latest, now)
        self.tokens = tokens
        self.turns = turns
        end = call.repeatable_blocks
        self.points = (*self.points[1 - _MAX_COMPARED_CALLS :], call.points[end])
        start = call.start
        if self.openings and self.openings[-1] == start:
            start = self.openings[-1]  # one object for all that are alike
        self.openings = (*self.openings[1 - _MAX_STARTS :], start)
        self.endings = (*self.endings[1 - _MAX_COMPARED_CALLS :], digest_end(call))


class ResolvedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation of a call.

    Attributes:
        source: The one that it began as, and parted from with this call; b"" for none.
        begins: True if nothing is known of it before this call, or it is one that is sent again.
        is_sure: True if no other process can know better.
        is_changed: True if its end was changed since, so that it was told by less than all of it.
        beside: The values of its first call without the last messages, where this is that and no
            others are known to share them.
    """

    name: bytes
    source: bytes = b""
    begins: bool = False
    is_sure: bool = True
    is_changed: bool = False
    beside: tuple[bytes, ...] = ()


class _LatestCall(msgspec.Struct, frozen=True, gc=False):
    """The latest call of a conversation.

    Attributes:
        length: Number of messages it had; 0 where none was seen here.
        first: The value of the conversation's first call that was seen here.
        answer: The key of its last answer; b"" for none.
        onward: First continuation of the conversation, as another process saw it.
        changes: True if its ends are known to change.
    """

    length: int = 0
    whole: bytes = b""
    first: bytes = b""
    answer: bytes = b""
    answers: int = 0
    onward: tuple[bytes, ...] = ()
    changes: bool = False

    @property
    def has_second_call(self) -> bool:
        """True if a second call of the conversation was seen here."""
        return self.whole != self.first


_NO_CALL: Final = _LatestCall()


class Conversations:
    """The conversations of one process."""

    def __init__(self) -> None:
        self._whole: LruCache[bytes, bytes] = LruCache(entry_bytes=_VALUE_BYTES)
        self._shortened: LruCache[bytes, bytes] = LruCache(entry_bytes=_VALUE_BYTES)
        self._answers: LruCache[bytes, bytes] = LruCache(entry_bytes=_VALUE_BYTES)
        self._latest: LruCache[bytes, _LatestCall] = LruCache(entry_bytes=_LATEST_BYTES)
        self.indexes: Sequence[LruCache[bytes, Any]] = (
            self._whole,
            self._shortened,
            self._answers,
            self._latest,
        )

    def resolve(self, chain: ConversationChain) -> ResolvedConversation:
        """The conversation that a call with this chain belongs to."""
        same = self._whole.get(chain.whole)
        if same is not None:
            return ResolvedConversation(name=same, begins=True)
        name, source = self._find_by_place(chain)
        if name:
            return ResolvedConversation(name=name, is_sure=self._latest_call(name).has_second_call)
        name, other = self._find_by_answer(chain)
        if name:
            return ResolvedConversation(
                name=name, is_sure=self._latest_call(name).changes, is_changed=True
            )
        name, last = self._find_by_first_call(chain)
        if name:
            return ResolvedConversation(name=name, is_sure=False, is_changed=True)
        source = source or other or last
        return ResolvedConversation(
            name=chain.whole,
            source=source,
            begins=True,
            is_sure=not chain.answers,
            beside=tuple(
                [
                    value
                    for value in chain.values_before(len(chain.said))
                    if self._shortened.peek(value) != _SEVERAL
                ]
            ),
        )

    def record_call(self, chain: ConversationChain, resolved: ResolvedConversation) -> None:
        """Remember a call of this conversation."""
        name = resolved.name
        before = self._latest.get(name) or _NO_CALL
        is_again = self._whole.peek(chain.whole) is not None
        self._whole.put(chain.whole, name)
        length = len(chain.said)
        if is_again and before.length > length:
            return  # one that it went on from: an older call that is sent again
        answer = next(chain.latest_answers(), b"")
        if answer:
            _record_value(self._answers, answer, name)
        if chain.whole == name:
            for value in chain.values_before(length):
                _record_value(self._shortened, value, name)
        latest = _LatestCall(
            length=length,
            whole=chain.whole,
            first=before.first or chain.whole,
            answer=answer,
            answers=len(chain.answers),
            onward=before.onward,
            changes=before.changes or resolved.is_changed,
        )
        self._latest.put(name, latest)

    def load_plans(self, stored_plans: Mapping[str, Plan]) -> None:
        """Take over what other processes kept, by the values (hex) that they kept it under."""
        for name, plan in stored_plans.items():
            value = bytes.fromhex(name)
            if not plan.conversation:
                if self._whole.peek(value) is None:
                    self._whole.put(value, value)
                onward = tuple(map(bytes.fromhex, plan.onward))
                latest = msgspec.structs.replace(self._latest_call(value), onward=onward)
                self._latest.put(value, latest)
            elif plan.conversation != SEVERAL:
                _record_value(self._shortened, value, bytes.fromhex(plan.conversation))

    def _find_by_place(self, chain: ConversationChain) -> tuple[bytes, bytes]:
        """The conversation that went up to where an answer stands, or the one it parts from."""
        for place in chain.places:
            name = self._whole.get(chain.values[place])
            if name is not None:
                latest = self._latest.get(name) or _NO_CALL
                holds_it = not latest.length or chain.holds(latest.whole, latest.length)
                is_next = holds_it and _may_go_on(chain, latest)
                return (name, b"") if is_next else (b"", name)
        return b"", b""

    def _latest_call(self, name: bytes) -> _LatestCall:
        return self._latest.peek(name) or _NO_CALL

    def _find_by_answer(self, chain: ConversationChain) -> tuple[bytes, bytes]:
        """The conversation whose latest answer it answers, or the one it parts from there."""
        for key in chain.latest_answers():
            name = self._answers.get(key)
            latest = self._latest.peek(name) if name else None
            if name and latest is not None and latest.answer == key:
                is_next = latest.answers < len(chain.answers) and _may_go_on(chain, latest)
                return (name, b"") if is_next else (b"", name)
        return b"", b""

    def _find_by_first_call(self, chain: ConversationChain) -> tuple[bytes, bytes]:
        """The conversation whose first call it goes on from but for a few messages, or parts from.

        It lacks them, or has as many others in their place. A beginning that many conversations
        share is none of theirs alone.
        """
        source = b""
        for place in list(chain.places)[:_MAX_CHANGED_PLACES]:
            for changed, value in enumerate((chain.values[place], *chain.values_before(place))):
                name = self._shortened.get(value) or b""
                latest = self._latest_call(name)
                left = latest.length - (place - changed) if latest.length else changed
                is_first = not latest.has_second_call and changed in (0, left)
                if name and is_first and _may_go_on(chain, latest):
                    return name, b""
                source = source or name
        return b"", source


def _may_go_on(chain: ConversationChain, latest: _LatestCall) -> bool:
    """True if no other process saw the conversation go on otherwise before it did here."""
    if latest.has_second_call or not latest.onward:
        return True
    whole, answer = latest.onward
    return chain.goes_on_from(whole, answer)


def _record_value(among: LruCache[bytes, bytes], value: bytes, name: bytes) -> None:
    """Note that a conversation has this value, or that several do."""
    earlier_name = among.get(value)
    among.put(value, name if earlier_name in (None, name) else _SEVERAL)
