"""N-gram acceptance of recorded answers, without an engine."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.speculation.ngram_replay import NgramReplay, replay_ngrams

TOKENS = st.lists(st.integers(0, 5), max_size=80)


def replay(prompt, answer, depth=4):
    sums = NgramReplay()
    replay_ngrams(prompt, answer, depth, 2, 4, into=sums)
    return sums


def test_an_answer_that_repeats_its_prompt_takes_few_steps():
    text = list(range(100))
    sums = replay(text, text)

    assert sums.accepted >= sums.draft_tokens - 4  # the last draft goes beyond the end
    assert sums.tokens_per_step > 4


def test_an_answer_that_repeats_nothing_has_no_drafts():
    sums = replay(range(100), range(100, 200))

    assert (sums.drafts, sums.tokens_per_step) == (0, 1.0)


@given(TOKENS, TOKENS, st.integers(1, 6))
def test_a_replay_makes_every_token_of_the_answer_and_accepts_no_more_than_it_drafts(
    prompt, answer, depth
):
    sums = replay(prompt, answer, depth)

    assert sums.tokens == len(answer)
    assert sums.accepted <= sums.draft_tokens <= depth * sums.drafts
    assert sums.full_drafts <= sums.drafts <= sums.steps <= len(answer)
    assert sums.tokens <= sums.accepted + sums.steps
