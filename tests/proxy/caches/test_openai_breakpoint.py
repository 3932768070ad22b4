"""Section numbers are those of the provider reference the rules were taken from."""

import pytest

from proxy.caches.openai_breakpoint import (
    AZURE,
    OPENAI,
    OpenAIBreakpointRules,
    OpenAIBreakpoints,
    implicit_breakpoints,
)
from proxy.caches.port import CachedPrompt, TokenBlock
from tests.proxy.caches.prompts import block, call, prompt, users, written_tokens

SMALL = OpenAIBreakpointRules(least=1)
#: As the guide has it. Source: OpenAI, prompt caching guide (2026-09).
GUIDE = OpenAIBreakpointRules(first_read=2, latest_read=50)


def chat(*stretches: tuple[str, int], mark_first: bool = False) -> CachedPrompt:
    """A developer message and user messages, the first block marked if so asked."""
    (name, count), *rest = stretches
    head = block(name, count, role="developer", mark="30m" if mark_first else None)
    tail = [block(name, count, message=index + 1) for index, (name, count) in enumerate(rest)]
    return prompt(head, *tail)


def test_1_2_twelve_thousand_are_written_and_the_next_fifteen_thousand_write_three() -> None:
    cache = OpenAIBreakpoints()
    first = call(cache, users(("a", 12_000)))
    second = call(cache, users(("a", 12_000), ("b", 3_000)), now=60)

    assert (first.read, first.written, first.fresh) == (0, {"30m": 12_000}, 0)
    assert (second.read, second.written, second.fresh) == (12_000, {"30m": 3_000}, 0)


def test_1_2_gotcha_1_a_stable_prompt_before_one_varying_message_never_hits_and_always_pays() -> (
    None
):
    cache = OpenAIBreakpoints()
    served = [call(cache, chat(("rules", 6_001), (f"q{n}", 1_520)), now=n) for n in range(20)]

    assert all(one.read == 0 for one in served)
    assert all(one.written == {"30m": 7_521} for one in served)


def test_1_2_gotcha_1_marking_the_stable_part_makes_it_hit() -> None:
    cache = OpenAIBreakpoints()
    call(cache, chat(("rules", 6_001), ("q1", 1_520), mark_first=True))
    second = call(cache, chat(("rules", 6_001), ("q2", 1_520), mark_first=True))

    assert (second.read, second.written) == (6_001, {"30m": 1_520})


def test_1_2_gotcha_1_litellm_writes_6001_then_reads_exactly_6001_of_7521() -> None:
    def prompt_with(question: str) -> CachedPrompt:
        return prompt(
            block("rules", 6_001, role="developer", mark="30m"),
            block(question, 1_520, message=1),
            explicit=True,
        )

    cache = OpenAIBreakpoints()
    first, second = call(cache, prompt_with("q1")), call(cache, prompt_with("q2"))

    assert (first.read, written_tokens(first), first.fresh) == (0, 6_001, 1_520)
    assert (second.read, written_tokens(second), second.fresh) == (6_001, 0, 1_520)


def test_1_2_the_end_of_the_developer_block_is_looked_up_though_not_written() -> None:
    cache = OpenAIBreakpoints()
    call(cache, chat(("rules", 2_000), ("q1", 10), mark_first=True))
    unmarked = call(cache, chat(("rules", 2_000), ("q2", 10)))

    assert unmarked.read == 2_000


def test_1_2_a_developer_message_alone_is_the_latest_eligible_one_and_is_written() -> None:
    cache = OpenAIBreakpoints()
    alone = call(cache, chat(("rules", 2_000)))
    followed = call(cache, chat(("rules", 2_000), ("q", 10)))

    assert alone.written == {"30m": 2_000}
    assert followed.read == 2_000


def test_1_2_the_end_of_the_developer_block_is_found_beyond_twenty_message_ends() -> None:
    cache = OpenAIBreakpoints()
    call(cache, chat(("rules", 2_000)))
    long = chat(("rules", 2_000), *((f"q{n}", 10) for n in range(30)))

    assert call(cache, long).read == 2_000


