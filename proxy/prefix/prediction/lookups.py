"""The places where each kind of cache stores prefixes and looks for them, as far as we can know.

Places are counted in blocks from the start: 0 is the empty prefix. The caches' rules in tokens are
in ``proxy.caches``.

A prompt's tokens are known once it was answered; those of its parts are estimated. Near the least
that a cache stores, an estimate says little, and only an answer tells whether a part is kept:
``UnstoredPrefixes`` remembers prefixes that were marked and yet not stored.
"""

from collections.abc import Iterator
from math import inf
from typing import Final

from proxy.caches.regime import Regime
from proxy.prefix.prediction.sent_call import SentCall, TokenScale
from proxy.prefix.prompts.lru_cache import LruCache
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN
from slo.usage import Usage

#: Earlier ends of messages looked up without a mark, and marks looked up.
#: Source: OpenAI, prompt caching guide (2026-09), and the SDK's docstrings (3.52.0, 2026-11).
_MAX_MESSAGE_ENDS: Final = 20
_MAX_LOOKED_UP_MARKS: Final = 80
#: Tokens that choose the machine. Source: OpenAI, prompt caching guide, routing (2025).
_ROUTING_TOKENS: Final = 256
#: Author of an entry; added to the point where it ends.
BY_MARK: Final = 1
BY_RULE: Final = 2
#: The cache in which nothing but what is marked is stored.
_ANTHROPIC: Final = "anthropic-breakpoint"
#: Factor above the minimum at which an estimate may still mean less.
_ESTIMATE_ERROR_FACTOR: Final = 1.4
#: Prefixes kept: 1 MB.
_MAX_PREFIXES: Final = 10_000
#: Seconds after which a prefix is given another chance: it may have been lost, not left out.
_RETRY_AFTER_S: Final = 3600.0


def stores_at_breakpoints(regime: Regime) -> bool:
    """True if what is stored ends at breakpoints; else the longest prefix seen is read."""
    return regime.takes_marks or regime.name == "prefix-unit"


def max_prefix_blocks(sent: SentCall) -> range:
    """Number of blocks a prefix can have, all of them first."""
    return range(len(sent.blocks), 0, -1)


def entry_keys(sent: SentCall, at: int) -> tuple[int, ...]:
    """The keys of entries at the end of a block.

    What no mark wrote is not read where the provider's own choice is switched off.
    """
    point = sent.points[at]
    return (point + BY_MARK,) if sent.explicit else (point + BY_MARK, point + BY_RULE)


def lookup_places(sent: SentCall) -> Iterator[int]:
    """Number of blocks before each place where an entry is looked for."""
    marks = _mark_places(sent)
    if sent.regime.name == "prefix-unit":
        yield from max_prefix_blocks(sent)
    elif sent.regime.name == "openai-breakpoint":
        yield from (at + 1 for at in marks[-_MAX_LOOKED_UP_MARKS:])
        if not sent.explicit:
            ends = sent.implicit_breakpoints
            yield from ends[-_MAX_MESSAGE_ENDS - 1 :]
            yield from ends[:1]
    else:
        for mark in marks:
            yield from _lookup_window(sent, mark)


def written_breakpoints(sent: SentCall, known: int) -> Iterator[tuple[int, str, int]]:
    """Number of blocks before each breakpoint, its lifetime, and who writes it.

    Source: OpenAI, prompt caching guide, implicit mode (2026-09); DeepSeek, context caching
    (2026-11): the whole prompt, and what it shares with an earlier one.

    Args:
        sent: The call.
        known: Number of its blocks that were sent before.
    """
    if sent.regime.name == "prefix-unit":
        yield from ((at, "", BY_RULE) for at in {known, len(sent.blocks)} if at)
        return
    by_rule = sent.regime.name == "openai-breakpoint" and not sent.explicit
    marks = _mark_places(sent)
    for at in marks[max(0, len(marks) - sent.regime.marks + by_rule) :]:
        yield at + 1, sent.marks[at], BY_MARK
    if by_rule:
        last = sent.implicit_breakpoints[-1:]
        yield from ((at, "", BY_RULE) for at in last if at - 1 not in sent.marks)


def _mark_places(sent: SentCall) -> list[int]:
    return sorted(at for at in sent.marks if 0 <= at < len(sent.blocks))


