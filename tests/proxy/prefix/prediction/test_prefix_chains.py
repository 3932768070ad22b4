from collections.abc import Mapping
from dataclasses import replace as replaced

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches import (
    anthropic_breakpoint,
)
from proxy.caches.port import Cache, CachedPrompt, Served, Ttl
from proxy.caches.port import TokenBlock as CachedBlock
from proxy.caches.regime import Regime
from proxy.prefix.prediction.prefix_chains import (
    ExpectedRead,
    PaperCall,
    PrefixChainIndex,
    expected_usage,
)
from proxy.prefix.prediction.sent_call import SentCall, TokenScale
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN, PromptBlock
from slo.usage import Usage
from tests.examples import examples
from tests.proxy.caches.prompts import tokens
from tests.proxy.prefix.sent_calls import (
    ANTHROPIC,
    INTERVAL,
    OPENAI,
    VLLM,
    block,
    one_message,
    sent_chat,
    users,
)

LEADING = ("tools", "developer")
SIZES = (4, 70, 130)
REFUSED = Usage(input=2_000)
LEAST = 100  # instead of 1,024, so that prompts are small


def usage(served: Served) -> Usage:
    bill = {f"write_{ttl}": count for ttl, count in served.written.items()}
    return Usage(input=served.fresh, cache_read=served.read, **bill)


Piece = tuple[str, str, int, bool]


@st.composite
def conversations(draw: st.DrawFn) -> list[Piece]:
    """Pieces (role, name, tokens, whether they lead) over a few names: prefixes are shared."""
    head = draw(st.sampled_from([(), ("developer",), ("tools", "developer")]))
    lead = [(role, role, draw(st.sampled_from(SIZES)), True) for role in head]
    roles = st.sampled_from(["user", "assistant", "tool"])
    names = st.sampled_from(["a", "b"])
    talk = st.lists(st.tuples(roles, names, st.sampled_from(SIZES)), min_size=1, max_size=9)
    return lead + [(role, name, size, False) for role, name, size in draw(talk)]


def both(
    pieces: list[Piece], marks: Mapping[int, Ttl], regime: Regime, *, explicit: bool = False
) -> tuple[SentCall, CachedPrompt]:
    """The same prompt for us and for the model of the cache."""
    ours: list[PromptBlock] = []
    theirs: list[CachedBlock] = []
    for index, (role, name, size, leads) in enumerate(pieces):
        named = f"{role} {name}"
        ours.append(block(named, size * BYTES_PER_TOKEN, role=role, at=index, leads=leads))
        theirs.append(
            CachedBlock(
                role=role,  # type: ignore[arg-type]
                tokens=tokens(f"{role} {name} {size}", size),
                message=index,
                kind="tool_result" if role == "tool" else "text",
                mark=marks.get(index),
            )
        )
    call = SentCall(regime=regime, blocks=tuple(ours), marks=marks, explicit=explicit)
    return call, CachedPrompt(blocks=tuple(theirs), explicit=explicit)


def serve(cache: Cache, prompt: CachedPrompt, now: float) -> Served:
    served = cache.serve(prompt, now)
    cache.begin_answer(prompt, now)
    cache.finish_answer(prompt, (), now)
    return served


GAPS = st.sampled_from([1.0, 3.0, 200.0, 290.0, 400.0, 2_000.0, 5_000.0])


@pytest.mark.slow
@examples(24, deadline=None)
@given(st.lists(st.tuples(conversations(), st.data(), GAPS), min_size=2, max_size=6), st.booleans())
def test_the_expected_read_at_anthropic_is_the_one_of_its_cache_model(calls, bedrock):
    rules = anthropic_breakpoint.BEDROCK if bedrock else anthropic_breakpoint.ANTHROPIC
    cache = anthropic_breakpoint.AnthropicBreakpoints(replaced(rules, lookback=3, least=LEAST))
    regime = msgspec.structs.replace(
        ANTHROPIC, lookback=3, least=LEAST, provider="bedrock" if bedrock else "anthropic"
    )
    chains, now = PrefixChainIndex(), 0.0
    for pieces, data, gap in calls:
        now += gap
        at = data.draw(st.lists(st.integers(0, len(pieces) - 1), max_size=4, unique=True))
        long = data.draw(st.integers(0, len(at)))
        marks: dict[int, Ttl] = {
            place: "1h" if index < long else "5m" for index, place in enumerate(sorted(at))
        }
        call, prompt = both(pieces, marks, regime)
        expected = chains.expect_read(call, now)
        real = serve(cache, prompt, now)

        assert expected.tokens == real.read
        assert expected.tokens <= expected.found <= expected.stored <= expected.known
        assert expected_usage(call, expected, prompt.tokens) == usage(real)
        chains.record_call(call, usage(real), now)


