"""Planning expects to be read what the exact cache reads, where all sizes are known.

A token is ``BYTES_PER_TOKEN`` bytes here, so estimates are exact. Planning and the caches still
differ by design in these points, and each is kept out of the way or bounded below:

- It sees what is sent, not what is answered: answers that a cache keeps are not expected.
- Where a cache forgets for want of room alone, it counts on an hour; sequences are shorter.
- OpenAI's idle entries die by chance after 5 to 10 minutes: it counts on 5. It does not count on
  other machines taking over above 15 calls a minute, nor on the age of an entry that is always
  used: sequences have fewer calls. Prompts that differ in the 256 tokens that choose the machine
  share nothing long enough to be stored: the minimum is the regime's own there.
- llama.cpp's slots hold the latest prompt alone: what another call overwrote is expected still.
- One of its blocks is one position for Anthropic: a message of several blocks on the wire is not.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches import openai_interval
from proxy.caches.outlook import planning_regime
from proxy.caches.port import Cache, CachedPrompt, Served, TokenBlock, Ttl
from proxy.caches.regimes import REGIMES, build_cache
from proxy.prefix.prediction.prefix_chains import ExpectedRead, PrefixChainIndex, expected_usage
from proxy.prefix.prediction.sent_call import SentCall
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN
from slo.usage import Usage
from tests.examples import examples
from tests.proxy.caches.prompts import tokens
from tests.proxy.prefix.sent_calls import block

#: Instead of a model's own minimum, so that prompts are small; but for OpenAI's machines.
LEAST = 100
SIZES = (4, 70, 130, 700, 2_100)
#: Seconds; eight of them are less than an hour but for the last two.
GAPS = (1.0, 3.0, 200.0, 290.0, 400.0)
LONG_GAPS = (2_000.0, 5_000.0)
#: More positions than Anthropic looks back, in small pieces.
RUN = 23

EXACT = (
    ("anthropic-breakpoint", "anthropic"),
    ("anthropic-breakpoint", "bedrock"),
    ("openai-breakpoint", "openai"),
    ("openai-breakpoint", "azure"),
    ("openai-interval", "openai"),
    ("openai-interval", "azure"),
    ("implicit", "google"),
    ("implicit", "groq"),
    ("implicit", "fireworks"),
    ("implicit", "sglang"),
    ("block-chain", "vllm"),
    ("block-chain", "mistral"),
    ("block-chain", "xai"),
    ("prefix-unit", "deepseek"),
)
#: Caches that forget for want of room alone.
ROOM_ALONE = {"fireworks", "sglang", "vllm", "mistral", "xai", "llamacpp"}


class Piece(NamedTuple):
    """A block of a prompt; pieces of one name and size hold the same tokens."""

    role: str
    name: str
    size: int


class SpacedCall(NamedTuple):
    """A call so long after the one before."""

    pieces: tuple[Piece, ...]
    gap: float
    marks: dict[int, Ttl]
    explicit: bool = False
    ttl: Ttl | None = None
    key: str = ""


PIECES = st.builds(
    Piece,
    role=st.sampled_from(["user", "user", "assistant", "tool", "developer"]),
    name=st.sampled_from("ab"),
    size=st.sampled_from(SIZES),
)
HEADS = st.sampled_from([(), ("developer",), ("tools", "developer")])
RUNS = st.sampled_from(["user", "tool"]).map(
    lambda role: [Piece(role, f"run {at}", 4) for at in range(RUN)]
)
TAILS = st.one_of(st.lists(PIECES, max_size=6), RUNS)


@st.composite
def calls(draw: st.DrawFn, regime: str, provider: str) -> list[SpacedCall]:
    """Calls that go on from an earlier one, or from a part of it, with tails of their own."""
    head = tuple(Piece(role, role, draw(st.sampled_from(SIZES))) for role in draw(HEADS))
    gaps = st.sampled_from(GAPS if provider in ROOM_ALONE else (*GAPS, *LONG_GAPS))
    sent: list[tuple[Piece, ...]] = [head]
    calls = []
    for _ in range(draw(st.integers(2, 8))):
        before = draw(st.sampled_from(sent))
        beginning = before[: draw(st.sampled_from([len(before), len(before), len(before) // 2, 0]))]
        pieces = (*beginning, *draw(TAILS))
        if pieces:
            sent.append(pieces)
            calls.append(draw(call_of(pieces, gaps, regime, provider)))
    return calls


@st.composite
def call_of(
    draw: st.DrawFn,
    pieces: tuple[Piece, ...],
    gaps: st.SearchStrategy[float],
    regime: str,
    provider: str,
) -> SpacedCall:
    gap, key = draw(gaps), draw(st.sampled_from(["", "", "", "other"]))
    if regime == "anthropic-breakpoint":
        at = sorted(draw(st.sets(st.integers(0, len(pieces) - 1), max_size=4)))
        hours = draw(st.integers(0, len(at)))
        lives: list[Ttl] = ["1h" if index < hours else "5m" for index in range(len(at))]
        return SpacedCall(pieces, gap, dict(zip(at, lives, strict=True)), key=key)
    if regime != "openai-breakpoint":
        return SpacedCall(pieces, gap, {}, key=key)
    sold: list[Ttl] = ["30m"] if provider == "azure" else ["30m", "12h"]
    places = [at for at, one in enumerate(pieces) if one.role not in {"tools", "assistant"}]
    marked = draw(st.sets(st.sampled_from(places), max_size=5)) if places else set()
    return SpacedCall(
        pieces,
        gap,
        {at: draw(st.sampled_from(sold)) for at in marked},
        explicit=draw(st.booleans()),
        ttl=draw(st.sampled_from([None, *sold])),
        key=key,
    )


def minimum(regime: str) -> int | None:
    """The least tokens that are stored; None for the regime's own."""
    return None if regime == "openai-interval" else LEAST


