from compaction.facts.fact import Fact, FactKind, Region


def test_facts_are_equal_when_they_say_the_same():
    assert Fact(kind=FactKind.USER, text="a", turns=(1,)) == Fact(
        kind=FactKind.USER, text="a", turns=(1,)
    )


def test_a_region_holds_nothing_and_knows_no_earlier_segment_unless_it_is_said():
    region = Region(messages=(), units=(), start=0, end=0)

    assert (region.kept, region.earlier) == (frozenset(), ())
