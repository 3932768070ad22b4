"""Cache keys of coding agents: one for the sessions of a team in place of one for each.

Codex sends a key of its own with every session, and from GPT-5.6 on a key parts what is stored. Of
recognised agents alone the key is replaced, where their prompts begin alike; any other caller's
stays. Which sessions share a key is decided so that a busy one is never dearer:

::

    first call of a session ─┬─ key without a session that may call ────────▶ shared key
                             ├─ calls fit, and savings cover the risk ──────▶ shared key
                             ├─ calls fit, all sessions were short, and
                             │  one prompt fits the stake ──▶ shared key for its first three calls
                             └─ else ───────────────────────────────────────▶ caller's own key

A session keeps the key that it began with: its cache stands there. One that joined on the stake
goes on with its own from the fourth call on: it then writes its prompt anew, of which it saved the
shared part before. Beyond some 15 calls a minute of one key, other machines may take over, and each
begins cold. Whether that holds from GPT-5.6 on is not published, so sessions share a key only while
their busiest minutes fit together. All costs are in uncached tokens.

Source: captured calls of Codex 0.171 (2026-11); OpenAI, prompt caching guide, routing (2026-09);
Azure OpenAI, prompt caching (2026-08).
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from proxy.caches.regime import Regime, prompt_cost
from proxy.prefix.arrangement import ArrangedPrompt
from proxy.prefix.breakpoints.account import DEFAULT_STAKE
from proxy.prefix.breakpoints.placement import is_cacheable_length
from proxy.prefix.planned import Draft, Planned, PlanningTarget
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN, PromptSlot
from proxy.prefix.unmodified import compare_usage
from proxy.records.lru_cache import LruCache
from slo.usage import Usage

SHARED_KEY_NOTE: Final = "the cache key is one that the team's sessions of this agent share"
_KEY: Final = "prompt_cache_key"
#: Caches that a key parts.
_PARTED_BY_KEY: Final = frozenset({"openai-breakpoint"})
_NO_KEYS: Final = frozenset({b"null", b'""'})
#: An answer came as expected if it read so many tenths of what it should have.
_TENTHS_READ: Final = 9
#: Calls a minute of one key that its provider's machine takes.
MAX_CALLS_PER_MINUTE: Final = 15
_MINUTE_S: Final = 60.0
#: Shared keys of one beginning.
_MAX_KEYS: Final = 64
#: Bytes of a beginning besides its sessions, and of a session.
_BEGINNING_BYTES: Final = 2_000
_SESSION_BYTES: Final = 1_100
#: Sessions remembered of one beginning.
_MAX_SESSIONS_EACH: Final = 1_024
#: Latest sessions whose calls count.
_RECENT_SESSIONS: Final = 64
#: Calls of a short session; five of them fit one key.
MAX_CALLS_ON_STAKE: Final = 3
#: Sessions that are on the stake in one minute: each may lose the few messages of its own.
_MAX_SESSIONS_ON_STAKE: Final = 7
#: Seconds without a call after which a session has ended.
_HOLD_S: Final = 300.0
#: Seconds for which no session joins once sharing has lost the stake.
_CLOSED_S: Final = 86_400.0


class SharedKey(NamedTuple):
    """A key in place of a caller's own.

    Attributes:
        key: The key; "" where the caller's stays.
        calls: Calls of a conversation that it is for; 0 for all.
    """

    key: str = ""
    calls: int = 0


class KeyCosts(NamedTuple):
    """Costs of a session's prompts, in uncached tokens.

    Attributes:
        rewrite: Cost of a token that is written instead of read.
        stake: Amount that sharing may lose; one prompt where that is more, 0 for none.
    """

    rewrite: float
    stake: float

    def allowed_loss(self, tokens: int) -> float:
        """The amount that sharing may lose with prompts of so many tokens."""
        return max(self.stake, tokens * self.rewrite) if self.stake else 0.0


class AgentCacheKeys:
    """The cache keys of agents' sessions in one process.

    Args:
        process: Tells this process's keys from those of others: none counts another's calls.
        stake: Amount that sharing keys of one beginning may lose, in the unit of token prices.

    Attributes:
        indexes: All that it remembers.
    """

    def __init__(self, process: bytes = b"", *, stake: float = DEFAULT_STAKE) -> None:
        self._process, self._stake = process, stake
        self._keys = SharedCacheKeys()
        self.indexes = self._keys.indexes

    def choose_key(
        self, draft: Draft, target: PlanningTarget, found: ArrangedPrompt, now: float
    ) -> SharedKey:
        """The key that goes in place of the caller's with the first call of a conversation."""
        session = _session_of(draft, target)
        if not session or not found.plan.shape or draft.turns:
            return SharedKey()
        stable = [block for block in found.bare if block.slot is PromptSlot.STABLE]
        tokens = sum(block.size for block in stable) // BYTES_PER_TOKEN
        if not is_cacheable_length(tokens, target.regime):
            return SharedKey()
        pieces = (b"shared key", self._process, target.model.encode(errors="replace"))
        begins = b"\0".join([*pieces, *(block.digest for block in stable)])
        has_price = target.rates is not None and target.rates.input
        stake = self._stake / target.token_price if has_price else min(1.0, self._stake)
        costs = KeyCosts(_rewrite_price(target.regime), stake)
        return self._keys.choose_key(session, draft.fingerprint(begins).hex(), now, costs)

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