def _lookup_window(sent: SentCall, mark: int) -> range:
    """Number of blocks before each place looked at from a mark, its own first.

    Source: Anthropic, prompt caching, 20-block lookback (2026-08): consecutive tool results are
    one position; on Bedrock they are not.
    """
    width = max(1, sent.regime.lookback)
    least = max(0, mark + 1 - width)
    runs = sent.regime.provider != "bedrock"
    if not runs or not any(block.role == "tool" for block in sent.blocks[least : mark + 1]):
        return range(mark + 1, least, -1)
    first, positions = mark, 1
    while first > 0:
        in_run = sent.blocks[first - 1].role == sent.blocks[first].role == "tool"
        if not in_run and positions >= width:
            break
        positions += not in_run
        first -= 1
    return range(mark + 1, first, -1)


def used_entries(sent: SentCall, live: list[int]) -> list[int]:
    """The live entries that a call uses; the longest stands first and is read."""
    if sent.regime.name == "openai-breakpoint":
        return live
    if sent.regime.name == "prefix-unit":
        return live[:1]
    return [*live[:1], *(at for at in live[1:] if at - 1 in sent.marks)]


def lifetime_s(regime: Regime, ttl: str) -> float:
    """Seconds of a lifetime; the shortest for an unknown one, no end where only room matters."""
    if ttl in regime.lifetimes:
        return regime.lifetimes[ttl]
    return min(regime.lifetimes.values(), default=inf)


def has_stored_nothing(regime: Regime, usage: Usage | None) -> bool:
    """True if the provider says, by the bill for it, that nothing was stored or found."""
    return bool(usage and regime.writes and not usage.cache_write_tokens and not usage.cache_read)


def readable_tokens(sent: SentCall, tokens: int, total: int) -> int:
    """Tokens read of a prefix of so many that is there: whole blocks, and enough of them."""
    if not stores_at_breakpoints(sent.regime):
        tokens = min(tokens, total - 1)
    tokens = max(0, tokens) // sent.regime.block * sent.regime.block
    return tokens if tokens >= sent.regime.least else 0


def machine_key(sent: SentCall) -> int:
    """The key that chooses the machine: the first tokens."""
    scale = sent.scale()
    ends = enumerate(sent.ends)
    at = next((at for at, size in ends if scale.tokens_of(size) >= _ROUTING_TOKENS), -1)
    return sent.points[at]


class UnstoredPrefixes:
    """Prefixes of which an answer said that they are not stored; the least recently noted go first.

    Only those are taken for such whose estimate is near the least.
    """

    def __init__(self) -> None:
        self._until: LruCache[int, float] = LruCache(_MAX_PREFIXES)

    def is_unstored(self, point: int, now: float) -> bool:
        """True if the prefix that ends here is known not to be stored."""
        return (self._until.peek(point) or 0.0) > now

    def record_answer(
        self, sent: SentCall, hit: int, scale: TokenScale, usage: Usage, now: float
    ) -> bool:
        """Learn from an answer; whether a prefix proved not to be stored.

        Args:
            sent: The call.
            hit: Number of blocks before the end of the longest entry that should be there.
            scale: Scale from its bytes to tokens.
            usage: Usage as counted by its provider.
            now: Time at which it was sent, in seconds.
        """
        if sent.regime.name != _ANTHROPIC:
            return False
        doubted: list[int] = []
        if has_stored_nothing(sent.regime, usage):
            doubted = [at + 1 for at in sent.marks if 0 <= at < len(sent.blocks)]
        elif hit and not usage.cache_read:
            doubted = [hit]
        if not all(self._is_near(sent, at, scale) for at in doubted):
            return False  # what is long enough by far was refused, or was lost
        for at in doubted:
            self._until.put(sent.points[at], now + _RETRY_AFTER_S)
        if hit and usage.cache_read:
            self._until.put(sent.points[hit], 0.0)
        return bool(doubted)

    def _is_near(self, sent: SentCall, at: int, scale: TokenScale) -> bool:
        end = sent.ends[at]  # images behind it make the prompt's average too high for it
        tokens = min(scale.tokens_of(end), end // BYTES_PER_TOKEN)
        return tokens < sent.regime.least * _ESTIMATE_ERROR_FACTOR
