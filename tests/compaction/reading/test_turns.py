import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.message import CannotCompactError, Voice
from compaction.reading.turns import MessageUnit, call_points, split_units
from tests.compaction.reading.conversations import (
    assistant,
    conversations,
    messages,
    result,
    system,
    tool_calls,
    user,
)


def spans(chat):
    return [(unit.start, unit.end) for unit in split_units(messages(chat))]


def test_a_single_message_is_a_unit_and_turns_begin_with_users():
    chat = [system(), assistant("Hello"), user(), assistant(), system(), user(), user()]

    assert split_units(messages(chat)) == (
        MessageUnit(0, 1, 0),
        MessageUnit(1, 2, 0),
        MessageUnit(2, 3, 1),
        MessageUnit(3, 4, 1),
        MessageUnit(4, 5, 1),
        MessageUnit(5, 6, 2),
        MessageUnit(6, 7, 3),
    )
    assert split_units([]) == ()


def test_calls_and_all_their_results_are_one_unit_in_any_order():
    chat = [user(), tool_calls("a", "b"), result("b"), result("a"), tool_calls("c"), result("c")]

    assert spans(chat) == [(0, 1), (1, 4), (4, 6)]


def test_a_result_that_comes_late_stretches_its_unit_over_what_stands_between():
    chat = [user(), tool_calls("a", "b"), result("a"), user("hurry"), result("b"), user()]

    assert split_units(messages(chat)) == (
        MessageUnit(0, 1, 1),
        MessageUnit(1, 5, 1),
        MessageUnit(5, 6, 3),
    )


def test_calls_made_while_others_wait_are_one_unit_with_them():
    chat = [user(), tool_calls("a"), tool_calls("b"), result("a"), result("b"), assistant()]

    assert spans(chat) == [(0, 1), (1, 5), (5, 6)]


@pytest.mark.parametrize(
    ("chat", "is_open"),
    [
        ([user(), tool_calls("a")], [False, True]),
        ([user(), tool_calls("a", "b"), result("a")], [False, True]),
        ([user(), tool_calls("a", "b"), result("a"), user()], [False, True, False]),
        ([user(), tool_calls("a"), tool_calls("b"), result("a")], [False, True]),
        ([user(), tool_calls("a"), result("a")], [False, False]),
    ],
)
def test_a_unit_is_open_while_a_call_of_it_waits(chat, is_open):
    assert [unit.is_open for unit in split_units(messages(chat))] == is_open


@pytest.mark.parametrize(
    "chat",
    [
        [user(), result("a")],
        [user(), tool_calls("a"), result("b")],
        [user(), tool_calls("a"), result("a"), result("a")],
        [user(), tool_calls("a", "a"), result("a")],
        [user(), tool_calls("a"), tool_calls("a"), result("a")],
    ],
)
def test_results_that_answer_nothing_and_doubled_ids_are_not_compacted(chat):
    with pytest.raises(CannotCompactError):
        split_units(messages(chat))
    with pytest.raises(CannotCompactError):
        call_points(messages(chat))


def test_an_id_may_come_again_once_it_was_answered():
    chat = [user(), tool_calls("a"), result("a"), tool_calls("a"), result("a")]

    assert spans(chat) == [(0, 1), (1, 3), (3, 5)]


def test_functions_of_the_older_kind_are_units_too():
    call = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    answer = {"role": "function", "name": "f", "content": "done"}

    assert spans([user(), call, answer, call, answer]) == [(0, 1), (1, 3), (3, 5)]


def test_the_client_called_wherever_an_answer_follows_users_or_complete_results():
    chat = [
        system(),
        assistant("Hello"),  # Written by the client: nothing came before it.
        user(),
        system(),
        tool_calls("a", "b"),  # 4
        result("a"),
        assistant("wait"),  # b has no result yet.
        result("b"),
        assistant(),  # 8
        assistant("more"),  # The same answer goes on.
        user(),
        user(),
    ]

    assert call_points(messages(chat)) == (4, 8, 12)
    assert call_points(messages([user()])) == (1,)


@pytest.mark.slow
@given(conversations())
def test_units_cover_every_message_once_and_in_order(chat):
    units = split_units(messages(chat))

    assert [index for unit in units for index in range(unit.start, unit.end)] == list(
        range(len(chat))
    )
    assert not any(unit.is_open for unit in units)


@pytest.mark.slow
@given(conversations())
def test_no_unit_parts_a_call_from_its_result(chat):
    read = messages(chat)
    for unit in split_units(read):
        part = read[unit.start : unit.end]
        call_ids = [call.id for message in part for call in message.calls]
        answered = [message.answers for message in part if message.voice is Voice.RESULT]

        assert sorted(call_ids) == sorted(answered)


@pytest.mark.slow
@given(conversations(), st.data())
def test_units_that_are_closed_stay_as_they_are_when_more_is_said(chat, data):
    read = messages(chat)
    end = data.draw(st.integers(0, len(read)))
    before = split_units(read[:end])
    closed = next((index for index, unit in enumerate(before) if unit.is_open), len(before))

    assert split_units(read)[:closed] == before[:closed]


@pytest.mark.slow
@given(conversations())
def test_the_turn_of_a_unit_is_how_many_users_spoke_by_then(chat):
    read = messages(chat)
    for unit in split_units(read):
        spoken = [one for one in read[: unit.start + 1] if one.voice is Voice.USER]

        assert unit.turn == len(spoken)


@pytest.mark.slow
@given(conversations(), st.data())
def test_the_calls_of_a_prefix_are_those_of_the_conversation(chat, data):
    read = messages(chat)
    points = call_points(read)
    point = data.draw(st.sampled_from(points))

    assert call_points(read[:point]) == points[: points.index(point) + 1]
