import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.conversation_view import ConversationView, step_cut, turn_cut, view_conversation
from compaction.reading.message import ParsedMessage
from compaction.reading.parsed_messages import ParsedMessageCache
from compaction.reading.token_estimate import estimate_tokens
from tests.fakes.chat_messages import (
    assistant,
    parallel_tool_calls,
    system,
    tool_call_and_result,
    user,
)


def read(raws: list[bytes]) -> tuple[ParsedMessage, ...]:
    return ParsedMessageCache().messages(raws, estimate_tokens)


def heard(raws: list[bytes]) -> ConversationView:
    return view_conversation(read(raws))


def chat(turns: int, words: str = "word ") -> list[bytes]:
    messages = [system("Be kind.")]
    for turn in range(turns):
        messages += [user(f"{turn} {words}"), assistant(f"answer {turn} {words}")]
    return [*messages, user("and now?")]


def work(steps: int, size: int) -> list[bytes]:
    """One wish, and an agent that works on it by itself."""
    messages = [system("You are an agent."), user("Mend the build.")]
    for step in range(steps):
        messages += tool_call_and_result("read", {"path": f"src/{step}.py"}, f"line {step} " * size)
    return messages


def test_the_lead_is_what_speaks_with_authority_before_anybody():
    view = heard([system("a"), system("b"), user("c"), system("d"), assistant("e"), user("f")])

    assert view.lead == 2


def test_points_are_where_the_assistant_was_asked():
    view = heard([system("s"), user("a"), assistant("b"), user("c"), assistant("d"), user("e")])

    assert list(view.points_after(0)) == [2, 4, 6]
    assert list(view.points_after(4)) == [6]


def test_calls_made_at_once_are_one_point_and_open_ones_none():
    both = parallel_tool_calls([("f", {}, "1"), ("g", {}, "2")])

    assert list(heard([user("a"), *both]).points_after(0)) == [1, 4]
    assert list(heard([user("a"), *both[:2]]).points_after(0)) == [1]


def test_a_conversation_that_ends_with_the_assistant_is_no_point():
    assert list(heard([user("a"), assistant("b")]).points_after(0)) == [1]


def test_the_request_is_the_last_word_of_a_user():
    view = heard(
        [
            user("first"),
            *tool_call_and_result("f", {}, "1"),
            user("second"),
            *tool_call_and_result("g", {}, "2"),
        ]
    )

    assert view.last_user_message(6) == 3
    assert view.last_user_message(3) == 0
    assert heard([system("s"), assistant("b")]).last_user_message(1) is None


def test_the_last_turns_stay():
    view = heard(chat(6))
    end = len(view.messages)

    cut = turn_cut(view, end, view.lead, 3)

    assert view.messages[cut].text.startswith("4 ")
    assert end - cut == 5


def test_where_there_are_no_more_turns_than_stay_nothing_is_compacted():
    view = heard(chat(2))

    assert turn_cut(view, len(view.messages), view.lead, 3) == view.lead


def test_a_long_turn_is_cut_between_its_steps():
    view = heard(work(60, 600))
    end = len(view.messages)

    cut = turn_cut(view, end, view.lead, 3)

    assert view.lead < cut < end - 5
    assert not any(unit.start < cut < unit.end for unit in view.units)
    assert view.tokens_between(cut, end) >= 8_000
    assert view.tokens_between(cut, end) < 12_000


def test_behind_a_cut_between_steps_stand_no_more_steps_than_make_8000_tokens():
    view = heard(work(200, 100))
    end = len(view.messages)

    cut = turn_cut(view, end, view.lead, 3)

    assert view.tokens_between(cut, end) >= 8_000 > view.tokens_between(cut + 2, end)


def test_a_short_turn_is_left_whole_but_where_it_is_asked_to_be_cut():
    view = heard(work(8, 20))
    end = len(view.messages)

    assert turn_cut(view, end, view.lead, 3) == view.lead
    assert step_cut(view, end, view.lead, 3) == end - 6
    assert step_cut(view, end, view.lead, 20) == view.lead
    assert step_cut(heard(chat(5)), 12, 1, 3) == 1


def test_no_message_is_behind_a_cut_at_the_end():
    view = heard(chat(3))

    assert turn_cut(view, len(view.messages), len(view.messages), 3) == len(view.messages)


@pytest.mark.slow
@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(1, 5))
def test_a_cut_depends_on_what_stands_before_it_alone(sizes: list[int], keep: int):
    raws = [system("s")]
    for index, size in enumerate(sizes):
        raws += [
            user(f"u{index}"),
            *tool_call_and_result("f", {"n": index}, "x " * size * 100),
            assistant("so"),
        ]
    raws.append(user("last"))
    whole = heard(raws)

    for index in whole.points_after(0):
        alone = heard(raws[:index])
        assert turn_cut(alone, index, alone.lead, keep) == turn_cut(whole, index, whole.lead, keep)


def test_words_between_are_texts_and_tool_calls():
    view = heard([user("a"), *tool_call_and_result("find", {"id": 7}, "b")])

    assert view.words_between(0, 3).split() == ["a", "find", '{"id":7}', "b"]


def view_of_work(steps: int, request_tokens: int = 0) -> ConversationView:
    """An agent's work whose steps weigh 800 tokens each."""
    system_message, request, *others = read(work(steps, 1))
    weighed = [
        msgspec.structs.replace(system_message, tokens=0),
        msgspec.structs.replace(request, tokens=request_tokens),
        *(msgspec.structs.replace(message, tokens=400) for message in others),
    ]
    return view_conversation(weighed)


def test_a_turn_of_over_16000_tokens_is_cut_where_a_quarter_of_the_prompt_follows():
    assert turn_cut(view_of_work(20), 42, 1, 3) == 1
    assert turn_cut(view_of_work(20, request_tokens=1), 42, 1, 3) == 32


def test_an_agent_works_by_itself_where_a_turn_has_more_than_six_units():
    six, seven = (
        next(view for n in range(9) if len((view := view_of_work(n)).units_between(1, 99)) == units)
        for units in (6, 7)
    )

    assert step_cut(six, len(six.messages), 1, 3) == 1
    assert step_cut(seven, len(seven.messages), 1, 3) == len(seven.messages) - 6


def test_a_short_call_has_200_characters_of_arguments():
    for chars in (192, 193):
        view = heard([user("a"), *tool_call_and_result("read", {"p": "x" * chars}, "y")])
        assert view.short_call(2) == f'read({{"p":"{"x" * chars}"}}'[:205] + ")"
