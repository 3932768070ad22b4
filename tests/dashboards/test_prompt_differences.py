import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.prompt_differences import MAX_COMPARED_CHARS, prompt_difference

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def body(*contents: str, **more: object) -> str:
    messages = [{"role": "user", "content": content} for content in contents]
    return json.dumps({**more, "messages": messages})


def test_the_part_and_the_text_at_which_prompts_part_are_found() -> None:
    difference = prompt_difference(
        body("Rules. Today is Tuesday.", "Hi"), body("Rules. Today is Monday.", "Hi")
    )

    assert (difference.part, difference.common_parts) == ("messages[0].content", 1)
    assert (difference.common, difference.missed, difference.hit) == (
        "Rules. Today is ",
        "Tuesday.",
        "Monday.",
    )
    assert difference.common_chars == 16


def test_tools_and_system_come_before_messages_whatever_their_order_in_json() -> None:
    difference = prompt_difference(
        body("a", system="x", tools=[{"name": "t1"}]), body("b", tools=[{"name": "t2"}], system="y")
    )

    assert difference.part == "tools[0].name"


def test_a_prompt_that_goes_on_differs_at_its_first_new_part() -> None:
    difference = prompt_difference(body("a", "b"), body("a"))

    assert (difference.part, difference.missed, difference.hit) == ("messages[1].role", "user", "")


def test_texts_that_are_no_json_are_compared_as_they_are() -> None:
    difference = prompt_difference("abc", "abd")

    assert (difference.part, difference.common, difference.missed) == ("body", "ab", "c")


def test_long_prompts_are_cut_and_said_to_be() -> None:
    long = "x" * MAX_COMPARED_CHARS
    difference = prompt_difference(long + "a", long + "b")

    assert (difference.part, difference.is_cut) == ("", True)


@pytest.mark.slow
@given(JSON, JSON)
def test_equal_prompts_have_no_difference_and_others_say_where(one: object, other: object) -> None:
    first, second = json.dumps(one), json.dumps(other)

    assert not prompt_difference(first, first).part
    difference = prompt_difference(first, second)
    assert difference.common_chars == 0 or difference.missed[:1] != difference.hit[:1]
