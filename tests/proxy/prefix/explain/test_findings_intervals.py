"""Reasons on caches that store a prompt every so many tokens (GPT-5.4: 2,048)."""

import msgspec
import pytest

from proxy.caches.outlook import regime_at_retention
from proxy.prefix.explain.reasons import MissReason, ReasonConfidence
from tests.proxy.prefix.explain.test_findings import CallHistory, summary
from tests.proxy.prefix.sent_calls import INTERVAL, users

_Stretches = tuple[tuple[str, int], ...]
#: A call, the next one, tokens that one read, and the reason with the tokens that it cost.
CASES: dict[str, tuple[_Stretches, _Stretches, int, tuple[MissReason, int] | None]] = {
    "all below one interval": ((("a", 1_900),), (("a", 1_900), ("b", 90)), 0, None),
    "rest below the next interval": ((("a", 4_000),), (("a", 4_000), ("b", 90)), 2_048, None),
    "just behind the next interval": ((("a", 4_150),), (("a", 4_150), ("b", 90)), 2_048, None),
    "one interval of two unread": (
        (("a", 5_000),),
        (("a", 5_000), ("b", 90)),
        2_048,
        (MissReason.PROVIDER_SIDE, 2_048),
    ),
    "nothing read": (
        (("a", 5_000),),
        (("a", 5_000), ("b", 90)),
        0,
        (MissReason.PROVIDER_SIDE, 4_096),
    ),
    "clock on top": (
        (("noon", 20), ("a", 2_600)),
        (("one", 20), ("a", 2_600)),
        0,
        (MissReason.DIVERGED, 2_048),
    ),
    "clock behind a short head": (
        (("head", 400), ("noon", 20), ("a", 2_300)),
        (("head", 400), ("one", 20), ("a", 2_300)),
        0,
        (MissReason.DIVERGED, 2_048),
    ),
    "clock behind one interval": (
        (("head", 2_300), ("noon", 20), ("a", 4_000)),
        (("head", 2_300), ("one", 20), ("a", 4_000)),
        2_048,
        (MissReason.DIVERGED, 2_048),
    ),
    "clock in little that repeats": (
        (("noon", 20), ("a", 1_500)),
        (("one", 20), ("a", 1_500)),
        0,
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_interval_cache_misses_name_whole_intervals_and_their_reason(name: str) -> None:
    before, after, read, expected = CASES[name]
    history = CallHistory().record(users(INTERVAL, *before, conversation=b"one", feature=b"f"))

    miss = history.explain(
        users(INTERVAL, *after, conversation=b"one", feature=b"f"), now=20, read=read
    )

    assert (None if miss is None else (miss.reason, miss.tokens)) == expected


def test_an_idle_prefix_before_gpt_5_6_is_certainly_expired_only_after_a_day():
    long = users(INTERVAL, ("a", 5_000))
    sure = [summary(CallHistory().record(long).explain(long, now))[2] for now in (700, 86_500)]
    assert sure == [ReasonConfidence.POSSIBLE, ReasonConfidence.CERTAIN]


@pytest.mark.parametrize(
    ("gone_after_s", "sure"),
    [(3_600.0, ReasonConfidence.LIKELY), (3_601.0, ReasonConfidence.POSSIBLE)],
)
def test_an_idle_prefix_is_possibly_expired_where_it_may_live_longer_than_an_hour(
    gone_after_s: float, sure: ReasonConfidence
):
    regime = msgspec.structs.replace(INTERVAL, gone_after_s=gone_after_s)
    long = users(regime, ("a", 5_000))

    assert summary(CallHistory().record(long).explain(long, 700))[2] == sure


def test_idle_prefix_kept_in_memory_is_certainly_expired_after_an_hour():
    regime = regime_at_retention(INTERVAL, "in_memory")
    long = users(regime, ("a", 5_000))
    misses = [summary(CallHistory().record(long).explain(long, now)) for now in (700, 3_700)]
    assert misses == [
        (MissReason.EXPIRED, f"idle for {idle} s; entries live 300 s", confidence)
        for idle, confidence in (
            ("700", ReasonConfidence.LIKELY),
            ("3,700", ReasonConfidence.CERTAIN),
        )
    ]