class AgentSession(msgspec.Struct, kw_only=True, eq=False):
    """A session of an agent.

    Attributes:
        costs: Costs of its prompts.
        key: The shared key it has; "" for its caller's own.
        latest: Time of its latest call, in seconds.
        times: Times of its calls within a minute.
        peak: Calls in its busiest minute.
        calls: Number of its calls.
        answers: Answers that its latest call held.
        tokens: Tokens of its longest prompt.
        is_on_stake: True if it joined others that may still call before savings covered its risk.
    """

    costs: KeyCosts
    key: str = ""
    latest: float = 0.0
    times: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=64))
    peak: int = 0
    calls: int = 0
    answers: int = 0
    tokens: int = 0
    is_on_stake: bool = False

    @property
    def shared_key(self) -> SharedKey:
        """The key of a conversation that begins now."""
        return SharedKey(self.key, MAX_CALLS_ON_STAKE if self.key and self.is_on_stake else 0)

    def record_call(self, now: float, answers: int) -> None:
        """Count a call, and those between that another process sent."""
        missed = answers - self.answers if self.times else 1
        count = min(max(1, missed), MAX_CALLS_PER_MINUTE)
        self.latest, self.answers = max(self.latest, now), answers
        self.calls += count
        self.times.extend([now] * count)
        while self.times[0] <= now - _MINUTE_S:
            self.times.popleft()
        self.peak = max(self.peak, len(self.times))


