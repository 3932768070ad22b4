"""Traits of a call are numbers of about 0 to 1, and bits of its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.small_first.call_traits import TRAIT_NAMES, read_traits, similarity


def trait(name, text, **given):
    traits = read_traits(text, **{"has_schema": False, "tools": 0, "turns": 1, **given})
    return traits.values[TRAIT_NAMES.index(name)]


def signature(text):
    return read_traits(text, has_schema=False, tools=0, turns=1).signature


@given(st.text(max_size=300), st.booleans(), st.integers(0, 1000), st.integers(0, 1000))
def test_every_trait_has_a_value_of_about_zero_to_one(text, has_schema, tools, turns):
    traits = read_traits(text, has_schema=has_schema, tools=tools, turns=turns)

    assert len(traits.values) == len(TRAIT_NAMES)
    assert all(0 <= value <= 2 for value in traits.values)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("exception words", "Which of these is NOT a mammal"),
        ("reasoning words", "Prove that the sum converges"),
        ("simple task words", "Translate this into French"),
        ("code", "def total(x): return x"),
        ("question", "Is it?"),
        ("other scripts", "\u0447\u0442\u043e \u044d\u0442\u043e"),
        ("digits", "12 and 34"),
    ],
)
def test_trait_is_seen_in_a_text_that_has_it(name, text):
    assert trait(name, text) > 0
    assert trait(name, "the cat sat on a mat") == 0


def test_form_of_the_request_is_part_of_the_traits():
    assert trait("schema", "", has_schema=True) == 1
    assert trait("tools", "", tools=40) == 1
    assert trait("turns", "", turns=9) > trait("turns", "", turns=1)


def test_middle_of_a_long_text_is_not_read():
    filler = "a" * 10_000

    assert trait("question", f"{filler}?{filler}") == 0
    assert trait("question", f"{filler}?") == 1


def test_texts_with_the_same_words_are_similar_and_others_are_not():
    text = "the capital of France is asked for by a pupil"

    assert similarity(signature(text), signature(text)) == 1
    assert similarity(signature(text), signature(f"{text} today")) > 0.7
    assert (
        similarity(signature(text), signature("solve for x in this equation of third degree")) < 0.3
    )
    assert similarity(0, 0) == 0
