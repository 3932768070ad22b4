import json

from compaction.facts.standing import standing
from tests.compaction.facts.regions import asked, called, parted

OLD = json.dumps({"reservation_id": "Z1", "cabin": "economy"})
NEW = json.dumps({"reservation_id": "Z1", "cabin": "business"})


def stands(*said):
    return standing(parted(*said).exchanges)


def test_of_equal_calls_the_latest_result_stands():
    assert stands(called("get", "1", id="Z1"), called("get", "2", id="Z1")) == (False, True)
    assert stands(called("get", "1", id="Z1"), called("get", "2", id="Z2")) == (True, True)


def test_a_failure_stands_and_replaces_nothing():
    assert stands(called("get", "1"), called("get", "Error: no"), called("get", "")) == (True,) * 3


def test_a_later_result_that_tells_as_much_of_the_same_thing_replaces_one():
    get = called("get", OLD, reservation_id="Z1")

    assert stands(get, called("update", NEW, reservation_id="Z1", cabin="b")) == (False, True)
    assert stands(get, called("update", NEW, cabin="b")) == (True, True)
    assert stands(get, called("update", '{"reservation_id": "Z1"}', reservation_id="Z1")) == (
        True,
        True,
    )


def test_what_has_no_ids_or_cannot_be_read_stands():
    for result in ('{"a": 1}', "{", "[]", "text"):
        assert stands(called("get", result, a=1), called("put", result, a=1, b=2)) == (True, True)
    assert stands(asked("get", "x", OLD), asked("put", "y", OLD)) == (True, True)


def test_what_is_compared_with_is_bounded():
    many = [called("get", OLD, a=at) for at in range(12)]

    assert all(stands(*many))
