from compaction.facts.columns import shared
from compaction.facts.fact import Fact, Kind
from tests.compaction.facts.regions import texts

LONG = "flight_number origin destination price_of_economy"


def facts(*texts):
    return [Fact(kind=Kind.RECORD, text=text, turns=(1,)) for text in texts]


def test_columns_that_come_again_are_said_once():
    found = facts(f"a columns:[{LONG}] 1", f"b columns:[{LONG}] 2", f"columns:[other {LONG}] 3")

    assert texts(shared(found)) == [
        f"a columns A:[{LONG}] 1",
        "b columns A 2",
        f"columns:[other {LONG}] 3",
    ]


def test_columns_that_come_once_or_are_short_stay():
    found = facts(f"columns:[{LONG}]", "columns:[a b]", "columns:[a b]")

    assert shared(found) == tuple(found)


def test_names_within_one_object_say_it_once():
    found = facts(f"columns:[seats.economy seats.business price {LONG}]")

    assert texts(shared(found)) == [f"columns:[seats.economy .business price {LONG}]"]