def test_no_read_is_expected_of_a_prompt_never_sent():
    expected = PrefixChainIndex().expect_read(users(VLLM, ("a", 160)), 0)

    assert expected == ExpectedRead(scale=TokenScale(size=640, total=160))


def test_a_lifetime_that_passed_may_not_be_over():
    chains = PrefixChainIndex()
    call = users(ANTHROPIC, ("a", 2_000), marks={0: "5m"})
    chains.record_call(call, None, 0)

    expected = chains.expect_read(call, 500)
    assert (expected.tokens, expected.found) == (0, 2_000)
    assert (expected.idle, expected.lives) == (500, 300)


def test_entries_out_of_reach_of_every_mark_are_told_apart():
    chains = PrefixChainIndex()
    chains.record_call(users(ANTHROPIC, ("a", 2_000), ("b", 100), marks={0: "5m"}), None, 0)

    expected = chains.expect_read(users(ANTHROPIC, ("a", 2_000), ("b", 100)), 1)

    assert (expected.tokens, expected.found, expected.stored, expected.known) == (
        0,
        0,
        2_000,
        2_100,
    )
    assert (expected.idle, expected.lives) == (1, None)


def test_a_bill_without_writes_and_reads_tells_that_nothing_was_stored():
    chains = PrefixChainIndex()
    call = users(ANTHROPIC, ("a", 2_000), marks={0: "5m"})
    chains.record_call(call, Usage(input=2_000), 0)

    assert chains.expect_read(call, 1).stored == 0


def test_a_call_noted_late_makes_nothing_older():
    chains = PrefixChainIndex()
    call = users(ANTHROPIC, ("a", 2_000), marks={0: "5m"})
    chains.record_call(call, None, 100)
    chains.record_call(call, None, 50)

    assert chains.expect_read(call, 110).idle == 10


def test_a_text_that_begins_like_the_one_before_is_read_as_far_as_that():
    chains = PrefixChainIndex()
    rules = "".join(f"Rule {n} is kept by everyone.\n" for n in range(100))
    chains.record_call(sent_chat(VLLM, ("system", f"{rules}Today is Monday.")), None, 0)

    expected = chains.expect_read(sent_chat(VLLM, ("system", f"{rules}Today is Friday.")), 1)

    assert expected.scale.total * 0.95 < expected.tokens < expected.scale.total
    assert chains.expect_read(sent_chat(VLLM, ("system", f"No.\n{rules}")), 1).tokens == 0


def test_marks_that_stood_on_paper_alone_are_read_on_paper_alone():
    chains = PrefixChainIndex()
    bare = users(ANTHROPIC, ("a", 2_000))
    marked = users(ANTHROPIC, ("a", 2_000), marks={0: "5m"})
    chains.record_call(bare, REFUSED, 0, PaperCall(marked, Usage(write_5m=2_000)))

    expected = chains.expect_read(marked, 10)

    assert (expected.tokens, expected.same) == (0, 1)
    assert chains.expect_on_paper(marked, expected, 10).tokens == 2_000
    assert chains.expect_on_paper(marked, expected, 400).tokens == 0


def test_an_unknown_lifetime_is_the_shortest_there_is():
    chains = PrefixChainIndex()
    call = users(ANTHROPIC, ("a", 2_000), marks={0: "7d"})
    chains.record_call(call, None, 0)

    assert chains.expect_read(call, 1).lives == 300


def test_marks_at_missing_blocks_are_ignored():
    call = users(ANTHROPIC, ("a", 2_000), marks={7: "5m", -1: "5m"})
    chains = PrefixChainIndex()
    chains.record_call(call, None, 0)

    assert chains.expect_read(call, 1).found == 0


def test_the_expected_read_is_scaled_to_the_tokens_counted():
    scale = TokenScale(size=1_000, total=1_000)
    expected_read = ExpectedRead(tokens=100, found=200, stored=200, known=400, scale=scale)

    assert expected_read.rescale(2_000).known == 800
    assert expected_read.rescale(1_000) is expected_read
    assert expected_read.rescale(2_000) is expected_read.rescale(2_000)
    assert expected_read.rescale(3_000).known == 1_200
    assert ExpectedRead().rescale(0) == ExpectedRead()


@pytest.mark.parametrize(("total", "read"), [(3_316, 2_048), (3_000, 0), (4_000, 2_048)])
def test_the_expected_read_stays_whole_steps_once_the_tokens_are_counted(total, read):
    rules = ("system", "r" * 8_500)
    chains = PrefixChainIndex()
    chains.record_call(sent_chat(INTERVAL, rules, ("user", "a" * 5_000)), None, 0)
    expected = chains.expect_read(sent_chat(INTERVAL, rules, ("user", "b" * 5_000)), 10)

    assert expected.tokens == 2_048
    assert expected.rescale(total).tokens == read


