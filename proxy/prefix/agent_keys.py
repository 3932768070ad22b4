"""Cache keys of coding agents: one for the sessions of a team in place of one for each.

Codex sends a key of its own with every session, and from GPT-5.6 on a key parts what is stored. Of
recognised agents alone the key is replaced, where their prompts begin alike; any other caller's
stays. Which sessions share a key is decided so that a busy one is never dearer:

::

    first call of a session ─┬─ key without a session that may call ──────────▶ shared key
                             ├─ their calls fit, and savings cover the risk ──▶ shared key
                             └─ else ────────────────────────────────────────▶ caller's own key

A session keeps the key that it began with: its cache stands there. Beyond some 15 calls a minute of
one key, other machines may take over, and each begins cold. Whether that holds from GPT-5.6 on is
not published, so sessions share a key only while their busiest minutes fit together, and while
what one overflow may cost was saved by sharing before. All costs are in uncached tokens.

Source: captured calls of Codex 0.171 (2026-11); OpenAI, prompt caching guide, routing (2026-09);
Azure OpenAI, prompt caching (2026-08).
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from proxy.caches.regime import Regime, prompt_cost
from proxy.prefix.arrangement import ArrangedPrompt
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
#: Latest sessions whose habits count, and the fewest that tell anything.
_HABIT_SESSIONS: Final = 64
_MIN_HABIT_SESSIONS: Final = 4
#: Calls of a session in its busiest minute, and seconds until it has ended, until habits tell.
_ASSUMED_PEAK: Final = 5
_ASSUMED_HOLD_S: Final = 300.0
_MIN_HOLD_S: Final = 120.0
_MAX_HOLD_S: Final = 1_800.0
#: A session may pause for so many times the longest pause before.
_PAUSE_FACTOR: Final = 1.5
#: One session may join without savings to cover it: where all sessions were seen for so long, and
#: make so few calls a minute together.
_MIN_SEEN_S: Final = 120.0
_MAX_CALLS_ON_CREDIT: Final = 5
#: Seconds for which no session joins once sharing has cost more than it saved.
_CLOSED_S: Final = 86_400.0


class AgentCacheKeys:
    """The cache keys of agents' sessions in one process.

    Args:
        process: Tells this process's keys from those of others: none counts another's calls.
        on_credit: True if one session may share a key with another before anything was saved.

    Attributes:
        indexes: All that it remembers.
    """

    def __init__(self, process: bytes = b"", *, on_credit: bool = True) -> None:
        self._process = process
        self._keys = SharedCacheKeys(on_credit=on_credit)
        self.indexes = self._keys.indexes

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


class AgentSession(msgspec.Struct, kw_only=True, eq=False):
    """A session of an agent.

    Attributes:
        key: The shared key it began with; "" for its caller's own.
        latest: Time of its latest call, in seconds.
        times: Times of its calls within a minute.
        peak: Calls in its busiest minute.
        pause: Longest time between two of its calls, in seconds.
        answers: Answers that its latest call held.
        tokens: Tokens of its longest prompt.
        is_covered: True if it joined others that may still call, so that savings cover its risk.
    """

    key: str = ""
    latest: float = 0.0
    times: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=64))
    peak: int = 0
    pause: float = 0.0
    answers: int = 0
    tokens: int = 0
    is_covered: bool = False

    def record_call(self, now: float, answers: int) -> int:
        """Count a call, and those between that another process sent; return how many they are."""
        missed = answers - self.answers if self.times else 1
        count = min(max(1, missed), MAX_CALLS_PER_MINUTE)
        if self.times:
            self.pause = max(self.pause, now - self.latest)
        self.latest, self.answers = max(self.latest, now), answers
        self.times.extend([now] * count)
        _forget_before(self.times, now - _MINUTE_S)
        self.peak = max(self.peak, len(self.times))
        return count


class PromptBeginning:
    """The sessions whose prompts begin alike, and what sharing keys saved them.

    Args:
        name: Beginning of their keys.
        now: Seconds since the epoch.
        on_credit: True if one session may join before anything was saved.
    """

    def __init__(self, name: str, now: float, *, on_credit: bool) -> None:
        self._name = name
        self._since = now
        self._on_credit = on_credit
        self._sessions: deque[AgentSession] = deque(maxlen=_MAX_SESSIONS_EACH)
        self._times: deque[float] = deque(maxlen=64)
        self._balance = 0.0
        self._closed_until = 0.0

    def begin_session(self, now: float, price: float) -> AgentSession:
        """A session that begins now, with the key that it keeps.

        Args:
            now: Seconds since the epoch.
            price: Cost of a token that is written instead of read.
        """
        agent_session = AgentSession(latest=now)
        if now >= self._closed_until:
            self._join(agent_session, now, price)
        self._sessions.append(agent_session)
        return agent_session

    def record_call(self, session: AgentSession, now: float, answers: int) -> None:
        """Count a call of one of its sessions.

        Args:
            session: The session.
            now: Seconds since the epoch.
            answers: Answers that the call holds.
        """
        self._times.extend([now] * session.record_call(now, answers))

    def record_saving(self, saved: float, now: float) -> None:
        """Count what a call with a shared key saved; less than 0 where it cost more."""
        self._balance += saved
        if self._balance < 0.0:
            self._closed_until, self._balance, self._on_credit = now + _CLOSED_S, 0.0, False

    def _join(self, session: AgentSession, now: float, price: float) -> None:
        """Give a session the first shared key that has room; none where that is too risky."""
        recent = list(self._sessions)[-_HABIT_SESSIONS:]
        hold, peak = _hold_seconds(recent), _reserved_peak(recent)
        open_sessions = [one for one in self._sessions if one.key and now - one.latest <= hold]
        for number in range(_MAX_KEYS):
            key = f"{self._name}-{number}" if number else self._name
            others = [one for one in open_sessions if one.key == key]
            reserved = sum(max(one.peak, peak) for one in others)
            if others and reserved + peak > MAX_CALLS_PER_MINUTE:
                continue
            if others and not self._may_risk(open_sessions, recent, now, price):
                return
            session.key, session.is_covered = key, bool(others)
            return

    def _may_risk(
        self,
        open_sessions: Sequence[AgentSession],
        recent: Sequence[AgentSession],
        now: float,
        price: float,
    ) -> bool:
        """True if savings cover one overflow of each session that joined others, and of one more.

        Once, a session may join without: while all make few calls.
        """
        longest = max((one.tokens for one in recent), default=0)
        covered = 1 + sum(one.is_covered for one in open_sessions)
        if longest and self._balance >= longest * price * covered:
            return True
        _forget_before(self._times, now - _MINUTE_S)
        is_calm = now - self._since >= _MIN_SEEN_S and len(self._times) <= _MAX_CALLS_ON_CREDIT
        allowed, self._on_credit = self._on_credit and is_calm, self._on_credit and not is_calm
        return allowed


class SharedCacheKeys:
    """The sessions of agents in one process, and the keys they share.

    Args:
        on_credit: True if one session of each beginning may join before anything was saved.

    Attributes:
        indexes: All that is remembered.
    """

    def __init__(self, *, on_credit: bool = True) -> None:
        self._on_credit = on_credit
        self._beginnings: LruCache[str, PromptBeginning] = LruCache(entry_bytes=_BEGINNING_BYTES)
        self._sessions: LruCache[bytes, tuple[AgentSession, PromptBeginning]] = LruCache(
            entry_bytes=_SESSION_BYTES
        )
        self.indexes: Sequence[LruCache[Any, Any]] = (self._beginnings, self._sessions)

    def choose_key(self, session: bytes, name: str, now: float, price: float) -> str:
        """The key that a session shares; "" for its caller's own. It stays what it was.

        Args:
            session: Stands for the session.
            name: Stands for the team, the model and the beginning that its sessions share.
            now: Seconds since the epoch.
            price: Cost of a token that is written instead of read.
        """
        session_entry = self._sessions.get(session)
        if session_entry is None:
            begins = self._beginnings.get_or_make(
                name, lambda: PromptBeginning(name, now, on_credit=self._on_credit)
            )
            session_entry = begins.begin_session(now, price), begins
            self._sessions.put(session, session_entry)
        return session_entry[0].key

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
        if session_entry is None:
            return
        session_entry[0].tokens = max(session_entry[0].tokens, tokens)
        if session_entry[0].key and saved:
            session_entry[1].record_saving(saved, now)


def _forget_before(times: deque[float], since: float) -> None:
    while times and times[0] <= since:
        times.popleft()


def _reserved_peak(recent: Sequence[AgentSession]) -> int:
    """Calls in a minute that a session may make: a little more than any before made."""
    top = max((one.peak for one in recent), default=0)
    return top + 1 if len(recent) >= _MIN_HABIT_SESSIONS else max(_ASSUMED_PEAK, top)


def _hold_seconds(recent: Sequence[AgentSession]) -> float:
    """Seconds without a call after which a session has ended, by the pauses of others."""
    if len(recent) < _MIN_HABIT_SESSIONS:
        return _ASSUMED_HOLD_S
    longest = max(one.pause for one in recent)
    return min(_MAX_HOLD_S, max(_MIN_HOLD_S, _PAUSE_FACTOR * longest))
