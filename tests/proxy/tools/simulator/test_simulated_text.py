"""English that nobody wrote."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.simulator.simulated_text import MARK, pieces, prose, refusal, seeded_random


@given(seed=st.integers(), words=st.integers(0, 400))
def test_prose_is_marked_and_about_as_long_as_asked(seed: int, words: int) -> None:
    text = prose(seeded_random(seed), "", words)

    assert text.startswith(MARK)
    assert text.endswith(".")
    assert words <= len(text.split()) <= max(words, 0) + 30


def test_prose_is_always_the_same_for_the_same_dice() -> None:
    assert prose(seeded_random(3), "the warranty", 40) == prose(
        seeded_random(3), "the warranty", 40
    )
    assert prose(seeded_random(3), "", 40) != prose(seeded_random(4), "", 40)


def test_prose_mentions_what_it_is_about() -> None:
    assert "warranty" in prose(seeded_random(3), "Is the warranty on?", 10)


def test_a_refusal_is_marked_too() -> None:
    assert refusal().startswith(MARK)


@given(text=st.text())
def test_pieces_join_to_the_text_again(text: str) -> None:
    assert "".join(pieces(text)) == (text if text.strip() else "")


def test_a_piece_is_a_few_words() -> None:
    assert pieces("one two three four ") == ["one two three", " four "]
