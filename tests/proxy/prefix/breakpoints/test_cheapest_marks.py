"""The planner of marks against every possible set of marks."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.cheapest_marks import CallToMark, Mark, Reuse, cheapest_marks
from tests.examples import examples
from tests.proxy.prefix.sent_calls import ANTHROPIC

LIFETIMES = ANTHROPIC.lifetimes


def found(entry: int, reach: int, marks: Sequence[int]) -> bool:
    return any(entry <= mark < entry + reach for mark in marks)


def cost(
    call: CallToMark, reuses: Sequence[Reuse], regime: Regime, marks: Mapping[int, str]
) -> float:
    """Cost of this call and the later ones by the rules, in a second reading of them."""
    ends, reach = call.ends, max(1, regime.lookback)
    hit = max((at for at in call.cached if found(at, reach, list(marks))), default=-1)
    read = ends[hit] if hit >= 0 else 0
    written = {at: ttl for at, ttl in marks.items() if ends[at] > read and ends[at] >= regime.least}
    total = float(regime.read) * read
    for at, size in pieces(ends, read):
        kept = [ttl for mark, ttl in written.items() if mark >= at]
        longest = max(kept, key=lambda ttl: LIFETIMES[ttl], default="")
        total += size * float(regime.writes.get(longest, 1))
    alive = dict(written)
    alive.update({at: call.cached[at] for at in marks if at in call.cached and at <= hit})
    alive.update({hit: call.cached[hit]} if hit >= 0 else {})
    return total + sum(later(call, reuse, regime, marks, alive) for reuse in reuses)


def pieces(ends: Sequence[int], read: int) -> Iterator[tuple[int, int]]:
    """The tokens of each block that are not read."""
    before = 0
    for at, end in enumerate(ends):
        yield at, max(0, end - max(before, read))
        before = end


def later(
    call: CallToMark,
    reuse: Reuse,
    regime: Regime,
    marks: Mapping[int, str],
    alive: Mapping[int, str],
) -> float:
    reach = max(1, regime.lookback)
    looks = [at for at in marks if at <= reuse.upto]
    shared = call.ends[reuse.upto]
    total = before = 0.0
    for ttl, seconds in LIFETIMES.items():
        entries = [at for at, name in alive.items() if LIFETIMES[name] >= seconds]
        entries = [at for at in entries if at <= reuse.upto and found(at, reach, looks)]
        read = max((call.ends[at] for at in entries), default=0)
        total += (reuse.uses[ttl] - before) * (shared - (1 - float(regime.read)) * read)
        before = reuse.uses[ttl]
    return total


def mark_sets(call: CallToMark, regime: Regime) -> Iterator[dict[int, str]]:
    """Every set that may be sent: longer lifetimes first, live entries as they are."""
    free = [at for at in range(len(call.ends)) if at not in call.given]
    for count in range(regime.marks - len(call.given) + 1):
        for blocks in combinations(free, count):
            for ttls in product(LIFETIMES, repeat=count):
                marks = dict(sorted({**dict(zip(blocks, ttls, strict=True)), **call.given}.items()))
                if is_allowed(call, regime, marks):
                    yield marks


def is_allowed(call: CallToMark, regime: Regime, marks: Mapping[int, str]) -> bool:
    spans = [LIFETIMES[ttl] for ttl in marks.values()]
    reach = max(1, regime.lookback)
    hit = max((at for at in call.cached if found(at, reach, list(marks))), default=-1)
    chosen = {at: ttl for at, ttl in marks.items() if at not in call.given}
    same = all(call.cached.get(at, ttl) == ttl for at, ttl in chosen.items() if at <= hit)
    return same and spans == sorted(spans, reverse=True)


TTLS = st.sampled_from(["5m", "1h"])
PRICES = st.tuples(
    st.sampled_from([Fraction(1, 40), Fraction(1, 10), Fraction(1, 2)]),
    st.sampled_from([Fraction(1), Fraction(9, 8), Fraction(5, 4)]),
    st.sampled_from([Fraction(5, 4), Fraction(2), Fraction(5, 2)]),
)


@st.composite
def uses(draw: st.DrawFn) -> dict[str, float]:
    short = draw(st.floats(0, 4) | st.floats(0, 0.5))
    return {"5m": short, "1h": short + draw(st.floats(0, 4) | st.just(0.0))}


@st.composite
def cases(draw: st.DrawFn) -> tuple[CallToMark, list[Reuse], Regime]:
    sizes = draw(st.lists(st.integers(0, 900) | st.integers(0, 20), min_size=1, max_size=6))
    blocks = st.integers(0, len(sizes) - 1)
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    read, short, long = draw(PRICES)
    regime = Regime(
        name="random",
        least=draw(st.sampled_from([0, 0, 50, 600])),
        read=read,
        writes={"5m": short, "1h": long},
        lifetimes=LIFETIMES,
        marks=draw(st.integers(1, 4)),
        lookback=draw(st.sampled_from([0, 1, 2, 3, 20])),
    )
    entry = blocks.filter(lambda at: ends[at] >= max(1, regime.least))
    some = ends[-1] >= max(1, regime.least)
    cached = draw(st.dictionaries(entry, TTLS, max_size=3)) if some else {}
    own = draw(st.sets(blocks, max_size=2))
    ttls = sorted(draw(st.lists(TTLS, min_size=len(own), max_size=len(own))))
    reuse = st.builds(Reuse, blocks, uses())
    reuses = draw(st.lists(reuse, max_size=4))
    return (
        CallToMark(ends=ends, cached=cached, given=dict(zip(sorted(own), ttls, strict=True))),
        reuses,
        regime,
    )


@pytest.mark.slow
@given(cases())
@examples(100, deadline=None)
def test_no_set_of_marks_costs_two_percent_less(case):
    call, reuses, regime = case
    marks = cheapest_marks(call, reuses, regime)
    sent = {**call.given, **{mark.block: mark.ttl for mark in marks}}

    best = min(
        (cost(call, reuses, regime, every) for every in mark_sets(call, regime)), default=None
    )

    if best is not None:
        assert cost(call, reuses, regime, sent) <= 1.02 * best + 1e-3


ENDS = [2_000, 3_000, 5_000]


def uses_per_lifetime(count: float) -> dict[str, float]:
    return dict.fromkeys(LIFETIMES, count)


def test_a_prefix_that_later_calls_read_is_marked():
    assert cheapest_marks(CallToMark(ends=ENDS), [Reuse(1, uses_per_lifetime(1.0))], ANTHROPIC) == (
        Mark(1, "5m"),
    )


def test_a_write_fee_that_does_not_come_back_is_not_paid():
    assert (
        cheapest_marks(CallToMark(ends=ENDS), [Reuse(2, uses_per_lifetime(0.27))], ANTHROPIC) == ()
    )
    assert cheapest_marks(
        CallToMark(ends=ENDS), [Reuse(2, uses_per_lifetime(0.28))], ANTHROPIC
    ) == (Mark(2, "5m"),)


def test_an_hour_pays_from_three_uses_of_which_two_come_late():
    late = {"5m": 0.0, "1h": 1.2}

    assert cheapest_marks(CallToMark(ends=ENDS), [Reuse(2, late)], ANTHROPIC) == (Mark(2, "1h"),)
    assert (
        cheapest_marks(CallToMark(ends=ENDS), [Reuse(2, {"5m": 0.0, "1h": 1.1})], ANTHROPIC) == ()
    )


def test_no_marks_where_they_mean_nothing_or_none_is_left():
    reuses = [Reuse(2, uses_per_lifetime(9.0))]
    own = CallToMark(ends=ENDS, given={0: "5m", 1: "5m", 2: "5m"})
    free = Regime(name="implicit", marks=4)

    assert cheapest_marks(CallToMark(ends=ENDS), reuses, Regime()) == ()
    assert cheapest_marks(CallToMark(ends=ENDS), reuses, free) == ()
    assert cheapest_marks(CallToMark(ends=[]), reuses, ANTHROPIC) == ()
    assert cheapest_marks(own, reuses, structs.replace(ANTHROPIC, marks=3)) == ()


def test_blocks_that_do_not_exist_and_lifetimes_nobody_sells_do_no_harm():
    odd = CallToMark(ends=ENDS, cached={-3: "5m", 77: "5m"}, given={99: "12h", 1: "12h"})

    assert cheapest_marks(odd, [Reuse(500, uses_per_lifetime(2.0)), Reuse(-9, {})], ANTHROPIC) == (
        Mark(2, "5m"),
    )


@given(
    st.lists(st.integers(0, 2_000), min_size=1, max_size=300),
    st.lists(st.builds(Reuse, st.integers(-5, 400), uses()), max_size=12),
    st.dictionaries(st.integers(-5, 400), TTLS, max_size=40),
    st.dictionaries(st.integers(-5, 400), TTLS, max_size=3),
)
@examples(25, deadline=None)
def test_any_prompt_gets_marks_that_may_be_sent(sizes, reuses, cached, own):
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]

    marks = cheapest_marks(CallToMark(ends=ends, cached=cached, given=own), reuses, ANTHROPIC)

    assert len(marks) + len(own) <= max(4, len(own))
    assert [mark.block for mark in marks] == sorted({mark.block for mark in marks})
    assert all(ends[mark.block] >= ANTHROPIC.least or mark.block in cached for mark in marks)


@pytest.mark.parametrize(
    ("write", "read", "uses"),
    [
        (Fraction(5, 4), Fraction(1, 10), 2),
        (Fraction(2), Fraction(1, 10), 3),
        (Fraction(5, 2), Fraction(1, 10), 3),
        (Fraction(5, 4), Fraction(1), None),
    ],
)
def test_a_write_pays_from_the_use_that_the_providers_guides_name(write, read, uses):
    """OpenAI and Anthropic, prompt caching (2026-09, 2026-08): 1.25 from the 2nd, 2 and 2.5 3rd."""
    regime = structs.replace(ANTHROPIC, writes={"5m": write}, read=read)
    marked = [
        later + 1
        for later in range(5)
        if cheapest_marks(CallToMark(ends=(5_000,)), [Reuse(0, {"5m": float(later)})], regime)
    ]

    assert marked == ([] if uses is None else list(range(uses, 6)))
