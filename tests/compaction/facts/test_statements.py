from compaction.facts.statements import MOST, kept, users
from tests.compaction.facts.regions import parted, texts, user


def test_words_stay_whole_and_in_order():
    assert texts(users(parted(user("a\n\n  b"), user("c")))) == ["a ¶   b", "c"]


def test_of_a_long_message_the_ends_stay_and_the_ids_between():
    long = f"first {'word ' * 2_000}order #W2378156 {'word ' * 2_000}last"

    text = kept(long, MOST)

    assert text.startswith("first word")
    assert text.endswith("word last")
    assert "#W2378156" in text
    assert "characters cut" in text
    assert len(text) < MOST + 300


def test_a_cut_without_ids_names_none():
    assert "in them" not in kept("word " * 4_000, MOST)


def test_of_several_users_it_is_said_who_speaks():
    said = {"role": "user", "name": "ali\nce" + "e" * 99, "content": "See"}

    assert texts(users(parted(said, user("And?")))) == [f"ali ¶ ce{'e' * 56}: See", "And?"]


def test_short_messages_stay_whole_however_far_others_are_cut():
    part = parted(user("word " * 50), user("word " * 500))

    short, long = texts(users(part, 100, 300))

    assert short == ("word " * 50).rstrip()
    assert len(long) < 200