def token_prompt(call: SpacedCall) -> CachedPrompt:
    """The call as the exact cache sees it."""
    blocks = [
        TokenBlock(
            role=role,  # type: ignore[arg-type]
            tokens=tokens(f"{role} {name} {size}", size),
            message=index,
            kind="tool_result" if role == "tool" else "text",
            mark=call.marks.get(index),
        )
        for index, (role, name, size) in enumerate(call.pieces)
    ]
    return CachedPrompt(blocks=tuple(blocks), key=call.key, explicit=call.explicit, ttl=call.ttl)


def sent_call(call: SpacedCall, regime: str, provider: str) -> SentCall:
    """The call as planning sees it."""
    lead = next(
        (index for index, one in enumerate(call.pieces) if one.role not in {"tools", "developer"}),
        len(call.pieces),
    )
    blocks = [
        block(f"{role} {name}", size * BYTES_PER_TOKEN, role=role, at=index, leads=index < lead)
        for index, (role, name, size) in enumerate(call.pieces)
    ]
    return SentCall(
        regime=planning_regime(regime, provider=provider, least=minimum(regime)),
        place=call.key.encode(),
        early={"prompt_cache_key": call.key.encode()} if call.key else {},
        blocks=tuple(blocks),
        marks=call.marks,
        explicit=call.explicit,
        ttl=call.ttl or "",
    )


class ReadComparison(NamedTuple):
    """Tokens that were expected to be read in a call beside those that its cache read."""

    sent: SentCall
    expected: ExpectedRead
    served: Served
    total: int

    @property
    def usage(self) -> Usage:
        """Usage as the provider would count it."""
        written = {f"write_{ttl}": count for ttl, count in self.served.written.items()}
        return Usage(input=self.served.fresh, cache_read=self.served.read, **written)


def outcomes(
    cache: Cache, made: list[SpacedCall], regime: str, provider: str, answer: Piece | None = None
) -> Iterator[ReadComparison]:
    """Each call, expected and served, one after the other; each gets this answer, or none."""
    generated = tokens(f"{answer.role} {answer.name} {answer.size}", answer.size) if answer else ()
    chains, now = PrefixChainIndex(), 0.0
    for call in made:
        now += call.gap
        sent, prompt = sent_call(call, regime, provider), token_prompt(call)
        expected = chains.expect_read(sent, now)
        served = cache.serve(prompt, now)
        cache.begin_answer(prompt, now)
        cache.finish_answer(prompt, generated, now)
        outcome = ReadComparison(sent, expected, served, prompt.tokens)
        yield outcome
        chains.record_call(sent, outcome.usage, now)


