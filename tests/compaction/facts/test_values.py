from compaction.facts.values import (
    KeptWords,
    argument_values,
    count_occurrences,
    names_fact,
    rank_values,
    stated_values,
    value_facts,
)
from compaction.reading.message import Voice
from tests.compaction.facts.regions import assistant, call_and_result, read_contents, texts, user

VOICES = (Voice.RESULT, Voice.ASSISTANT)


def test_a_derived_value_stays_unless_a_kept_line_holds_it():
    part = read_contents(
        user("go"), assistant("KLT417 at 06:00 costs $121, with tax **$127.50**, ada_vo")
    )

    assert texts(value_facts(part, KeptWords("[KLT417 06:00:00 price:121]"))) == [
        "KLT417 at 06:00 costs $121, with tax **$127.50**, ada_vo"
    ]
    assert not texts(
        value_facts(
            read_contents(user("go"), assistant("So be it.\n</end_of_plan>.")), KeptWords("")
        )
    )
    assert texts(value_facts(read_contents(assistant("Nothing new.")), KeptWords(""))) == []


def test_a_derived_value_is_said_once():
    part = read_contents(assistant("It is $127."), assistant("As I said, $127."))

    assert texts(value_facts(part, KeptWords(""))) == ["It is $127."]


def test_days_whose_month_is_a_word_and_sentences_that_are_kept_need_no_line():
    part = read_contents(assistant("On May 28, 2024 or 3rd of June it is $12 for Z1X9."))

    assert texts(value_facts(part, KeptWords(""))) == [
        "On May 28, 2024 or 3rd of June it is $12 for Z1X9."
    ]
    assert texts(value_facts(part, KeptWords("It is $12. Take Z1X9."))) == []


def test_a_value_stays_within_its_sentence_and_goes_where_that_is_long():
    part = read_contents(assistant(f"Fine. W1 costs $20, W2 $30. {'And so on ' * 40} it is $40."))

    assert texts(value_facts(part, KeptWords("W1 W2"))) == ["W1 costs $20, W2 $30."]


def test_names_stand_on_a_line():
    part = read_contents(call_and_result("get", '{"id": "Z1", "to": "JFK"}', at="K9"))

    assert texts(names_fact(part, ["Z1", "K9"])) == ["Z1 K9"]
    assert texts(names_fact(part, [])) == []
    assert list(count_occurrences(argument_values(part))) == ["K9"]


def test_several_words_stand_where_they_stand_together():
    kept_words = KeptWords("Mei Brown met Li")

    assert "Mei Brown" in kept_words
    assert "Mei Li" not in kept_words


def test_values_that_came_again_are_worth_more_and_then_the_newest():
    part = read_contents(
        *(call_and_result("get", f'["{code}"]') for code in ("Z1", "Z2", "Z3", "Z1"))
    )

    assert rank_values(count_occurrences(stated_values(part, VOICES))) == ["Z1", "Z3", "Z2"]
