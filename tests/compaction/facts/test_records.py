import msgspec

from compaction.facts.detail_levels import segment
from compaction.facts.records import records
from compaction.facts.segment import Rung
from compaction.facts.standing import standing
from tests.compaction.facts.regions import called, parted, region, texts


def recorded(part):
    return list(records(part, str, standing(part.exchanges)))


def test_calls_that_only_look_are_kept_with_what_came_back():
    part = parted(called("get", "1", x=1), called("get", "2", x=1), called("pay", "3"))

    assert texts(recorded(part)) == ["get(x=1) → 2"]


def test_what_an_earlier_segment_knew_is_said_to_be_replaced():
    said = [called("get", "{}", x=1), called("get", '{"a": 1}', x=1)]
    first = segment(region(*said, end=2), Rung.FACTS, len)
    facts = tuple([msgspec.structs.replace(fact, turns=(3,)) for fact in first.facts])
    first = msgspec.structs.replace(first, facts=facts)

    (again,) = recorded(parted(*said, start=2, earlier=(first,)))

    assert again.replaces == 3


def test_a_thought_is_left_out_unless_something_came_back_of_it():
    part = parted(called("think", "", thought="hm"), called("think", "2", "b", thought="1 + 1"))

    assert texts(recorded(part)) == ["think(thought=1 + 1) → 2"]
