"""Compares the KV cache's number format with the one before it: did the change pay; pure.

Both sides are sums of real traffic, so shares are compared only where the load was alike, and
speeds only at the same number of sequences at once and the same speculation.
"""

from enum import StrEnum
from math import sqrt
from typing import Final, NamedTuple

from proxy.engines.decode_speed import EstimateInterval
from proxy.engines.kv_pressure import MIN_READINGS, KVPressure, KVSums

#: Calls of each side from which on shares are compared.
MIN_COMPARED_CALLS: Final = 200.0
#: A change of a share that matters.
MIN_CHANGE: Final = 0.01
#: A change of a speed that matters.
MIN_SPEED_CHANGE: Final = 0.03
#: Calls per reading after ÷ before, beyond which a change of the load may be the reason.
_ALIKE_LOAD: Final = (0.8, 1.25)
#: Calls are preempted together, so that they count as this many times fewer. Assumed.
_DESIGN_EFFECT: Final = 4.0
_Z: Final = 1.96


class ComparisonVerdict(StrEnum):
    """The outcome of a comparison of two settings."""

    PAID = "it paid"
    DID_NOT_PAY = "it did not pay"
    MIXED = "some figures are better and some are worse"
    NO_DIFFERENCE = "no difference can be told"
    OTHER_LOAD = "the load is too different to tell"
    NOT_ENOUGH_DATA = "not enough data"


class SpeedPair(NamedTuple):
    """Tokens per second of one sequence, before and after.

    Attributes:
        setting: The speculation of both.
        sequences: Upper end of their band of sequences at once.
    """

    setting: str
    sequences: int
    before: EstimateInterval
    after: EstimateInterval


class KVComparison(NamedTuple):
    """The sums of both formats, and what follows from them.

    Attributes:
        speed: Speeds where both were measured alike; None where they were not.
        reasons: The figures that changed.
    """

    before: KVSums
    after: KVSums
    speed: SpeedPair | None
    verdict: ComparisonVerdict
    reasons: tuple[str, ...] = ()


def compare_formats(kv_dtype: str, pressure: KVPressure) -> KVComparison | None:
    """The format against the other one that was measured; None where only one was."""
    after = pressure.sums_of(kv_dtype)
    if after is None or pressure.previous is None:
        return None
    before = pressure.previous if after is pressure else pressure
    speed = _speeds(before, after)
    verdict, reasons = _verdict(before, after, speed)
    return KVComparison(before, after, speed, verdict, reasons)


def _verdict(
    before: KVSums, after: KVSums, speed: SpeedPair | None
) -> tuple[ComparisonVerdict, tuple[str, ...]]:
    """The verdict, and the figures that it follows from; engines without a count have speeds."""
    sides, counts = (before, after), bool(before.calls or after.calls)
    has_calls = all(each.calls >= MIN_COMPARED_CALLS for each in sides)
    has_readings = all(each.readings >= MIN_READINGS for each in sides)
    if not has_readings or not (has_calls if counts else speed):
        return ComparisonVerdict.NOT_ENOUGH_DATA, ()
    shares = _share_changes(before, after) if counts else {}
    changes = {name: change for name, change in shares.items() if _has_alike_load(*sides, change)}
    if speed is not None and (gain := _speed_change(speed)):
        changes["a sequence gets more tokens/s" if gain > 0 else "a sequence is slower"] = gain
    if changes:
        gains = {change > 0 for change in changes.values()}
        alone = ComparisonVerdict.PAID if True in gains else ComparisonVerdict.DID_NOT_PAY
        return alone if len(gains) == 1 else ComparisonVerdict.MIXED, tuple(changes)
    if shares:
        return ComparisonVerdict.OTHER_LOAD, tuple(shares)
    return ComparisonVerdict.NO_DIFFERENCE, ()


def _share_changes(before: KVSums, after: KVSums) -> dict[str, int]:
    """The shares that changed by more than chance: 1 for those that fell, -1 for the others."""
    preempted = _change(before.preempted_share, before.calls, after.preempted_share, after.calls)
    waited = _change(before.starved_share, before.readings, after.starved_share, after.readings)
    found = {}
    if preempted:
        found[f"{'fewer' if preempted > 0 else 'more'} calls are preempted"] = preempted
    if waited:
        found[f"calls wait for room {'less' if waited > 0 else 'more'} often"] = waited
    return found


def _change(before: float, trials_before: float, after: float, trials_after: float) -> int:
    """1 if a share fell, -1 if it rose, and 0 if neither can be told from chance."""
    error = sqrt(_DESIGN_EFFECT * (before / trials_before + after / trials_after))
    fell = before - after
    if abs(fell) < MIN_CHANGE or abs(fell) <= _Z * error:
        return 0
    return 1 if fell > 0 else -1


def _has_alike_load(before: KVSums, after: KVSums, change: int) -> bool:
    """True unless fewer calls explain a share that fell, or more calls one that rose."""
    ratio = (after.calls / after.readings) / (before.calls / before.readings)
    return ratio >= _ALIKE_LOAD[0] if change > 0 else ratio <= _ALIKE_LOAD[1]


def _speed_change(speed: SpeedPair) -> int:
    """1 if it rose, -1 if it fell, and 0 where the intervals touch or it hardly changed."""
    if abs(speed.after.value / speed.before.value - 1) < MIN_SPEED_CHANGE:
        return 0
    if speed.after.low > speed.before.high:
        return 1
    return -1 if speed.after.high < speed.before.low else 0


def _speeds(before: KVSums, after: KVSums) -> SpeedPair | None:
    """Speeds with the same speculation in the same band, of those where most tokens were made."""
    found: list[tuple[float, SpeedPair]] = []
    for setting, bands in after.speeds.items():
        earlier = before.speeds.get(setting, {})
        for band in bands.keys() & earlier.keys():
            was, now = earlier[band].tokens_per_s(), bands[band].tokens_per_s()
            if was is not None and now is not None:
                made = min(earlier[band].tokens, bands[band].tokens)
                found.append((made, SpeedPair(setting, band, was, now)))
    return max(found, default=(0.0, None), key=lambda each: each[0])[1]
