"""Reading Responses bodies."""

from typing import Any

import pytest

from proxy.errors import UpstreamError
from proxy.tools.simulator.apis.responses_bodies import items, read_responses_request
from proxy.tools.simulator.replies import ReadingContext
from tests.proxy.tools.simulator.scene import FLAT_TOOL, user

CALL = {"type": "function_call", "call_id": "c1", "name": "read_file", "arguments": "{}"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "text"}


def body(value: object = "Hello", **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-6.1-sol", "input": value} | fields


def test_text_alone_is_a_users_message(context: ReadingContext) -> None:
    assert items(body("Hi")) == [{"role": "user", "content": "Hi"}]
    assert (
        read_responses_request(body("Hi"), context).prompt
        == read_responses_request(body([user("Hi")]), context).prompt
    )
    assert read_responses_request(body("Hi"), context).closing == "Hi"


def test_a_prompt_is_tools_schema_instructions_then_the_items(context: ReadingContext) -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    turns = [
        user("Read it."),
        {"type": "reasoning", "id": "rs_1", "summary": []},
        CALL,
        OUTPUT,
        {"role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]

    request = read_responses_request(
        body(turns, tools=[FLAT_TOOL], text={"format": form}, instructions="Be brief."), context
    )

    assert [(block.role, block.kind) for block in request.prompt.blocks] == [
        ("tools", "text"),
        ("system", "text"),
        ("developer", "text"),
        ("user", "text"),
        ("assistant", "text"),
        ("assistant", "tool_use"),
        ("tool", "text"),
        ("assistant", "text"),
        ("assistant", "text"),
    ]
    assert request.schema == {"type": "object"}


def test_tools_in_the_input_are_tools_and_their_ids_are_no_part_of_the_prompt(
    context: ReadingContext,
) -> None:
    one = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [FLAT_TOOL]}
    first = read_responses_request(body([one, user("Hi")]), context).prompt
    second = read_responses_request(body([{**one, "id": "at_2"}, user("Hi")]), context).prompt

    assert [block.role for block in first.blocks[:2]] == ["tools", "user"]
    assert first == second


def test_the_same_conversation_is_the_same_prompt_as_in_an_answer(context: ReadingContext) -> None:
    """A generation opens the next prompt, so an engine that keeps it finds it again."""
    first = read_responses_request(body([user("a")]), context).prompt
    reply = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "b"}],
    }
    second = read_responses_request(body([user("a"), reply, user("c")]), context).prompt

    before = [token for block in first.blocks for token in block.tokens]
    after = [token for block in second.blocks for token in block.tokens]
    assert after[: len(before)] == before


def test_responses_parameters_are_read_and_echoed(context: ReadingContext) -> None:
    request = read_responses_request(
        body(
            max_output_tokens=5,
            reasoning={"effort": "high"},
            tools=[FLAT_TOOL, {"type": "web_search"}],
            tool_choice={"type": "function", "name": "read_file"},
            text={"format": {"type": "json_object"}},
            stream=True,
        ),
        context,
    )

    assert (request.max_tokens, request.reasoning, request.stream) == (5, 512, True)
    assert (request.forced, request.schema) == (["read_file"], {})
    assert request.echoes is not None
    assert request.echoes["tool_choice"] == {"type": "function", "name": "read_file"}
    assert read_responses_request(body(), context).schema is None


@pytest.mark.parametrize(
    "value",
    ["", [], None, 5, [CALL], [OUTPUT], [{"role": "poet", "content": "a"}], [THOUGHT, THOUGHT]],
)
def test_a_responses_body_that_openai_refuses_is_refused(
    context: ReadingContext, value: object
) -> None:
    with pytest.raises(UpstreamError) as refused:
        read_responses_request(body(value), context)

    assert refused.value.param == "input"
