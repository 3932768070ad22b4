"""Section numbers are those of the provider reference the rules were taken from."""

from dataclasses import replace

import pytest

from proxy.caches.anthropic_breakpoint import (
    BEDROCK,
    AnthropicBreakpoints,
    AnthropicRules,
    lookback_blocks,
)
from proxy.caches.port import CachedPrompt, TokenBlock, Ttl
from tests.proxy.caches.prompts import block, call, prompt, written_tokens

SMALL = AnthropicRules(least=1)


def talk(count: int, *marks: int, start: int = 0, ttl: Ttl = "5m") -> CachedPrompt:
    """Blocks of 100 tokens, numbered from 1 as the documentation does, some of them marked."""
    return prompt(
        *(
            block(f"b{n}", 100, message=n, mark=ttl if n in marks else None)
            for n in range(1 + start, count + 1)
        )
    )


def probe(cache: AnthropicBreakpoints, sent_prompt: CachedPrompt) -> int:
    return cache.serve(sent_prompt, 0).read


def test_2_1_a_mark_at_35_looks_at_blocks_35_to_16() -> None:
    numbered = [index + 1 for index in lookback_blocks(talk(40).blocks, 34, lookback=20)]

    assert numbered == list(range(35, 15, -1))


@pytest.mark.parametrize(("stored", "read"), [(16, 1_600), (15, 0)])
def test_2_1_an_entry_nineteen_blocks_back_is_found_and_one_twenty_back_is_not(
    stored: int, read: int
) -> None:
    cache = AnthropicBreakpoints(SMALL)
    call(cache, talk(stored, stored))

    assert probe(cache, talk(35, 35)) == read


def test_2_1_the_lookup_resumes_at_the_next_mark() -> None:
    cache = AnthropicBreakpoints(SMALL)
    call(cache, talk(5, 5))

    assert probe(cache, talk(35, 35)) == 0
    assert probe(cache, talk(35, 35, 5)) == 500
    assert probe(cache, talk(35, 35, 10)) == 500


@pytest.mark.parametrize("kind", ["tool_use", "tool_result"])
def test_2_1_a_run_of_tool_blocks_is_one_position(kind: str) -> None:
    run = [block(f"r{n}", 10, message=1, kind=kind) for n in range(30)]
    sent_prompt = prompt(block("a", 100), *run, block("z", 100, message=2, mark="5m"))

    cache = AnthropicBreakpoints(SMALL)
    call(cache, prompt(block("a", 100, mark="5m")))
    bedrock = AnthropicBreakpoints(replace(BEDROCK, least=1))
    call(bedrock, prompt(block("a", 100, mark="5m")))

    assert probe(cache, sent_prompt) == 100
    assert probe(bedrock, sent_prompt) == 0


def test_2_1_tool_calls_and_their_results_are_two_positions() -> None:
    uses = [block(f"u{n}", 10, message=1, kind="tool_use") for n in range(3)]
    results = [block(f"r{n}", 10, message=2, kind="tool_result") for n in range(3)]
    sent_prompt = prompt(block("a", 100), *uses, *results)

    assert list(lookback_blocks(sent_prompt.blocks, 6, lookback=1)) == [6, 5, 4]
    assert list(lookback_blocks(sent_prompt.blocks, 6, lookback=2)) == [6, 5, 4, 3, 2, 1]
    assert list(lookback_blocks(sent_prompt.blocks, 6, lookback=3)) == [6, 5, 4, 3, 2, 1, 0]


def test_2_1_the_lookup_finds_earlier_writes_and_not_stable_content() -> None:
    """A mark on a block that changes every time never hits, however stable what precedes it."""
    cache = AnthropicBreakpoints(SMALL)
    for n in range(5):
        changing = block(f"date{n}", 10, message=9, mark="5m")
        served = call(cache, prompt(*talk(5).blocks, changing))

        assert (served.read, written_tokens(served)) == (0, 510)


def test_2_1_a_miss_rewrites_everything_up_to_the_mark() -> None:
    cache = AnthropicBreakpoints(SMALL)
    call(cache, talk(5, 5))
    changed = prompt(block("other", 100), *talk(5, 5, start=1).blocks)
    served = call(cache, changed)

    assert (served.read, written_tokens(served)) == (0, 500)


def test_2_1_writes_happen_at_marks_only() -> None:
    cache = AnthropicBreakpoints(SMALL)
    first = call(cache, talk(10, 4, 8))

    assert (first.read, first.written, first.fresh) == (0, {"5m": 800}, 200)
    assert len(cache) == 2
    assert probe(cache, talk(6, 6)) == 400


