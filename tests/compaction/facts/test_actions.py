import pytest

from compaction.facts.actions import actions
from compaction.facts.fact import Kind
from compaction.facts.standing import standing
from tests.compaction.facts.regions import called, parted


def exchange(name, result):
    return parted(called(name, result)).exchanges[0]


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("cancel_order", "{}"),
        ("do", "Successfully paid"),
        ("do", "The mail has been sent."),
        ("do", "Your seat was already booked"),
    ],
)
def test_a_call_acts_by_its_verb_or_by_what_came_back(name, result):
    assert exchange(name, result).acts


@pytest.mark.parametrize("result", ["It needed a seat", "", "x" * 400 + " successfully paid"])
def test_other_calls_do_not(result):
    assert not exchange("look", result).acts


def test_each_action_stands_for_itself_and_says_its_outcome_once():
    state = '{"order_id": "W1", "state": "open"}'
    part = parted(
        called("update", state, order_id="W1"),
        called("update", state, order_id="W1"),
        called("get", "{}"),
    )

    found = list(actions(part, str, standing(part.exchanges)))

    assert [fact.kind for fact in found] == [Kind.ACTION, Kind.ACTION]
    assert found[0].text == "update(order_id=W1) → ok"
    assert found[1].text.endswith("state: open} → ok")
