"""Cache keys of coding agents: one for the sessions of a team in place of one for each.

Codex sends a key of its own with every session, and from GPT-5.6 on a key parts what is stored. Of
recognised agents alone the key is replaced, where their prompts begin alike; any other caller's
stays. Which sessions share a key is decided so that hardly any is dearer:

::

    first call of a session ─┬─ key without a session that may call ──────────▶ shared key
                             ├─ their calls fit, and savings cover the risk ──▶ shared key
                             ├─ their calls fit, all sessions were short,
                             │  and the risk of all that joined fits the stake ▶ shared key
                             └─ else ────────────────────────────────────────▶ caller's own key

A session keeps the key that it began with: to leave it is to write all of its prompt anew. Beyond
some 15 calls a minute of one key, other machines may take over, and each begins cold. OpenAI says
so of models before GPT-5.6, Azure of all. So sessions share a key only while their busiest minutes
fit together, and while savings by sharing, or the stake, cover one overflow of each session that
joined others. All costs are in uncached tokens.

Source: captured calls of Codex 0.171 (2026-11); OpenAI, prompt caching guide, routing (2026-09);
Azure OpenAI, prompt caching (2026-08).
"""

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from proxy.caches.regime import prompt_cost
from proxy.prefix.arrangement import ArrangedPrompt
from proxy.prefix.breakpoints.feature_account import DEFAULT_STAKE
from proxy.prefix.breakpoints.placement import is_cacheable_length
from proxy.prefix.planned import Draft, Planned, PlanningTarget
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN, PromptSlot
from proxy.prefix.unmodified import compare_usage
from proxy.records.lru_cache import LruCache
from proxy.records.mark_account import TeamStake
from slo.usage import Usage

SHARED_KEY_NOTE: Final = "the cache key is one that the team's sessions of this agent share"
_KEY: Final = "prompt_cache_key"
#: It documents the limit of calls for all its models, so nothing is staked there.
_LIMITS_ALL_MODELS: Final = "azure"
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
#: Bytes of a beginning besides its sessions, and of a session there and in the index.
_BEGINNING_BYTES: Final = 2_000
_SESSION_BYTES: Final = 1_100
#: Sessions remembered of one beginning.
_MAX_SESSIONS_EACH: Final = 256
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
#: Most calls of a session that is short: while all are, they join on the stake.
MAX_SHORT_CALLS: Final = 3
#: Seconds for which no session joins once sharing has cost more than it saved.
_CLOSED_S: Final = 86_400.0


class KeyCosts(NamedTuple):
    """Costs of a session that begins, in uncached tokens.

    Attributes:
        rewrite: Cost of a token that is written instead of read.
        shared: Tokens that it reads of others where they share a key.
        stake: Amount that sessions may lose together; one prompt where that is more, 0 for none.
    """

    rewrite: float
    shared: int = 0
    prompt: int = 0
    stake: float = 0.0


class AgentCacheKeys:
    """The cache keys of agents' sessions in one process.

    Args:
        process: Tells this process's keys from those of others: none counts another's calls.
        stake: Amount that sharing with one beginning may lose, in the unit of token prices.
    """

    def __init__(
        self, process: bytes = b"", stake: float = DEFAULT_STAKE, team: TeamStake | None = None
    ) -> None:
        self._process, self._stake, self.team = process, stake, team or TeamStake()
        self._keys = SharedCacheKeys()
        self.indexes = self._keys.indexes

    def choose_key(
        self, draft: Draft, target: PlanningTarget, arrangement: ArrangedPrompt, now: float
    ) -> str:
        """The key in place of the caller's in a conversation's first call; "" where that stays."""
        session = _session_of(draft, target)
        if not session or not arrangement.plan.shape or draft.turns:
            return ""
        stable = [block for block in arrangement.bare if block.slot is PromptSlot.STABLE]
        tokens = sum(block.size for block in stable) // BYTES_PER_TOKEN
        if not is_cacheable_length(tokens, target.regime):
            return ""
        pieces = (b"shared key", self._process, target.model.encode(errors="replace"))
        begins = b"\0".join([*pieces, *(block.digest for block in stable)])
        costs = KeyCosts(
            rewrite=float(min(target.regime.writes.values(), default=1) - target.regime.read),
            shared=tokens,
            prompt=sum(block.size for block in arrangement.bare) // BYTES_PER_TOKEN,
            stake=self._staked_tokens(target, now),
        )
        return self._keys.choose_key(session, draft.fingerprint(begins).hex(), now, costs)

    def _staked_tokens(self, target: PlanningTarget, now: float) -> float:
        """Uncached tokens that sessions with one beginning may lose; 0 without a known price."""
        has_price = target.rates is not None and target.rates.input
        if not has_price or target.regime.provider == _LIMITS_ALL_MODELS:
            return 0.0
        return self._stake / target.token_price if self.team.allows(self._stake, now) else 0.0

    def record_call(self, draft: Draft, target: PlanningTarget, now: float) -> None:
        """Count a call that is sent, where it is one of an agent's session."""
        if session := _session_of(draft, target):
            self._keys.record_call(session, now, len(draft.chain.answers))

    def record_answer(self, planned: Planned, usage: Usage | None) -> None:
        """Learn from an answered call what sharing its key saved."""
        session = _session_of(planned.draft, planned.target)
        if not session or usage is None:
            return
        saved, now = _saved_tokens(planned, usage), planned.evidence.now
        lost = self._keys.record_answer(session, usage.prompt_tokens, saved, now)
        self.team.record(lost * planned.target.token_price, now)


