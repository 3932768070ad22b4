import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.similarity.gates import Gate, refusing_gate
from proxy.fast_path.similarity.questions import read_question
from tests.bench.similarity.hard_negatives import hard_negatives

SENTENCES = [
    "how do i freeze my account",
    "My card has not arrived yet",
    "Can you tell me where the nearest branch is?",
    "what are the opening hours",
    "please move my appointment",
    "Is there a fee for transfers abroad",
    "The deploy of the service failed",
    "Translate this letter for me",
]


def gate(query: str, cached: str) -> Gate | None:
    one, other = read_question(query), read_question(cached)
    assert one is not None
    assert other is not None
    return refusing_gate(one, other)


@pytest.mark.parametrize(
    ("query", "cached", "expected"),
    [
        ("where is my card", "wo ist meine Karte", Gate.LANGUAGE),
        ("send 50 to my mother", "send 60 to my mother", Gate.NUMBERS),
        ("the weather in Rome please", "please the weather in Oslo", Gate.NAMES),
        ("is the shop open", "is the shop not open", Gate.NEGATION),
        ("block my card", "block my card unless i call", Gate.NEGATION),
        ("block all cards", "block the cards", Gate.NEGATION),
        ("meet me on monday", "meet me on friday", Gate.UNITS_DATES),
        ("how heavy is 5 kg", "how heavy is 5 lbs", Gate.UNITS_DATES),
        ("what is my name", "what is your name", Gate.PERSON_TIME_PLACE),
        ("when does it open", "where does it open", Gate.PERSON_TIME_PLACE),
        ("please increase the limit", "the limit please decrease it", Gate.OPPOSITE),
        ("unlock the door please", "please lock the door", Gate.OPPOSITE),
        ("move 5 from savings to checking", "move 5 from checking to savings", Gate.ORDER),
        ("is paris bigger than rome", "is rome bigger than paris", Gate.ORDER),
        ("what is the weather in denver", "what is the weather in boston", Gate.EXCHANGED_WORD),
        ("block my card", "block my stolen card", Gate.ADDED_WORDS),
        ("is it for children younger than ten", "is it for children of ten", Gate.NEGATION),
        ("paris: tell me the weather", "lima: tell me the weather", Gate.NAMES),
        (
            "datasets can be loaded from cloud storage buckets",
            "cloud storage holds much that old office computers load when datasets grow",
            Gate.LITTLE_SHARED,
        ),
        (
            "say it in spanish if it rains",
            "say it in spanish if the sum is large",
            Gate.EXCHANGED_OBJECT,
        ),
    ],
)
def test_small_difference_that_changes_a_question_is_refused(query, cached, expected):
    assert gate(query, cached) is expected
    assert gate(cached, query) is not None


@pytest.mark.parametrize(
    ("query", "cached"),
    [
        ("how do i freeze my account", "How can I freeze my account?"),
        ("please tell me my balance", "what's my balance"),
        ("when will my card arrive", "when is my card arriving"),
        ("show me two offers", "can you show me 2 offers"),
        ("is my acount verified", "is my account verified"),
        ("buy a big house", "purchase a large house"),
    ],
)
def test_paraphrases_pass_all_gates(query, cached):
    assert gate(query, cached) is None


def test_no_hard_negative_passes_the_gates():
    pairs = hard_negatives([(text, text) for text in SENTENCES], 4_000, seed=7)

    assert [pair for pair in pairs if gate(pair.asked, pair.kept) is None] == []


@given(st.text(min_size=1, max_size=80).filter(str.strip))
def test_text_passes_the_gates_to_itself(text):
    assert gate(text, text) is None


@given(st.sampled_from(SENTENCES), st.integers(0, 10**6), st.integers(0, 10**6))
def test_exchanged_number_never_passes(sentence, one, other):
    expected = None if one == other else Gate.NUMBERS

    assert gate(f"{sentence} {one}", f"{sentence} {other}") is expected
