import pytest

from compaction.language.proper_names import proper_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I live with Anna Berg in Golden Gate Park.", ["Anna Berg", "Golden Gate Park"]),
        ("We stay near the old mill in Cambridge, if that is fine.", ["Cambridge"]),
        ("Ask for Joe's Diner; it is (Old Royal Hall) now.", ["Joe's Diner", "Old Royal Hall"]),
        ("Anna Berg", ["Anna Berg"]),
        ("Он говорил вчера вечером с Анной Петровой.", ["Анной Петровой"]),
        ("Ich habe der Firma Müller Bau geschrieben.", ["Firma Müller Bau"]),
    ],
)
def test_words_with_a_capital_within_a_sentence_name_something(text, names):
    assert list(proper_names(text)) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Thanks. Please book it on Monday, and I pay.",
        "Ich brauche die Rechnung und den Lieferschein.",
        "我住在北京。",
        "Sure",
        "the old mill",
    ],
)
def test_first_words_nouns_and_days_name_nothing(text):
    assert list(proper_names(text)) == []


def test_a_name_has_at_most_five_words():
    five = "Anna Berta Carla Dora Emma"

    assert list(proper_names(f"I met {five}")) == list(proper_names(five)) == [five]
    assert list(proper_names(f"I met {five} Frieda")) == []
    assert list(proper_names(f"{five} Frieda Greta")) == []


def test_one_capital_in_over_six_words_is_a_name():
    assert list(proper_names("we all live in old Berlin now")) == ["Berlin"]
    assert list(proper_names("we live in old Berlin now")) == []
