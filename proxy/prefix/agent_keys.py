"""Cache keys of coding agents: one for the sessions of a team in place of one for each.

Codex sends a key of its own with every session, and from GPT-5.6 on a key parts what is stored. Of
recognised agents alone the key is replaced, where their prompts begin alike; any other caller's
stays. ``breakpoints.shared_keys`` says when.

Source: captured calls of Codex 0.171 (2026-11); OpenAI, prompt caching guide (2026-09).
"""

from typing import Final

from proxy.caches.regime import Regime, prompt_cost
from proxy.prefix.arrangement import ArrangedPrompt
from proxy.prefix.breakpoints.placement import is_cacheable_length
from proxy.prefix.breakpoints.shared_keys import SharedCacheKeys
from proxy.prefix.planned import Draft, Planned, PlanningTarget
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN, PromptSlot
from proxy.prefix.unmodified import compare_usage
from slo.usage import Usage

SHARED_KEY_NOTE: Final = "the cache key is one that the team's sessions of this agent share"
_KEY: Final = "prompt_cache_key"
#: Caches that a key parts.
_PARTED_BY_KEY: Final = frozenset({"openai-breakpoint"})
_NO_KEYS: Final = frozenset({b"null", b'""'})
#: An answer came as expected if it read so many tenths of what it should have.
_TENTHS_READ: Final = 9


class AgentCacheKeys:
    """The cache keys of agents' sessions in one process.

    Args:
        process: Tells this process's keys from those of others: none counts another's calls.
        on_credit: True if one session may share a key with another before anything was saved.
    """

    def __init__(self, process: bytes = b"", *, on_credit: bool = True) -> None:
        self._process = process
        self._keys = SharedCacheKeys(on_credit=on_credit)

    def choose_key(
        self, draft: Draft, target: PlanningTarget, found: ArrangedPrompt, now: float
    ) -> str:
        """The key that goes in place of the caller's with the first call of a conversation.

        Returns:
            "" where the caller's stays.
        """
        session = _session_of(draft, target)
        if not session or not found.plan.shape or draft.turns:
            return ""
        stable = [block for block in found.bare if block.slot is PromptSlot.STABLE]
        tokens = sum(block.size for block in stable) // BYTES_PER_TOKEN
        if not is_cacheable_length(tokens, target.regime):
            return ""
        pieces = (b"shared key", self._process, target.model.encode(errors="replace"))
        begins = b"\0".join([*pieces, *(block.digest for block in stable)])
        price = _rewrite_price(target.regime)
        return self._keys.choose_key(session, draft.fingerprint(begins).hex(), now, price)

    def record_call(self, draft: Draft, target: PlanningTarget, now: float) -> None:
        """Count a call that is sent, where it is one of an agent's session."""
        if session := _session_of(draft, target):
            self._keys.record_call(session, now, len(draft.chain.answers))

    def record_answer(self, planned: Planned, usage: Usage | None) -> None:
        """Learn from an answered call what sharing its key saved.

        Args:
            planned: The call.
            usage: Usage as counted by its provider; None where it did not.
        """
        session = _session_of(planned.draft, planned.target)
        if not session or usage is None:
            return
        saved = _saved_tokens(planned, usage)
        self._keys.record_answer(session, usage.prompt_tokens, saved, planned.evidence.now)


def _session_of(draft: Draft, target: PlanningTarget) -> bytes:
    """Stands for the session that a call's own key names; b"" for none."""
    if target.regime.name not in _PARTED_BY_KEY:
        return b""
    own = draft.prompt.fields.get(_KEY, b"null").strip()
    if own in _NO_KEYS:
        return b""
    return draft.fingerprint(target.model.encode(errors="replace") + b"\0" + own)


def _rewrite_price(regime: Regime) -> float:
    """The cost of a token that is written instead of read, in uncached tokens."""
    write = min(regime.writes.values(), default=1)
    return float(write) - float(regime.read)


def _saved_tokens(planned: Planned, usage: Usage) -> float:
    """Uncached tokens that sharing the key saved of a call; less than 0 where it cost more.

    A session's first call reads what others wrote. Any may find less than its cache should hold.
    """
    expected, unmodified = compare_usage(planned, usage)
    regime = planned.target.regime
    if usage.cache_read * 10 < expected.cache_read * _TENTHS_READ:
        return min(0.0, float(prompt_cost(expected, regime) - prompt_cost(usage, regime)))
    if planned.draft.turns:
        return 0.0
    return max(0.0, float(prompt_cost(unmodified, regime) - prompt_cost(expected, regime)))