def _session_of(draft: Draft, target: PlanningTarget) -> bytes:
    """Stands for the session that a call's own key names; b"" for none."""
    if target.regime.name not in _PARTED_BY_KEY:
        return b""
    own = draft.prompt.fields.get(_KEY, b"null").strip()
    if own in _NO_KEYS:
        return b""
    return draft.fingerprint(target.model.encode(errors="replace") + b"\0" + own)


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
        begins: Time of its first call, in seconds.
        tokens: Tokens of its longest prompt.
        key: The shared key it began with; "" for its caller's own.
        peak: Calls in its busiest minute.
        pause: Longest time between two of its calls, in seconds.
        has_joined: True if it joined others that may still call.
        saved: Amount that its first call saved so; before its answer, what it should.
        is_answered: True once its first call was answered.
    """

    begins: float
    tokens: int = 0
    key: str = ""
    latest: float = 0.0
    times: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=64))
    peak: int = 0
    pause: float = 0.0
    calls: int = 0
    answers: int = 0
    has_joined: bool = False
    saved: float = 0.0
    is_answered: bool = False

    def record_call(self, now: float, answers: int) -> None:
        """Count a call, and those between that another process sent."""
        missed = answers - self.answers if self.times else 1
        count = min(max(1, missed), MAX_CALLS_PER_MINUTE)
        if self.times:
            self.pause = max(self.pause, now - self.latest)
        self.latest, self.answers = max(self.latest, now), answers
        self.calls += count
        self.times.extend([now] * count)
        while self.times[0] <= now - _MINUTE_S:
            self.times.popleft()
        self.peak = max(self.peak, len(self.times))

    def record_answer(self, tokens: int, saved: float) -> None:
        """Count an answered call's prompt; before the first, both figures are estimates."""
        if self.is_answered:
            self.tokens = max(self.tokens, tokens)
        else:
            self.tokens, self.saved, self.is_answered = tokens, max(0.0, saved), True