def test_a_prompt_that_was_counted_is_counted_right_where_another_goes_on_from_it():
    chains = PrefixChainIndex()
    chains.record_call(sent_chat(VLLM, ("user", "a" * 3_000)), Usage(input=3_200), 0)

    expected = chains.expect_read(sent_chat(VLLM, ("user", "a" * 3_000), ("user", "b" * 3_000)), 1)

    assert (expected.tokens, expected.known) == (3_200, 3_200)
    assert expected.scale.total > 6_000
    assert expected.rescale(4_000).known == 3_200
    assert expected.rescale(3_200).known == 3_200
    assert expected.rescale(1_000).known < 1_000


def test_a_tail_is_counted_apart():
    chains = PrefixChainIndex()
    chains.record_call(users(VLLM, ("a", 900), ("tail", 100), tail=1), Usage(input=2_000), 0)

    assert chains.expect_read(users(VLLM, ("a", 900), ("b", 2_000)), 1).known == 1_800


def test_calls_that_begin_alike_are_counted_for_a_minute():
    chains = PrefixChainIndex()
    call = users(INTERVAL, ("a", 3_000), ("b", 10))
    for second in range(20):
        chains.record_call(call, None, second)

    other = users(INTERVAL, ("a", 3_000), ("c", 10))
    assert chains.expect_read(other, 20).calls == 20
    assert chains.expect_read(other, 60).calls == 0
    chains.record_call(call, None, 61)
    assert chains.expect_read(other, 62).calls == 1


def test_an_empty_prompt_is_expected_to_read_nothing():
    chains = PrefixChainIndex()
    empty = SentCall(regime=VLLM)
    chains.record_call(empty, None, 0)

    assert chains.expect_read(empty, 1).tokens == 0


def test_a_first_prompt_is_written_up_to_its_last_mark_and_fresh_behind_it():
    call = users(ANTHROPIC, ("a", 2_000), ("b", 500), ("c", 100), marks={0: "1h", 1: "5m"})

    usage = expected_usage(call, PrefixChainIndex().expect_read(call, 0.0), 2_600)

    assert usage == Usage(write_1h=2_000, write_5m=500, input=100)


def test_a_prompt_too_short_for_its_cache_writes_nothing():
    call = users(OPENAI, ("a", 900))

    assert expected_usage(call, PrefixChainIndex().expect_read(call, 0.0), 900) == Usage(input=900)


def test_where_writes_are_free_nothing_is_charged_for_them():
    call = users(INTERVAL, ("a", 5_000))

    assert expected_usage(call, PrefixChainIndex().expect_read(call, 0.0), 5_000) == Usage(
        input=5_000
    )


def test_an_extended_message_is_not_read_up_to_its_old_end_from_gpt_5_6_on():
    chains, marks = PrefixChainIndex(), {1: ""}
    chains.record_call(one_message(OPENAI, ("a", 2_000), ("b", 500), marks=marks), None, 0)

    longer = one_message(OPENAI, ("a", 2_000), ("b", 500), ("c", 100), marks=marks)
    assert (chains.expect_read(longer, 1).tokens, chains.expect_read(longer, 1).known) == (0, 2_500)
    messages = users(OPENAI, ("a", 2_000), ("b", 500), ("c", 100), marks=marks)
    assert chains.expect_read(messages, 1).tokens == 2_500


def test_an_extended_message_is_read_up_to_a_mark_within_both():
    chains = PrefixChainIndex()
    chains.record_call(one_message(OPENAI, ("a", 2_000), ("b", 500), marks={0: ""}), None, 0)

    longer = one_message(OPENAI, ("a", 2_000), ("b", 500), ("c", 100), marks={0: ""})
    assert chains.expect_read(longer, 1).tokens == 2_000


def test_an_extended_message_is_read_up_to_its_old_end_at_anthropic():
    chains, marks = PrefixChainIndex(), {1: "5m"}
    chains.record_call(one_message(ANTHROPIC, ("a", 2_000), ("b", 500), marks=marks), None, 0)

    longer = one_message(ANTHROPIC, ("a", 2_000), ("b", 500), ("c", 100), marks=marks)
    assert chains.expect_read(longer, 1).tokens == 2_500


def test_an_index_counts_the_bytes_of_each_kind_of_entry():
    chains = PrefixChainIndex()
    chains.record_call(users(INTERVAL, ("a", 3_000)), Usage(input=3_000), 0.0)
    marked = users(ANTHROPIC, ("a", 3_000), marks={0: "5m"})
    chains.record_call(marked, Usage(write_5m=3_000), 0.0)

    sizes = [index.size_bytes for index in chains.indexes]
    assert sizes == [110, 110, 250, 0, 0, 0, 200]
