from compaction.facts.goals import goals
from tests.compaction.facts.regions import assistant, parted, texts, user


def test_the_first_request_is_the_goal():
    part = parted(assistant("Welcome"), user(" "), user("Book a\nflight"), user("And a car"))

    assert texts(goals(part)) == ["Book a ¶ flight"]


def test_a_later_part_has_none():
    assert texts(goals(parted(user("Book"), user("Go on"), start=1))) == []
    assert texts(goals(parted(user("Book"), user("Go on"), held=frozenset([0])))) == []
    assert texts(goals(parted(assistant("Hi")))) == []


def test_a_long_request_is_known_by_its_beginning():
    assert texts(goals(parted(user("go " * 500)))) == [("go " * 100).rstrip()]
