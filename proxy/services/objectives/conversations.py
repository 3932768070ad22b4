"""The fallback levels of conversations, their keys, and if a switch pays for one."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from operator import attrgetter
from typing import Final

import msgspec

from proxy.calls.eligibility.request_traits import request_traits
from proxy.calls.metering.settlement import likely_prompt_tokens
from proxy.catalog.entries import Route
from proxy.records.call import Call
from slo.price import STANDARD_TERMS, Tariff, call_cost
from slo.usage import Usage

#: Tokens of an answer of unknown length: the median of recorded agents and chats.
_TYPICAL_OUTPUT_TOKENS: Final = 250


class ConversationLevel(msgspec.Struct, frozen=True):
    """The fallback level of a conversation.

    Attributes:
        name: The objective that set the level.
        level: From 1.
        at: The time of the conversation's last call.
    """

    name: str
    level: int
    at: float


class ConversationLevels:
    """Fallback levels by conversation key, those used last kept longest.

    50,000 take 12 MB at most: a key has 16 bytes, and the name is the objective's own.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._levels: OrderedDict[bytes, ConversationLevel] = OrderedDict()

    def __len__(self) -> int:
        """The number of remembered conversations."""
        return len(self._levels)

    def get(self, key: bytes) -> ConversationLevel | None:
        """The conversation's level; None if it is on level 0 or forgotten."""
        return self._levels.get(key)

    def remember(self, key: bytes, level: ConversationLevel) -> None:
        """Set a conversation's level; forgets the one used longest ago if there are too many."""
        self._levels[key] = level
        self._levels.move_to_end(key)
        if len(self._levels) > self._capacity:
            self._levels.popitem(last=False)

    def discard(self, key: bytes) -> None:
        """Forget a conversation's level, if it has one."""
        self._levels.pop(key, None)

    def forget(self, before: float) -> None:
        """Forget conversations whose last call was before this time."""
        while self._levels and next(iter(self._levels.values())).at < before:
            self._levels.popitem(last=False)


def is_bound(call: Call) -> bool:
    """True if only the upstream that stores the earlier answers can answer it."""
    return call.fields is not None and call.fields.needs_kept_state


def is_new(call: Call) -> bool:
    """True if the call's own messages hold no answer so far.

    In an unknown form, whatever looks like an answer counts as one, so the call is not rerouted.
    """
    return not request_traits(call).is_answered


def conversation_key(call: Call) -> bytes:
    """16 bytes that a conversation's calls share: of its name, else of caller and first messages.

    Unnamed conversations of one caller that begin with the same words share them, too.
    """
    texts = (call.key.team, call.feature, call.end_user, call.conversation)
    parts = [text.encode(errors="replace") for text in texts]
    if not call.conversation:
        parts.append(request_traits(call).first)
    return blake2b(b"\0".join(parts), digest_size=16).digest()


def canary_draw(call: Call) -> float:
    """The call's own number from 0 to below 1, the same on every replica."""
    return int.from_bytes(blake2b(call.id.encode(), digest_size=6).digest(), "big") / 2.0**48


def is_worth_switching(
    call: Call,
    current: Route,
    candidate: Route,
    tariff: Callable[[Route], Tariff | None] = attrgetter("tariff"),
) -> bool:
    """True if the conversation's next call is cheaper at the candidate, cold, than here, warm.

    Later calls do not count, as their number is not known. An unknown price is never worth it.
    """
    tokens = likely_prompt_tokens(call)
    warm = Usage(cache_read=tokens, output=_TYPICAL_OUTPUT_TOKENS)
    cold = Usage(input=tokens, output=_TYPICAL_OUTPUT_TOKENS)
    stay = _nanos(tariff(current), warm, call.arrived)
    switch = _nanos(tariff(candidate), cold, call.arrived)
    return stay is not None and switch is not None and switch < stay


def _nanos(tariff: Tariff | None, usage: Usage, time: float) -> int | None:
    if tariff is None:
        return None
    paid = call_cost(usage, tariff, time, STANDARD_TERMS)
    return None if paid is None else paid.effective_nanos