def exact_cache(regime: str, provider: str) -> Cache:
    """The cache that the simulator and replay build; without its chance, where it has any."""
    if regime == "openai-interval":
        rules = openai_interval.provider_rules(provider)
        return openai_interval.OpenAIIntervals(replace(rules, idle_most=rules.idle_least))
    return build_cache(regime, provider=provider, min_tokens=LEAST)


def test_every_regime_is_compared():
    assert {regime for regime, _ in EXACT} == REGIMES


@pytest.mark.slow
@pytest.mark.parametrize(("regime", "provider"), EXACT)
@examples(14, deadline=None)
@given(data=st.data())
def test_planning_expects_what_the_exact_cache_reads_and_bills(regime, provider, data):
    made = data.draw(calls(regime, provider))

    for outcome in outcomes(exact_cache(regime, provider), made, regime, provider):
        expected = outcome.expected
        assert expected.tokens == outcome.served.read
        assert expected_usage(outcome.sent, expected, outcome.total) == outcome.usage
        assert expected.tokens <= expected.found <= expected.stored <= expected.known


@pytest.mark.parametrize("provider", ["openai", "azure"])
@examples(10, deadline=None)
@given(data=st.data())
def test_no_more_is_expected_than_is_read_whenever_idle_entries_die(provider, data):
    regime = "openai-interval"
    made = data.draw(calls(regime, provider))

    cache = build_cache(regime, provider=provider, seed=data.draw(st.integers(0, 99)))
    for outcome in outcomes(cache, made, regime, provider):
        assert outcome.expected.tokens <= outcome.served.read


@pytest.mark.parametrize(
    ("regime", "provider"),
    [("block-chain", "vllm"), ("implicit", "sglang"), ("prefix-unit", "deepseek")],
)
@examples(10, deadline=None)
@given(data=st.data())
def test_no_more_is_expected_than_is_read_where_answers_are_kept(regime, provider, data):
    made = data.draw(calls(regime, provider))

    answer = Piece("assistant", "a", 130)
    for outcome in outcomes(exact_cache(regime, provider), made, regime, provider, answer):
        assert outcome.expected.tokens <= outcome.served.read


@examples(10, deadline=None)
@given(made=calls("implicit", "llamacpp"))
def test_no_less_is_expected_than_the_slots_of_a_server_hold(made):
    cache = build_cache("implicit", provider="llamacpp", min_tokens=0)

    for outcome in outcomes(cache, made, "implicit", "llamacpp"):
        held = outcome.served.read if outcome.served.read >= LEAST else 0
        assert held <= outcome.expected.tokens


@examples(10, deadline=None)
@given(tails=st.lists(st.lists(PIECES, min_size=1, max_size=3), min_size=1, max_size=6))
def test_a_conversation_alone_on_a_server_is_read_from_its_slot_as_expected(tails):
    cache = build_cache("implicit", provider="llamacpp", min_tokens=LEAST)
    pieces = (Piece("developer", "rules", 2_100),)
    made = [SpacedCall(pieces, 1.0, {})]
    for tail in tails:
        pieces = (*pieces, *tail)
        made.append(SpacedCall(pieces, 3.0, {}))

    for outcome in outcomes(cache, made, "implicit", "llamacpp"):
        if outcome.expected.tokens > outcome.total // 10:  # a slot that holds less is not chosen
            assert outcome.expected.tokens == outcome.served.read


def test_after_an_hour_nothing_is_counted_on_where_room_alone_decides():
    pieces = (Piece("user", "a", 2_100),)
    made = [SpacedCall(pieces, 0.0, {}), SpacedCall(pieces, 3_601.0, {})]

    _, late = outcomes(build_cache("block-chain"), made, "block-chain", "vllm")
    assert (late.expected.tokens, late.expected.found) == (0, late.served.read)
