from compaction.facts.fact import Fact, Kind


def test_facts_are_equal_when_they_say_the_same():
    assert Fact(kind=Kind.USER, text="a", turns=(1,)) == Fact(kind=Kind.USER, text="a", turns=(1,))