def test_1_2_gotcha_2_extending_the_same_message_misses_and_appending_one_hits() -> None:
    extended = prompt(block("a", 2_000), block("b", 500))
    for longer, read in ((extended, 0), (users(("a", 2_000), ("b", 500)), 2_000)):
        cache = OpenAIBreakpoints()
        call(cache, users(("a", 2_000)))

        assert call(cache, longer).read == read


def test_1_2_gotcha_3_moving_from_implicit_to_explicit_misses_once() -> None:
    cache = OpenAIBreakpoints()
    call(cache, users(("a", 2_000)))
    marked = prompt(block("a", 2_000, mark="30m"), explicit=True)
    moved, again = call(cache, marked), call(cache, marked)

    assert (moved.read, written_tokens(moved)) == (0, 2_000)
    assert (again.read, written_tokens(again)) == (2_000, 0)


def test_1_2_gotcha_5_explicit_mode_without_marks_caches_nothing_and_costs_nothing() -> None:
    cache = OpenAIBreakpoints()
    once = prompt(block("a", 5_000), explicit=True)

    assert written_tokens(call(cache, once)) == 0
    assert call(cache, once).read == 0
    assert len(cache) == 0


def test_1_2_implicit_mode_writes_the_latest_three_marks_and_explicit_mode_four() -> None:
    for explicit, expected in ((False, 3), (True, 4)):
        marked = [block(f"m{n}", 100, message=n, mark="30m") for n in range(6)]
        cache = OpenAIBreakpoints(SMALL)
        call(cache, prompt(*marked, block("end", 7, message=6), explicit=explicit))
        reads = []
        for count in range(1, 7):
            probe = prompt(*marked[:count], block("other", 7, message=9), explicit=explicit)
            reads.append(cache.serve(probe, 0).read)

        assert reads == [0] * (6 - expected) + [100 * n for n in range(7 - expected, 7)]


def test_1_2_no_breakpoint_stands_below_1024_visible_tokens() -> None:
    cache = OpenAIBreakpoints()

    assert written_tokens(call(cache, users(("a", 1_023)))) == 0
    assert written_tokens(call(cache, users(("a", 1_024)))) == 1_024
    assert call(cache, users(("a", 1_024))).read == 1_024


def test_1_2_a_mark_below_1024_in_a_long_prompt_is_not_written() -> None:
    cache = OpenAIBreakpoints()
    sent_prompt = prompt(block("a", 1_000, mark="30m"), block("b", 9_000, message=1), explicit=True)

    assert written_tokens(call(cache, sent_prompt)) == 0


def test_1_2_what_is_read_ends_exactly_at_the_breakpoint() -> None:
    cache = OpenAIBreakpoints()
    call(cache, users(("a", 1_111)))

    assert call(cache, users(("a", 1_111), ("b", 5))).read == 1_111


def test_1_2_there_is_no_longest_unmarked_prefix() -> None:
    cache = OpenAIBreakpoints()
    call(cache, users(("a", 5_000), ("b", 5_000)))

    assert call(cache, users(("a", 5_000), ("c", 5_000))).read == 0


@pytest.mark.parametrize(("ttl", "seconds"), [("30m", 1_800), ("12h", 43_200)])
def test_1_2_an_entry_lives_for_its_ttl_since_the_last_write_or_reuse(
    ttl: str, seconds: int
) -> None:
    sent_prompt = prompt(block("a", 2_000, mark=ttl), explicit=True)  # type: ignore[arg-type]  # by name
    cache = OpenAIBreakpoints()

    assert call(cache, sent_prompt, now=0).written == {ttl: 2_000}
    assert call(cache, sent_prompt, now=seconds).read == 2_000
    assert call(cache, sent_prompt, now=2 * seconds).read == 2_000
    assert call(cache, sent_prompt, now=3 * seconds + 1).read == 0