class PromptBeginning:
    """The sessions whose prompts begin alike, and what sharing keys saved them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._sessions: deque[AgentSession] = deque(maxlen=_MAX_SESSIONS_EACH)
        self._balance = 0.0
        self._stake = 0.0
        self._lost_at = -inf
        self._closed_until = 0.0

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes."""
        return _BEGINNING_BYTES + _SESSION_BYTES * len(self._sessions)

    def begin_session(self, now: float, costs: KeyCosts) -> AgentSession:
        """A session that begins now, with the key that it keeps."""
        agent_session = AgentSession(begins=now, latest=now, tokens=costs.prompt)
        if costs.stake and self._lost_at == -inf:  # else what was lost so far stays allowed
            self._stake = max(costs.stake, costs.prompt * costs.rewrite)
        if now >= self._closed_until:
            self._join(agent_session, now, costs)
        self._sessions.append(agent_session)
        return agent_session

    def record_saving(self, session: AgentSession, saved: float, now: float) -> float:
        """Count what a call with a shared key saved; less than 0 where it cost more.

        Of sessions that were under way when the stake was lost, nothing counts any more.

        Returns:
            Amount by which sharing has lost more than before.
        """
        if session.begins <= self._lost_at:
            return 0.0
        before, self._balance = self._balance, self._balance + saved
        lost = max(0.0, -self._balance) - max(0.0, -before)
        if self._balance < -self._stake:
            self._closed_until = now if self._stake else now + _CLOSED_S
            self._lost_at, self._balance, self._stake = now, 0.0, 0.0
        return lost

    def _join(self, session: AgentSession, now: float, costs: KeyCosts) -> None:
        """Give a session the first shared key that has room; none where that is too risky."""
        recent = list(self._sessions)[-_HABIT_SESSIONS:]
        hold, peak = _session_habits(recent, now)
        open_sessions = [one for one in self._sessions if one.key and now - one.latest <= hold]
        for number in range(_MAX_KEYS):
            key = f"{self._name}-{number}" if number else self._name
            peers = [one for one in open_sessions if one.key == key]
            reserved = sum(max(one.peak, peak) for one in peers)
            if peers and reserved + peak > MAX_CALLS_PER_MINUTE:
                continue
            if any(one.is_answered for one in peers):  # else nothing is to be read there yet
                joined = [one for one in open_sessions if one.has_joined]
                session.saved = costs.shared * costs.rewrite
                session.has_joined = self._may_risk([*joined, session], recent, costs)
            session.key = key if session.has_joined or not peers else ""
            return

    def _may_risk(
        self, joined: Sequence[AgentSession], recent: Sequence[AgentSession], costs: KeyCosts
    ) -> bool:
        """True if savings, or the stake while all were short, cover one overflow of each."""
        longest, rewrite = max(one.tokens for one in (*recent, *joined)), costs.rewrite
        if self._balance >= longest * rewrite * len(joined):
            return True
        loss = sum(max(0.0, one.tokens * rewrite - one.saved) for one in joined)
        are_short = all(one.calls <= MAX_SHORT_CALLS for one in recent)
        may_stake = costs.stake > 0.0 and are_short
        return may_stake and loss < self._stake + min(0.0, self._balance)


class SharedCacheKeys:
    """The sessions of agents in one process, and the keys they share; ``indexes`` is all of it."""

    def __init__(self) -> None:
        self._beginnings: LruCache[str, PromptBeginning] = LruCache(
            weigh=lambda begins: begins.size_bytes
        )
        self._sessions: LruCache[bytes, tuple[AgentSession, PromptBeginning]] = LruCache(
            entry_bytes=_SESSION_BYTES
        )
        self.indexes: Sequence[LruCache[Any, Any]] = (self._beginnings, self._sessions)

    def choose_key(self, session: bytes, name: str, now: float, costs: KeyCosts) -> str:
        """The key that a session shares; "" for its caller's own. It stays what it was.

        ``name`` stands for the team, the model and the beginning that its sessions share.
        """
        session_entry = self._sessions.get(session)
        if session_entry is None:
            begins = self._beginnings.get_or_make(name, lambda: PromptBeginning(name))
            before = begins.size_bytes
            session_entry = begins.begin_session(now, costs), begins
            self._beginnings.reweigh(begins.size_bytes - before)
            self._sessions.put(session, session_entry)
        return session_entry[0].key

    def record_call(self, session: bytes, now: float, answers: int) -> None:
        """Count a call of a session that is known; it holds so many answers."""
        session_entry = self._sessions.get(session)
        if session_entry is not None:
            session_entry[0].record_call(now, answers)

    def record_answer(self, session: bytes, tokens: int, saved: float, now: float) -> float:
        """Learn from an answered call of a session, where that is known.

        ``saved`` is less than 0 where sharing cost more.

        Returns:
            Amount by which sharing has lost more than before.
        """
        session_entry = self._sessions.peek(session)
        if session_entry is None:
            return 0.0
        agent_session, begins = session_entry
        agent_session.record_answer(tokens, saved)
        return begins.record_saving(agent_session, saved, now) if agent_session.key else 0.0


def _session_habits(recent: Sequence[AgentSession], now: float) -> tuple[float, int]:
    """Seconds without a call after which a session has ended, and calls a minute that it may make.

    The latter are a little more than any before made. Habits tell once enough sessions began a
    minute ago or before.
    """
    peak = 1 + max((one.peak for one in recent), default=0)
    if sum(now - one.begins >= _MINUTE_S for one in recent) < _MIN_HABIT_SESSIONS:
        return _ASSUMED_HOLD_S, max(_ASSUMED_PEAK, peak)
    longest_pause = max(one.pause for one in recent)
    return min(_MAX_HOLD_S, max(_MIN_HOLD_S, _PAUSE_FACTOR * longest_pause)), peak
