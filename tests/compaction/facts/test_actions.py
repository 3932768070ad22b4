import pytest

from compaction.facts.actions import action_flags, is_action, recoveries
from compaction.facts.segment_fitting import SegmentFitter, segment_within
from compaction.reading.token_estimate import estimate_tokens
from tests.compaction.facts.regions import call_and_result, read_contents, region, user

NO_LIMIT = "error: needs_branch_visit: limits over 1500 are set in a branch"


def flags_of(*turns):
    return action_flags(read_contents(*turns))


def exchange(name, result, **arguments):
    return read_contents(call_and_result(name, result, **arguments)).exchanges[0]


def test_a_call_that_failed_at_more_than_a_look_is_an_action():
    assert is_action(exchange("credit", "error: credit_limit_exceeded: at most 5 days"))
    assert not is_action(exchange("credit", '{"credit_id": "C1"}'))
    assert not is_action(exchange("get_customer", "error: not found"))


def test_an_editor_acts_where_it_changes_a_file_and_not_where_it_shows_one():
    edited = "The file a.py has been edited."

    assert is_action(exchange("editor", edited, command="str_replace", path="a.py", old_str="x"))
    assert is_action(exchange("editor", "Last edit undone.", command="undo_edit", path="a.py"))
    assert not is_action(exchange("editor", "x = 1", command="view", path="a.py"))
    assert not is_action(exchange("editor", "error: no such file", command="view", path="b.py"))


def test_a_success_at_a_tool_of_unknown_verb_is_an_action_where_that_failed_before():
    failed = call_and_result("credit", "error: at most 5 days", "a", days=7)
    credited = call_and_result("credit", '{"credit_id": "C1"}', "b", days=5)

    assert flags_of(failed, credited) == (True, True)
    assert flags_of(credited) == (False,)


def test_a_look_at_a_tool_that_failed_once_is_none():
    failed = call_and_result("editor", "error: no match", "a", command="insert", path="a.py")
    viewed = call_and_result("editor", '{"a": 1}', "b", command="view", path="a.py")

    assert flags_of(failed, viewed) == (True, False)


def recovered_calls(*turns, **fields):
    part = read_contents(*turns, **fields)
    return {
        messages: failed.arguments
        for messages, failed in recoveries(part, action_flags(part)).items()
    }


PAYMENTS = [
    call_and_result("pay", "error: no funds", "a", account="A1", to="Mei", amount=90),
    call_and_result("pay", '{"id": "T1"}', "b", account="A1", to="Mei", amount=40),
    call_and_result("pay", '{"id": "T2"}', "c", account="A1", to="Bo", amount=10),
]


def test_a_failure_is_recovered_by_the_success_that_shares_most_arguments():
    assert recovered_calls(*PAYMENTS) == {(2, 3): '{"account": "A1", "to": "Mei", "amount": 90}'}


def test_a_success_before_a_failure_or_about_another_thing_is_no_recovery():
    failed = call_and_result("pay", "error: no funds", "a", to="Mei", amount=10)
    other = call_and_result("pay", '{"id": "T1"}', "b", to="Bo", amount=10)

    assert recovered_calls(other, failed) == {}
    assert recovered_calls(failed, other) == {}


@pytest.mark.parametrize(("chars", "recoveries"), [(64, 1), (65, 0)])
def test_calls_are_about_one_thing_by_an_argument_of_up_to_64_characters(
    chars: int, recoveries: int
):
    failed = call_and_result("pay", "error: no funds", "a", to="M" * chars)
    paid = call_and_result("pay", '{"id": "T1"}', "b", to="M" * chars)

    assert len(recovered_calls(failed, paid)) == recoveries


def test_a_failure_of_an_earlier_segment_is_recovered():
    first = segment_within(region(*PAYMENTS, end=2), 0, estimate_tokens)

    assert set(recovered_calls(*PAYMENTS, start=2, earlier=(first,))) == {(2, 3)}


CARD = [
    user("Raise the limit of my card."),
    call_and_result("set_card_limit", NO_LIMIT, "a", card="4017", limit=2000),
    user("Then 1,500."),
    call_and_result("set_card_limit", '{"card": "4017"}', "b", card="4017", limit=1500),
    *[
        one
        for number in range(9)
        for one in (
            user(f"Please pay invoice RE-{number}41 of 2026 to Volt & Sohn."),
            call_and_result(
                "transfer", f'{{"id": "T-10{number}"}}', f"t{number}", to=f"DE{number}"
            ),
        )
    ],
]


@pytest.mark.parametrize("size", range(60, 300, 20))
def test_a_success_stands_where_the_failure_before_it_does_or_is_named(size):
    text = SegmentFitter(region(*CARD), estimate_tokens).segment_within(size).text

    if "set_card_limit(…) → error" in text or "limit=2000" in text:
        assert "limit=1500" in text
    else:
        assert "set_card_limit (ok after a failure)" in text