class PromptBeginning:
    """The sessions whose prompts begin alike, and what sharing keys saved them.

    Args:
        name: Beginning of their keys.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._sessions: deque[AgentSession] = deque(maxlen=_MAX_SESSIONS_EACH)
        self._balance = 0.0
        self._longest = 0
        self._closed_until = 0.0
        self._has_lost = False

    def begin_session(self, now: float, costs: KeyCosts) -> AgentSession:
        """A session that begins now, with its key.

        Args:
            now: Seconds since the epoch.
            costs: Costs of its prompts.
        """
        agent_session = AgentSession(costs=costs, latest=now)
        if now >= self._closed_until:
            self._join(agent_session, now)
        self._sessions.append(agent_session)
        return agent_session

    def record_call(self, session: AgentSession, now: float, answers: int) -> None:
        """Count a call of one of its sessions; beyond its calls on the stake, it left its key.

        Args:
            session: The session.
            now: Seconds since the epoch.
            answers: Answers that the call holds.
        """
        session.record_call(now, answers)
        if session.key and session.is_on_stake and answers >= MAX_CALLS_ON_STAKE:
            session.key = ""
            self._record_saving(session, -session.tokens * session.costs.rewrite, now)

    def record_answer(self, session: AgentSession, tokens: int, saved: float, now: float) -> None:
        """Learn from an answered call of one of its sessions.

        Args:
            session: The session.
            tokens: Tokens of its prompt.
            saved: Cost that a shared key saved of it; less than 0 where it cost more.
            now: Seconds since the epoch.
        """
        session.tokens = max(session.tokens, tokens)
        self._longest = max(self._longest, tokens)
        if session.key and saved:
            self._record_saving(session, saved, now)

    def _record_saving(self, session: AgentSession, saved: float, now: float) -> None:
        self._balance += saved
        if self._balance < -self._allowed_loss(session.costs):
            self._closed_until, self._balance, self._has_lost = now + _CLOSED_S, 0.0, True

    def _allowed_loss(self, costs: KeyCosts) -> float:
        return 0.0 if self._has_lost else costs.allowed_loss(self._longest)

    def _join(self, session: AgentSession, now: float) -> None:
        """Give a session the first shared key that has room; none where that is too risky."""
        recent = list(self._sessions)[-_RECENT_SESSIONS:]
        open_sessions = [one for one in self._sessions if one.key and now - one.latest <= _HOLD_S]
        are_short = all(one.calls <= MAX_CALLS_ON_STAKE for one in recent)
        top = max((one.peak for one in recent), default=0)
        peak = MAX_CALLS_ON_STAKE if are_short else top + 1
        for number in range(_MAX_KEYS):
            key = f"{self._name}-{number}" if number else self._name
            others = [one for one in open_sessions if one.key == key]
            if not others:
                session.key = key
                return
            if sum(max(one.peak, peak) for one in others) + peak <= MAX_CALLS_PER_MINUTE:
                break
        else:
            return
        prompt = max((one.tokens for one in recent), default=0) * session.costs.rewrite
        is_covered = 0.0 < prompt * len(open_sessions) <= self._balance
        allowed = self._allowed_loss(session.costs)
        active = [one for one in open_sessions if now - one.latest <= _MINUTE_S]
        if sum(one.is_on_stake for one in active) >= _MAX_SESSIONS_ON_STAKE:
            allowed = 0.0
        if is_covered or (are_short and allowed > 0.0 and prompt <= self._balance + allowed):
            session.key, session.is_on_stake = key, not is_covered


class SharedCacheKeys:
    """The sessions of agents in one process, and the keys they share.

    Attributes:
        indexes: All that is remembered.
    """

    def __init__(self) -> None:
        self._beginnings: LruCache[str, PromptBeginning] = LruCache(entry_bytes=_BEGINNING_BYTES)
        self._sessions: LruCache[bytes, tuple[AgentSession, PromptBeginning]] = LruCache(
            entry_bytes=_SESSION_BYTES
        )
        self.indexes: Sequence[LruCache[Any, Any]] = (self._beginnings, self._sessions)

    def choose_key(self, session: bytes, name: str, now: float, costs: KeyCosts) -> SharedKey:
        """The key that a session shares, which stays what it was until it leaves it.

        Args:
            session: Stands for the session.
            name: Stands for the team, the model and the beginning that its sessions share.
            now: Seconds since the epoch.
            costs: Costs of its prompts.
        """
        session_entry = self._sessions.get(session)
        if session_entry is None:
            begins = self._beginnings.get_or_make(name, lambda: PromptBeginning(name))
            session_entry = begins.begin_session(now, costs), begins
            self._sessions.put(session, session_entry)
        return session_entry[0].shared_key

    def record_call(self, session: bytes, now: float, answers: int) -> None:
        """Count a call of a session, where that is known.

        Args:
            session: Stands for the session.
            now: Seconds since the epoch.
            answers: Answers that the call holds.
        """
        session_entry = self._sessions.get(session)
        if session_entry is not None:
            session_entry[1].record_call(session_entry[0], now, answers)

    def record_answer(self, session: bytes, tokens: int, saved: float, now: float) -> None:
        """Learn from an answered call of a session, where that is known.

        Args:
            session: Stands for the session.
            tokens: Tokens of its prompt.
            saved: Cost that sharing saved of it; less than 0 where it cost more.
            now: Seconds since the epoch.
        """
        session_entry = self._sessions.peek(session)
        if session_entry is not None:
            session_entry[1].record_answer(session_entry[0], tokens, saved, now)
