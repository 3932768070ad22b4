import pytest

from proxy.tools.bench.prompts import FEW_WORDS, MANY_WORDS, PromptWriter, TokenRatio


def common(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((n for n, (first, second) in enumerate(pairs) if first != second), len(one))


def test_a_cold_prompt_shares_no_first_word_with_any_other():
    writer = PromptWriter("seed", 0.9)
    prompts = [writer.cold_prompt(50) for _ in range(300)]

    assert len({prompt.split()[0] for prompt in prompts}) == 300


def test_a_cold_prompt_of_another_run_differs_from_its_first_word_on():
    first, second = (
        PromptWriter("one", 0.9).cold_prompt(50),
        PromptWriter("two", 0.9).cold_prompt(50),
    )

    assert first.split()[0] != second.split()[0]


def test_warm_prompts_share_their_beginning_and_end_with_words_of_their_own():
    writer = PromptWriter("seed", 0.9)
    first, second = writer.warm_prompt(1000), writer.warm_prompt(1000)

    assert common(first, second) > 0.85 * len(first)
    assert first != second
    assert common(first, writer.cold_prompt(1000)) < 3


def test_warm_prompts_of_another_length_have_another_beginning():
    writer = PromptWriter("seed", 0.5)

    assert writer.warm_prompt(100).split()[0] != writer.warm_prompt(200).split()[0]


def test_words_for_a_length_come_from_the_tokens_that_the_server_counts():
    ratio = TokenRatio.from_usage(30 + 2 * FEW_WORDS, 30 + 2 * MANY_WORDS)

    assert ratio == TokenRatio(2.0, 30.0, is_estimate=False)
    assert ratio.words(2030) == 1000


@pytest.mark.parametrize(("few", "many"), [(None, 300), (20, None), (300, 300)])
def test_without_usable_counts_words_are_an_estimate(few, many):
    assert TokenRatio.from_usage(few, many).is_estimate


def test_a_prompt_has_a_word_at_least():
    assert TokenRatio(1.0, 100.0, is_estimate=False).words(10) == 1
