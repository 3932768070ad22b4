from compaction.facts.values import Kept, asked_with, bag, ranked, seen, told, values
from compaction.reading.message import Voice
from tests.compaction.facts.regions import assistant, called, parted, texts, user

VOICES = (Voice.RESULT, Voice.ASSISTANT)


def test_what_was_worked_out_stays_where_nothing_kept_says_it():
    part = parted(user("go"), assistant("KLT417 at 06:00 costs $121, with tax **$127.50**, ada_vo"))

    assert texts(values(part, Kept("[KLT417 06:00:00 price:121]"))) == [
        "KLT417 at 06:00 costs $121, with tax **$127.50**, ada_vo"
    ]
    assert not texts(values(parted(user("go"), assistant("So be it.\n</end_of_plan>.")), Kept("")))
    assert texts(values(parted(assistant("Nothing new.")), Kept(""))) == []


def test_it_is_said_once():
    part = parted(assistant("It is $127."), assistant("As I said, $127."))

    assert texts(values(part, Kept(""))) == ["It is $127."]


def test_days_whose_month_is_a_word_and_sentences_that_are_kept_need_no_line():
    part = parted(assistant("On May 28, 2024 or 3rd of June it is $12 for Z1X9."))

    assert texts(values(part, Kept(""))) == ["On May 28, 2024 or 3rd of June it is $12 for Z1X9."]
    assert texts(values(part, Kept("It is $12. Take Z1X9."))) == []


def test_a_value_stays_within_its_sentence_and_goes_where_that_is_long():
    part = parted(assistant(f"Fine. W1 costs $20, W2 $30. {'And so on ' * 40} it is $40."))

    assert texts(values(part, Kept("W1 W2"))) == ["W1 costs $20, W2 $30."]


def test_names_stand_on_a_line():
    part = parted(called("get", '{"id": "Z1", "to": "JFK"}', at="K9"))

    assert texts(bag(part, ["Z1", "K9"])) == ["Z1 K9"]
    assert texts(bag(part, [])) == []
    assert list(seen(asked_with(part))) == ["K9"]


def test_several_words_stand_where_they_stand_together():
    kept = Kept("Mei Brown met Li")

    assert "Mei Brown" in kept
    assert "Mei Li" not in kept


def test_values_that_came_again_are_worth_more_and_then_the_newest():
    part = parted(*(called("get", f'["{each}"]') for each in ("Z1", "Z2", "Z3", "Z1")))

    assert ranked(seen(told(part, VOICES))) == ["Z1", "Z3", "Z2"]
