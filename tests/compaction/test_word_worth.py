import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.facts.message_worth import region_words
from compaction.value_tokens import SPACELESS_SCRIPTS
from compaction.word_worth import text_size, words_of, worth_of_pieces
from tests.compaction.facts.regions import assistant, call_and_result, read_contents, user

DESK = [
    user("Where is my order W-4711? I ordered it a while ago and it never came."),
    assistant("It waits in Oslo. I can send order W-4711 again. Would you like that?"),
    user("Yes please, that would be nice of you."),
    assistant("Well then, it would be nice to have your street."),
]


def words_in(*turns, **fields):
    return region_words(read_contents(*turns, **fields))


def first_worth(words, word):
    return words.first[word] if word in words.telling_words(word) else 0.0


def test_name_in_a_script_without_spaces_is_found_wherever_it_begins():
    name = set(words_of("富豪宾馆"))

    assert name <= set(words_of("推荐富豪宾馆。"))
    assert name <= set(words_of("您推荐富豪宾馆。"))


@given(st.text(alphabet="ab7_. @/-\u2192\u00b6\u2026\u00e9\u4f60\u597d\u0301\u00b2"))
def test_signs_between_words_change_none_of_them(text):
    letters = rf"[^\W{SPACELESS_SCRIPTS}]"
    words = re.findall(rf"{letters}+(?:[.@/-]{letters}+)*", text)
    pairs = re.findall(rf"(?=([{SPACELESS_SCRIPTS}]{{2}}))", text)

    assert words_of(text) == words + pairs


def test_words_of_any_script_are_found():
    assert words_of("Send W-4711, now: src/app.py!") == ["Send", "W-4711", "now", "src/app.py"]
    assert words_of("营业到十点 now") == ["now", "营业", "业到", "到十", "十点"]
    assert words_of("Прага, 12") == ["Прага", "12"]


def test_figures_are_worth_more_than_names_and_names_more_than_short_words():
    words = words_in(*DESK)

    assert first_worth(words, "W-4711") > first_worth(words, "Oslo") > first_worth(words, "street")
    assert first_worth(words, "it") == 0.0


@pytest.mark.parametrize(
    ("word", "first", "again"),
    [
        ("W-12", 1.0 + 4 * 0.5, 0.1),
        ("W-123456789-of-a-long-kind", 1.0 + 12 * 0.5, 0.1),
        ("Unseen", 6 * 0.35, 0.1),
        ("extraordinarily", 10 * 0.1, 0.4),
        ("Rome", 4 * 0.35 * 2.0, 0.1),
        ("Oslo", 4 * 0.35 * 2.0 * 0.7124, 0.1),
        ("Bonn", 4 * 0.35 * 1.4 * 0.7124, 0.1),
    ],
    ids=["figure", "long", "name", "plain", "named later", "said twice", "in two results"],
)
def test_worth_of_a_word_and_the_share_that_is_left_where_it_stands_again(word, first, again):
    orders = [call_and_result("order", "from Bonn", f"c{n}", number=n) for n in (1, 2)]
    spoken = [user("Send W-4711 to Oslo."), assistant("Oslo gets it."), *orders]
    words = words_in(*spoken, user("Is Rome near?"), assistant("Yes."), end=6, point=8)

    assert first_worth(words, word) == pytest.approx(first, rel=1e-3)
    assert words.again[word] / words.first[word] == pytest.approx(again, rel=1e-3)


def test_a_word_that_later_messages_name_is_worth_more():
    turns = [*DESK, user("Which street?"), assistant("Where do you live?")]
    seen, unseen = (words_in(*turns, end=4, point=point) for point in (6, 4))

    assert first_worth(seen, "street") > first_worth(unseen, "street")
    assert first_worth(seen, "Oslo") == first_worth(unseen, "Oslo")


def test_a_word_that_only_records_repeat_is_worth_less_than_one_that_is_spoken_of():
    words = words_in(
        user("Was it sent to Bonn?"),
        *call_and_result("order", "from Oslo", "c1", number=1),
        *call_and_result("order", "from Oslo to Bonn", "c2", number=2),
    )

    assert first_worth(words, "Oslo") < first_worth(words, "Bonn")


def test_a_word_that_stands_is_worth_little_again():
    words = words_in(*DESK)
    first, again = first_worth(words, "W-4711"), words.again["W-4711"]

    assert 0 < 2 * again < first


def test_the_worth_of_words_is_the_same_in_whatever_order_they_are_added():
    words = words_in(*DESK)
    worths = [words.first[word] for word in sorted(words.telling_words(str(DESK)))]
    orders = [worths[place:] + worths[:place] for place in range(len(worths))]

    assert len(worths) > 8
    assert len({sum(order) for order in orders}) == 1


def test_the_worth_of_a_text_does_not_depend_on_the_form_that_it_stands_in():
    part = read_contents(*DESK)
    words, factors = region_words(part), {1: 1.0}
    text = DESK[1]["content"]

    whole = worth_of_pieces(words, factors, [(1, text)])
    cut = worth_of_pieces(words, factors, [(1, text[:40])])

    assert whole == worth_of_pieces(words, factors, [(1, text.replace(" ", "\n"))]) > cut > 0


def test_the_size_of_a_text_counts_bytes_of_other_scripts():
    assert (text_size("abc"), text_size("东京"), text_size("\ud800")) == (3, 6, 1)


@pytest.mark.parametrize("piece", ["a", "a.", "a-", "日", "9/", "\n", "Ab"])
def test_no_text_takes_long(piece):
    before = time.process_time()
    words = words_in(user(piece * 50_000))
    words.telling_words(piece * 50_000)

    assert time.process_time() - before < 1