def test_2_1_without_a_mark_nothing_is_read_or_written() -> None:
    cache = AnthropicBreakpoints(SMALL)
    call(cache, talk(10, 10))
    served = call(cache, talk(10))

    assert (served.read, served.written, served.fresh) == (0, {}, 1_000)


@pytest.mark.parametrize(("ttl", "seconds"), [("5m", 300), ("1h", 3_600)])
def test_2_1_the_lifetime_runs_from_the_start_of_the_call_and_a_read_renews_it(
    ttl: Ttl, seconds: int
) -> None:
    sent_prompt = talk(10, 10, ttl=ttl)
    cache = AnthropicBreakpoints(SMALL)
    cache.serve(sent_prompt, 0)
    cache.begin_answer(sent_prompt, seconds - 1)

    assert cache.serve(sent_prompt, seconds).read == 1_000
    assert cache.serve(sent_prompt, 2 * seconds).read == 1_000
    assert cache.serve(sent_prompt, 3 * seconds + 1).read == 0


def test_2_1_streaming_longer_than_the_lifetime_leaves_nothing() -> None:
    sent_prompt = talk(10, 10)
    cache = AnthropicBreakpoints(SMALL)
    cache.serve(sent_prompt, 0)
    cache.begin_answer(sent_prompt, 301)

    assert cache.serve(sent_prompt, 301).read == 0


def test_2_1_parallel_calls_all_pay_until_the_first_answer_has_begun() -> None:
    sent_prompt = talk(10, 10)
    cache = AnthropicBreakpoints(SMALL)
    fan_out = [cache.serve(sent_prompt, 0) for _ in range(4)]
    cache.begin_answer(sent_prompt, 1)

    assert [written_tokens(served) for served in fan_out] == [1_000] * 4
    assert cache.serve(sent_prompt, 2).read == 1_000


def test_2_1_a_call_that_fails_leaves_nothing_to_read() -> None:
    cache = AnthropicBreakpoints(SMALL)
    cache.serve(talk(10, 10), 0)

    assert cache.serve(talk(10, 10), 1).read == 0


def test_2_1_mixed_lifetimes_are_billed_between_the_hit_the_hour_and_the_end() -> None:
    cache = AnthropicBreakpoints(SMALL)
    a = block("a", 1_000, mark="1h")
    call(cache, prompt(a))
    served = call(
        cache,
        prompt(
            a,
            block("b", 300, message=1, mark="1h"),
            block("c", 70, message=2, mark="5m"),
            block("d", 9, message=3),
        ),
    )

    assert served.read == 1_000
    assert served.written == {"1h": 300, "5m": 70}
    assert served.fresh == 9


def test_2_1_a_mark_with_a_longer_ttl_stands_first() -> None:
    wrong = prompt(block("a", 100, mark="5m"), block("b", 100, message=1, mark="1h"))

    with pytest.raises(ValueError, match="longer ttl must stand before"):
        AnthropicBreakpoints(SMALL).serve(wrong, 0)


def test_2_1_four_blocks_can_be_marked_and_not_five() -> None:
    assert written_tokens(AnthropicBreakpoints(SMALL).serve(talk(5, 1, 2, 3, 4), 0)) == 400
    with pytest.raises(ValueError, match="5 blocks are marked; at most 4"):
        AnthropicBreakpoints(SMALL).serve(talk(5, 1, 2, 3, 4, 5), 0)


@pytest.mark.parametrize(
    "unmarkable",
    [
        block("t", 5, role="assistant", kind="thinking", mark="5m"),
        block("t", 5, role="assistant", kind="redacted_thinking", mark="5m"),
        block("t", 0, mark="5m"),
    ],
)
def test_2_1_thinking_and_empty_texts_cannot_be_marked(unmarkable: TokenBlock) -> None:
    with pytest.raises(ValueError, match="cannot be marked"):
        AnthropicBreakpoints().serve(prompt(unmarkable), 0)


def test_2_1_thinking_is_cached_inside_a_prefix() -> None:
    def prompt_with(thought: str) -> CachedPrompt:
        inner = block(thought, 50, role="assistant", message=1, kind="thinking")
        return prompt(block("a", 100), inner, block("b", 100, message=2, mark="5m"))

    cache = AnthropicBreakpoints(SMALL)
    call(cache, prompt_with("deep"))

    assert probe(cache, prompt_with("deep")) == 250
    assert probe(cache, prompt_with("shallow")) == 0


