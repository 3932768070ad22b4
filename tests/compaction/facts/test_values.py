from compaction.facts.values import Kept, asked_with, bag, gathered, ranked, seen, told, values
from compaction.reading.message import Voice
from tests.compaction.facts.regions import assistant, called, parted, texts, user

VOICES = (Voice.RESULT, Voice.ASSISTANT)


def test_what_was_worked_out_stays_where_nothing_kept_says_it():
    part = parted(
        user("go"), assistant("1. KLT417 at 06:00 costs $121, with tax **$127.50**, ada_vo")
    )

    assert texts(values(part, Kept("[KLT417 06:00:00 price:121]"))) == ["$127.50, ada_vo"]
    assert not texts(values(parted(user("go"), assistant("So be it.\n</end_of_plan>.")), Kept("")))
    assert texts(values(parted(assistant("Nothing new.")), Kept(""))) == []


def test_it_is_said_once():
    part = parted(assistant("It is $127."), assistant("As I said, $127."))

    assert texts(values(part, Kept(""))) == ["$127"]


def test_days_whose_month_is_a_word_and_sentences_that_are_kept_need_no_line():
    part = parted(assistant("On May 28, 2024 or 3rd of June it is $12 for Z1X9."))

    assert texts(values(part, Kept(""))) == ["$12, Z1X9"]
    assert texts(values(part, Kept("It is $12. Take Z1X9."))) == []


def missing(part, kept):
    return gathered([*told(part, VOICES), *asked_with(part)], kept)


def test_a_bag_holds_values_that_are_kept_nowhere():
    part = parted(
        called("get", '{"id": "Z1", "to": "JFK"}', at="K9"), assistant("That is $12 for Z1")
    )

    assert texts(bag(part, missing(part, "get(to:JFK)"))) == ["Z1 $12 K9"]
    assert texts(bag(part, missing(part, "Z1 JFK 12 K9"))) == []


def test_several_words_stand_where_they_stand_together():
    part = parted(called("get", '["Mei Brown", "Mei Li"]'))

    assert missing(part, "Mei Brown met Li") == ["Mei Li"]


def test_values_that_came_again_are_worth_more_and_then_the_newest():
    part = parted(*(called("get", f'["{each}"]') for each in ("Z1", "Z2", "Z3", "Z1")))

    assert ranked(seen(told(part, VOICES))) == ["Z1", "Z3", "Z2"]