def test_1_2_a_read_refreshes_the_shorter_breakpoints_of_the_prompt_too() -> None:
    def read_tokens(question: str, now: int) -> int:
        return call(
            cache,
            prompt(
                block("rules", 2_000, role="developer", mark="30m"),
                block(question, 2_000, message=1, mark="30m"),
                explicit=True,
            ),
            now=now,
        ).read

    cache = OpenAIBreakpoints()
    read_tokens("q1", 0)

    assert read_tokens("q1", 1_500) == 4_000
    assert read_tokens("q2", 3_000) == 2_000


def test_1_2_the_call_s_ttl_is_the_implicit_breakpoint_s() -> None:
    sent_prompt = prompt(block("a", 2_000), ttl="12h")

    assert call(OpenAIBreakpoints(), sent_prompt).written == {"12h": 2_000}


def test_1_2_a_token_is_charged_once_at_its_longest_lifetime() -> None:
    sent_prompt = prompt(
        block("a", 2_000, mark="30m"),
        block("b", 1_000, message=1, mark="12h"),
        block("c", 500, message=2, mark="30m"),
        block("d", 50, message=3, role="assistant"),
    )

    served = call(OpenAIBreakpoints(), sent_prompt)

    assert (served.written, served.fresh) == ({"12h": 3_000, "30m": 500}, 50)


def test_1_2_another_prompt_cache_key_misses() -> None:
    cache = OpenAIBreakpoints()
    call(cache, users(("a", 2_000), key="one"))

    assert call(cache, users(("a", 2_000), key="two")).read == 0
    assert call(cache, users(("a", 2_000), key="one")).read == 2_000


def test_1_4_organisations_do_not_share() -> None:
    cache = OpenAIBreakpoints()
    call(cache, users(("a", 2_000), scope="org-1"))

    assert call(cache, users(("a", 2_000), scope="org-2")).read == 0


def test_1_2_nothing_is_read_before_the_answer_that_stores_it_has_begun() -> None:
    cache = OpenAIBreakpoints()
    sent_prompt = users(("a", 2_000))
    cache.serve(sent_prompt, 0)

    assert cache.serve(sent_prompt, 1).read == 0
    cache.begin_answer(sent_prompt, 2)
    assert cache.serve(sent_prompt, 3).read == 2_000


@pytest.mark.parametrize(("rules", "reads"), [(OPENAI, 80), (GUIDE, 50), (AZURE, 50)])
def test_1_2_and_12_marks_are_looked_up_from_the_end_as_far_as_each_source_says(
    rules: OpenAIBreakpointRules, reads: int
) -> None:
    """The sources disagree: the SDK says 80, the guide 2 and 50, Azure 50."""
    for later, hit in ((reads - 1, True), (reads, False)):
        cache = OpenAIBreakpoints(rules)
        head = [block("x", 1), block("y", 1, message=1), block("a", 2_000, message=2, mark="30m")]
        call(cache, prompt(*head, explicit=True))
        front = [
            TokenBlock(role=b.role, tokens=b.tokens, message=b.message, mark="30m") for b in head
        ]
        tail = [block(f"t{n}", 1, message=3 + n, mark="30m") for n in range(later)]

        assert (cache.serve(prompt(*front, *tail, explicit=True), 0).read > 0) == hit


def test_1_2_the_guide_also_looks_up_the_first_two_marks() -> None:
    for rules, read in ((GUIDE, 2_000), (OPENAI, 0)):
        cache = OpenAIBreakpoints(rules)
        first = block("a", 2_000, mark="30m")
        call(cache, prompt(first, explicit=True))
        tail = [block(f"t{n}", 1, message=1 + n, mark="30m") for n in range(100)]

        assert cache.serve(prompt(first, *tail, explicit=True), 0).read == read


@pytest.mark.parametrize(("later", "read"), [(20, 2_000), (21, 0)])
def test_1_2_twenty_earlier_message_ends_are_looked_up_in_implicit_mode(
    later: int, read: int
) -> None:
    cache = OpenAIBreakpoints()
    call(cache, users(("a", 2_000)))
    grown = users(("a", 2_000), *((f"t{n}", 1) for n in range(later)))

    assert cache.serve(grown, 0).read == read