def test_2_1_only_5m_and_1h_are_lifetimes() -> None:
    with pytest.raises(ValueError, match="5m or 1h, not 30m"):
        AnthropicBreakpoints().serve(talk(1, 1, ttl="30m"), 0)


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("claude-opus-5-5", 512),
        ("claude-sonnet-5-5", 512),
        ("claude-haiku-5-5", 512),
        ("claude-opus-4-8", 1_024),
        ("claude-sonnet-4-6", 1_024),
        ("claude-opus-4-7", 2_048),
        ("claude-opus-4-6", 4_096),
        ("claude-haiku-4-5", 4_096),
    ],
)
def test_2_2_below_the_model_s_least_tokens_a_mark_is_silently_ignored(
    model: str, least: int
) -> None:
    cache = AnthropicBreakpoints(AnthropicRules(least=least))
    short = call(cache, prompt(block("a", least - 1, mark="5m")))
    again = call(cache, prompt(block("a", least - 1, mark="5m")))
    enough = call(cache, prompt(block("b", least, mark="5m")))

    assert (short.read, short.written, short.fresh) == (0, {}, least - 1)
    assert (again.read, again.written) == (0, {})
    assert enough.written == {"5m": least}


def test_2_2_a_short_hour_mark_does_not_make_later_tokens_an_hour_write() -> None:
    sent_prompt = prompt(block("a", 100, mark="1h"), block("b", 2_000, message=1, mark="5m"))

    assert AnthropicBreakpoints().serve(sent_prompt, 0).written == {"5m": 2_100}


@pytest.mark.parametrize(
    ("changed", "tokens_read"),
    [("tools", 0), ("system", 1_000), ("messages", 2_000), ("nothing", 3_000)],
)
def test_2_4_a_change_invalidates_its_level_and_all_later(changed: str, tokens_read: int) -> None:
    def prompt_with(changed: str) -> CachedPrompt:
        def name(level: str) -> str:
            return f"new {level}" if level == changed else level

        return prompt(
            block(name("tools"), 1_000, role="tools", message=-2, mark="1h"),
            block(name("system"), 1_000, role="system", message=-1, mark="1h"),
            block(name("messages"), 1_000, message=0, mark="5m"),
        )

    cache = AnthropicBreakpoints(SMALL)
    call(cache, prompt_with("nothing"))

    assert probe(cache, prompt_with(changed)) == tokens_read


def test_2_1_workspaces_do_not_share() -> None:
    cache = AnthropicBreakpoints(SMALL)
    sent_prompt = talk(10, 10)
    call(cache, replace(sent_prompt, scope="one"))

    assert probe(cache, replace(sent_prompt, scope="two")) == 0
    assert probe(cache, replace(sent_prompt, scope="one")) == 1_000


def test_2_1_a_read_renews_the_marks_before_it() -> None:
    cache = AnthropicBreakpoints(SMALL)
    call(cache, talk(10, 2, 10), now=0)
    call(cache, talk(10, 2, 10), now=200)

    assert cache.serve(talk(5, 2, 5), 400).read == 200


def test_4_bedrock_looks_back_about_twenty_blocks() -> None:
    for stored, read in ((16, 1_600), (15, 0)):
        cache = AnthropicBreakpoints(replace(BEDROCK, least=1))
        call(cache, talk(stored, stored))

        assert probe(cache, talk(35, 35)) == read


def test_2_7_keeping_the_previous_turn_s_mark_finds_it_after_a_long_turn() -> None:
    """A turn that adds twenty positions or more needs the mark of the turn before it."""
    cache = AnthropicBreakpoints(SMALL)
    call(cache, talk(10, 10))

    assert probe(cache, talk(30, 30)) == 0
    assert probe(cache, talk(30, 10, 30)) == 1_000
    assert probe(cache, talk(29, 29)) == 1_000


def test_the_least_recently_used_entry_goes_first() -> None:
    cache = AnthropicBreakpoints(AnthropicRules(least=1, most=3))
    for n in range(10):
        call(cache, prompt(block(f"a{n}", 10, mark="5m")))

    assert len(cache) == 3
    assert probe(cache, prompt(block("a9", 10, mark="5m"))) == 10
    assert probe(cache, prompt(block("a6", 10, mark="5m"))) == 0
