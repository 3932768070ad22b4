"""Limits the calls in flight on a route by how long it takes to begin its answers.

Netflix's Gradient2, on a latency that does not grow with the prompt: a call's time to first token,
divided by what its uncached tokens take where nothing waits (``TtftModel``). While that stays near
1 the limit grows; where it rises, calls wait for each other, and the limit shrinks::

    slowness = ttft / (a + b · uncached tokens)         geometric mean of a quarter of a turn
    gradient = SLOWNESS_SLACK / slowness                between ½ and 1
    goal     = gradient · limit + room         room = limit / 10, at least MIN_QUEUE_CALLS
    limit    = ⅘ · limit + ⅕ · goal                     at once where the slowness is GROSS_SLOWNESS

Where more than ``MAX_FAILURE_SHARE`` of the calls fail the gradient is ½, whatever the others take.
Where nearly all do, the limit is halved, and doubled for each quarter of a turn that goes well
after it.

A turn is as many leaving calls as were in flight: after it those taken before have gone. What
leaves in the turn after the limit shrank was taken before that, and does not shrink it again.

Only where there is room can be seen how long a call takes that does not wait. A route that refuses
calls is therefore given fewer for a moment, now and then (a look): so no limit takes its own queue
for the route's nature, and no route that became slower for good starves. A look begins with half
the limit; while it finds something else than was known, the next one is soon and at half as many.

Source: github.com/Netflix/concurrency-limits, Gradient2Limit.java (smoothing 0.2, queue 4,
gradient from ½ to 1, no growth below half the limit), 2026-11.
"""

from math import exp, log
from typing import Final

INITIAL_LIMIT: Final = 100
"""The limit of a route nothing is known of."""

MIN_LIMIT: Final = 4
"""The limit never falls below it; while it is looked at, fewer calls may be let in."""

MAX_LIMIT: Final = 1000
"""The limit never rises above it."""

SMOOTHING_FACTOR: Final = 0.2
"""The part of the way to its goal that the limit goes at once."""

MIN_QUEUE_CALLS: Final = 4
"""By how much the goal is above the limit at least where nothing waits."""

SLOWNESS_SLACK: Final = 1.3
"""Number of times slower than alone calls may begin before the limit shrinks."""

GROSS_SLOWNESS: Final = 4.0
"""The slowness above which the limit goes to its goal at once, and is looked at soon."""

FASTER_SLOWNESS: Final = 0.5
"""The slowness below which the route became faster than was known, and is looked at."""

MAX_PROBE_DEVIATION: Final = 1.5
"""Number of times what was known a look may find, or that part of it, without the next being soon.
"""

MAX_PROBE_DIVISOR: Final = 16
"""The part of the limit that is let in by the deepest look is one of these."""

MAX_SLOWNESS: Final = 10.0
"""The slowness that a call counts as at most, for one straggler is no queue."""

MAX_FAILURE_SHARE: Final = 0.1
"""The part of calls that may fail before the limit shrinks, as if they were slow."""

DEAD_FAILURE_SHARE: Final = 0.9
"""The part of calls from which on their failures halve the limit."""

MIN_SLOWNESS: Final = 0.1
"""The slowness that a call counts as at least."""

MIN_AVERAGED_CALLS: Final = 20
"""Calls that the slowness is averaged over at least."""

LEARN_EVERY_CALLS: Final = 4
"""Of so many calm calls one is learned from."""

TURNS_BETWEEN_PROBES: Final = 20
"""Turns between two looks at a route that refuses calls, while they find what was known."""

IDLE_RESET_S: Final = 300.0
"""Seconds without a call after which a lowered limit is forgotten."""