def test_1_2_eligible_are_user_messages_last_tool_answers_and_the_first_developer_group() -> None:
    sent_prompt = prompt(
        block("t", 1, role="tools", message=-1),
        block("s", 1, role="system", message=0),
        block("d", 1, role="developer", message=1),
        block("u", 1, message=2),
        block("v", 1, message=2),
        block("c", 1, role="assistant", message=3, kind="tool_use"),
        block("r", 1, role="tool", message=4),
        block("q", 1, role="tool", message=5),
        block("e", 1, role="developer", message=6),
        block("w", 1, message=7),
    )

    assert implicit_breakpoints(sent_prompt.blocks) == [2, 4, 7, 9]
    assert implicit_breakpoints(prompt(block("t", 1, role="tools")).blocks) == []
    assert implicit_breakpoints(prompt().blocks) == []


def test_1_2_consecutive_user_messages_each_end_one() -> None:
    assert implicit_breakpoints(users(("a", 1), ("b", 1)).blocks) == [0, 1]


@pytest.mark.parametrize("role", ["tools", "assistant"])
def test_1_2_tools_and_answers_take_no_mark(role: str) -> None:
    sent_prompt = prompt(block("a", 2_000, role=role, mark="30m"))  # type: ignore[arg-type]  # by name

    with pytest.raises(ValueError, match=f"cannot stand in {role}"):
        OpenAIBreakpoints().serve(sent_prompt, 0)


def test_1_6_azure_knows_the_30m_ttl_only() -> None:
    sent_prompt = prompt(block("a", 2_000, mark="12h"))

    with pytest.raises(ValueError, match="ttl is 30m, not 12h"):
        OpenAIBreakpoints(AZURE).serve(sent_prompt, 0)


def test_a_prompt_with_no_eligible_message_is_neither_read_nor_written() -> None:
    served = call(OpenAIBreakpoints(), prompt(block("a", 2_000, role="assistant")))

    assert (served.read, served.fresh, served.written) == (0, 2_000, {})


def test_the_least_recently_used_entry_goes_first() -> None:
    cache = OpenAIBreakpoints(OpenAIBreakpointRules(most=2))
    for name in ("a", "b", "a", "c"):
        call(cache, users((name, 2_000)))

    assert len(cache) == 2
    assert cache.serve(users(("a", 2_000)), 0).read == 2_000
    assert cache.serve(users(("b", 2_000)), 0).read == 0


def test_an_entry_that_was_dropped_before_its_answer_began_stays_dropped() -> None:
    cache = OpenAIBreakpoints(OpenAIBreakpointRules(most=1))
    cache.serve(users(("a", 2_000)), 0)
    cache.serve(users(("b", 2_000)), 0)
    cache.begin_answer(users(("a", 2_000)), 0)

    assert cache.serve(users(("a", 2_000)), 0).read == 0


def test_1_2_a_mark_at_exactly_1024_tokens_is_written() -> None:
    sent_prompt = prompt(block("a", 1_024, mark="30m"), explicit=True)

    assert written_tokens(call(OpenAIBreakpoints(), sent_prompt)) == 1_024


def test_1_2_a_user_message_of_two_blocks_ends_with_its_second_one() -> None:
    assert implicit_breakpoints(prompt(block("a", 1), block("b", 1)).blocks) == [1]


def test_1_2_only_the_developer_block_is_found_beyond_twenty_message_ends() -> None:
    cache = OpenAIBreakpoints()
    call(cache, chat(("rules", 100), ("q", 2_000)))
    long = chat(("rules", 100), ("q", 2_000), *((f"q{n}", 10) for n in range(30)))

    assert call(cache, long).read == 0


def test_a_read_does_not_hide_the_entry_from_others() -> None:
    cache = OpenAIBreakpoints()
    call(cache, users(("a", 2_000)))
    reads = [cache.serve(users(("a", 2_000)), 1).read for _ in range(3)]

    assert reads == [2_000] * 3
