from compaction.facts.region import Region


def test_a_region_holds_nothing_and_knows_no_earlier_segment_unless_it_is_said():
    region = Region(messages=(), units=(), start=0, end=0)

    assert (region.part, region.held, region.earlier, region.notes) == (1, frozenset(), (), ())