class TtftModel:
    """A model of a route's TTFT without queueing: a + b · uncached tokens.

    Recursive least squares of the errors' logarithms, so that a short prompt counts as much as a
    long one, with a memory of about 500 calls. Both parts stay at or above 0, and bounded.

    Attributes:
        fixed: a, in seconds.
        per_thousand: b, in seconds per thousand tokens.
    """

    _KEPT: Final = 0.998
    _NEEDED: Final = 20
    _SMALLEST: Final = 1e-4
    _LONGEST: Final = 3600.0
    _UNCERTAIN: Final = 100.0

    __slots__ = ("_aa", "_ab", "_bb", "fixed", "per_thousand", "seen")

    def __init__(self) -> None:
        self.fixed = 0.0
        self.per_thousand = 0.0
        self.seen = 0
        self._aa = self._bb = self._UNCERTAIN
        self._ab = 0.0

    def slowness(self, ttft: float, uncached_tokens: int) -> float:
        """Number of times as long as alone a call took, ``MIN_SLOWNESS`` to ``MAX_SLOWNESS``.

        It is 1.0 while too little is known.

        Args:
            ttft: Seconds from sending the call to the first of its answer.
            uncached_tokens: Tokens of the prompt that were not read from a cache, at least 0.
        """
        if self.seen < self._NEEDED:
            return 1.0
        alone = self.fixed + self.per_thousand * uncached_tokens * 1e-3
        if alone < self._SMALLEST:
            return 1.0
        slowness = ttft / alone
        if MIN_SLOWNESS < slowness < MAX_SLOWNESS:
            return slowness
        return MAX_SLOWNESS if slowness > 1 else MIN_SLOWNESS

    @property
    def is_unlearned(self) -> bool:
        """True if too little is known yet."""
        return self.seen < self._NEEDED

    def scale(self, by: float) -> None:
        """Scale what was learned, by ``MIN_SLOWNESS`` to ``MAX_SLOWNESS``."""
        self.fixed = min(self.fixed * by, self._LONGEST)
        self.per_thousand = min(self.per_thousand * by, self._LONGEST)

    def learn(self, ttft: float, uncached_tokens: int) -> None:
        """Learn from a call that did not wait.

        What took e times as long as was thought, or more, is learned from as if it took e times.
        """
        thousands = uncached_tokens * 1e-3
        ttft = min(max(ttft, self._SMALLEST), self._LONGEST)
        if self.seen == 0:
            self.fixed = self.per_thousand = ttft / (1.0 + thousands)
        self.seen += 1
        alone = max(self.fixed + self.per_thousand * thousands, self._SMALLEST)
        self._step(1.0 / alone, thousands / alone, min(max(log(ttft / alone), -1.0), 1.0))

    def _step(self, one: float, tokens: float, error: float) -> None:
        """One step of the recursion, for an error of these relative sensitivities."""
        towards_a = self._aa * one + self._ab * tokens
        towards_b = self._ab * one + self._bb * tokens
        total = self._KEPT + one * towards_a + tokens * towards_b
        gain_a, gain_b = towards_a / total, towards_b / total
        fixed = self.fixed + gain_a * error
        tokened = self.per_thousand + gain_b * error
        self.fixed = min(fixed, self._LONGEST) if fixed > 0 else 0.0
        self.per_thousand = min(tokened, self._LONGEST) if tokened > 0 else 0.0
        self._aa -= gain_a * towards_a
        self._ab -= gain_a * towards_b
        self._bb -= gain_b * towards_b
        if self._aa + self._bb < self._UNCERTAIN:
            self._aa /= self._KEPT
            self._ab /= self._KEPT
            self._bb /= self._KEPT


