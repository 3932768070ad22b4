import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.similarity.questions import (
    MAX_QUESTION_CHARACTERS,
    Question,
    read_question,
    stem,
)


def question(text: str) -> Question:
    read = read_question(text)
    assert read is not None
    return read


def test_contractions_are_read_as_their_words():
    assert question("I can't, it's Bob's").words == ("i", "can", "not", "it", "bob")
    assert question("whats up, dont go").words[:2] == ("what", "is")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("send 1,000 now", ("1000",)),
        ("send two of 12.5", ("12.5", "2")),
        ("at 3pm for 5km", ("3", "5")),
        ("no one here", ()),
    ],
)
def test_numbers_are_read_in_one_way_of_writing(text, numbers):
    assert question(text).numbers == numbers


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Where does Anna live?", {"anna"}),
        ("Where? In Rome", {"rome"}),
        ("open 'my file' and a_b.txt", {"my file", "a_b.txt"}),
        ("order AB12 via NASA", {"ab12", "nasa"}),
        ("paris: the weather", {"paris"}),
        ("Can I go?", set()),
    ],
)
def test_names_are_read_by_how_they_are_written(text, names):
    found = question(text).names
    assert names <= found
    assert bool(found) == bool(names)


def test_units_written_as_letters_are_read_behind_numbers_only():
    assert "am" in question("at 3am").same_set
    assert question("i am here").same_set == ()


def test_condition_is_counted_by_its_own_word():
    assert question("do it unless i call").counted == (("unless", 1),)
    assert question("in case of fire run").counted == (("provided", 1),)
    assert question("tell me if it works").counted == ()
    assert question("help me if it rains").counted == (("if", 1),)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("where is my card", "en"),
        ("wo ist meine Karte", "de"),
        ("où est ma carte", "fr"),
        ("где моя карта", "CYRILLIC"),
        ("freeze account", ""),
    ],
)
def test_language_is_told_by_function_words_or_script(text, language):
    assert question(text).language == language


def test_empty_and_overlong_texts_are_not_read():
    assert read_question("  ") is None
    assert read_question("a" * (MAX_QUESTION_CHARACTERS + 1)) is None


def test_stem_joins_forms_of_a_word():
    assert stem("cards") == stem("card")
    assert stem("arrived") == stem("arrive") == stem("arriving")
    assert stem("stopped") == stem("stop")
    assert stem("123") == "123"


@given(st.text(max_size=200))
def test_any_text_is_read_the_same_way_each_time(text):
    assert read_question(text) == read_question(text)