class ConcurrencyLimit:
    """One route's limit of calls in flight; each call that ``try_acquire`` admits must ``release``.

    It counts in calls, not seconds, so a clock that stands still or goes back is no matter; by time
    only an idle route's limit is forgotten. A call is calm if at most half the limit was in flight
    while it was: such calls are learned from, and are never slow, so a route that is not near its
    limit is not throttled, whatever its answers take.

    Attributes:
        fit: Fit to the calls that do not wait.
        in_flight: Calls that were taken and have not left, never below 0.
    """

    __slots__ = (
        "_before", "_calm_in", "_counted", "_depth", "_failed", "_initial", "_is_full", "_last",
        "_least", "_limit", "_look_in", "_looks", "_most", "_peak", "_settled_in", "_slow", "fit",
        "in_flight",
    )  # fmt: skip

    def __init__(
        self, initial: int = INITIAL_LIMIT, least: int = MIN_LIMIT, maximum: int = MAX_LIMIT
    ) -> None:
        self.fit = TtftModel()
        self.in_flight = 0
        self._initial = self._limit = float(initial)
        self._least, self._most = float(least), float(maximum)
        self._last = 0.0
        self._peak = 0
        self._before = 0.0  # the limit that an outage took, until it is back
        self._reset_counts()
        self._calm_in = self._settled_in = 0
        self._looks = self._is_full = False
        self._look_in, self._depth = initial, 4  # nothing is known: it looks soon and deep

    @property
    def limit(self) -> int:
        """Calls that may be in flight now, at least 1; fewer in a look."""
        if self._looks:
            return max(int(self._limit) // self._depth, int(self._least) // 2, 1)
        return int(self._limit)

    def try_acquire(self, now: float) -> bool:
        """True if one more call may go; if so it is in flight until it leaves."""
        in_flight = self.in_flight + 1
        if in_flight == 1 and now - self._last > IDLE_RESET_S:
            self._limit = max(self._limit, self._initial)
            self._looks = self._is_full = False
        if in_flight > self._limit or (self._looks and in_flight > self.limit):
            self._is_full = True
            return False
        self.in_flight = in_flight
        if in_flight > self._peak:  # noqa: PLR1730 max() takes as long as all the rest
            self._peak = in_flight
        if in_flight * 2 > self._limit:
            self._calm_in = in_flight
        return True

    def release(self, ttft: float | None, uncached_tokens: int, *, ok: bool, now: float) -> None:
        """Count a call out that was taken, and learn from it; a call too many does nothing.

        Args:
            ttft: Seconds from sending it to the first of its answer; None where that is unknown,
                or it was not begun.
            uncached_tokens: Tokens of its prompt that were not read from a cache, at least 0.
            ok: False where the route failed, took too long or refused it as one too many.
        """
        if self.in_flight == 0:
            return
        self.in_flight -= 1
        self._last = now
        if self._calm_in:
            self._calm_in -= 1
        if self._settled_in:
            self._settled_in -= 1
        self._look_in -= 1
        if not ok:
            self._count_ended_call(0.0, 1)
        elif ttft is not None:
            self._count_ended_call(log(self._slowness(ttft, uncached_tokens)), 0)
        if self._look_in <= 0:
            self._probe_or_end()

    def _slowness(self, ttft: float, uncached_tokens: int) -> float:
        fit = self.fit
        slowness = fit.slowness(ttft, uncached_tokens)
        is_calm = not self._calm_in
        if fit.is_unlearned or (is_calm and self._counted % LEARN_EVERY_CALLS == 0):
            fit.learn(ttft, uncached_tokens)
        return slowness if self._looks or not is_calm else 1.0

    def _count_ended_call(self, slow: float, failed: int) -> None:
        if self._settled_in or (self._looks and self._calm_in):
            return
        self._slow += slow
        self._failed += failed
        self._counted += 1
        if (
            self._counted >= MIN_AVERAGED_CALLS
            and self._counted * 4 >= self.in_flight
            and not self._looks
        ):
            self._adjust_limit(self._average_slowness(), self._failed / self._counted)

    def _average_slowness(self) -> float:
        """The slowness of what was counted and did not fail."""
        return exp(self._slow / max(self._counted - self._failed, 1))

    def _adjust_limit(self, slowness: float, failing: float) -> None:
        """Move the limit towards its goal."""
        if slowness < FASTER_SLOWNESS:
            self._look_in = 0
        limit = self._limit
        gradient = (
            0.5 if failing > MAX_FAILURE_SHARE else max(0.5, min(1.0, SLOWNESS_SLACK / slowness))
        )
        goal = gradient * limit + max(float(MIN_QUEUE_CALLS), limit / 10)
        if goal < limit:
            self._settled_in = self.in_flight
            self._before = self._before if failing > DEAD_FAILURE_SHARE else 0.0
        if failing > DEAD_FAILURE_SHARE:
            self._before = max(self._before, limit)
            limit /= 2
        elif limit < self._before and not failing and slowness < SLOWNESS_SLACK:
            limit = min(limit * 2, self._before)
        elif slowness > GROSS_SLOWNESS:
            self._look_in = min(self._look_in, 2 * self.in_flight)
            limit = goal
        elif goal < limit or self._peak * 2 > limit:
            limit += SMOOTHING_FACTOR * (goal - limit)
        self._limit = min(max(limit, self._least), self._most)
        self._peak = self.in_flight
        self._reset_counts()

    def _probe_or_end(self) -> None:
        """Begin a look if the route is busy, or end one."""
        if self._looks:
            slowness = self._average_slowness()
            was_known = 1 / MAX_PROBE_DEVIATION < slowness < MAX_PROBE_DEVIATION
            self.fit.scale(slowness**0.5 if was_known else slowness)
            self._looks = self._is_full = False
            self._depth = 2 if was_known else min(self._depth * 2, MAX_PROBE_DIVISOR)
            self._look_in = int(
                (TURNS_BETWEEN_PROBES if was_known else 2) * max(self._limit, MIN_AVERAGED_CALLS)
            )
        elif not self._is_full:
            self._look_in = int(max(self._limit, MIN_AVERAGED_CALLS))
            return
        else:
            self._looks = True
            self._look_in = self._calm_in + max(MIN_AVERAGED_CALLS // 2, self.limit)
        self._settled_in = 0
        self._reset_counts()

    def _reset_counts(self) -> None:
        """Count anew."""
        self._slow, self._counted, self._failed = 0.0, 0, 0
