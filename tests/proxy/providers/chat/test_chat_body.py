"""A chat body read for the Anthropic wire."""

import pytest
from msgspec import Raw

from proxy.providers.chat.chat_body import (
    FunctionDefinition,
    ToolDefinition,
    invalid_parameter,
    is_given,
    read,
    tool_function,
    unsupported_parameter,
)
from tests.fakes.refusals import refusing


def test_the_names_of_fields_set_to_null_are_left_out() -> None:
    body, names = read(b'{"messages": [], "seed": 1, "stop": null}')

    assert body.messages == []
    assert names == {"messages", "seed"}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"messages": [], "n": "two"}', "n"),
        (b'{"messages": 5}', "messages"),
        (b'{"messages": [{"content": "x"}]}', "messages[0]"),
        (
            b'{"messages": [{"role": "user", "content": [{"type": 1}]}]}',
            "messages[0].content[0].type",
        ),
        (b"[]", None),
        (b"{}", None),
    ],
)
def test_a_wrong_type_names_its_place(body: bytes, param: str | None) -> None:
    with refusing(400) as caught:
        read(body)

    assert (caught.value.code, caught.value.param) == ("invalid_type", param)


@pytest.mark.parametrize("body", [b"", b"{", b'{"messages": [], "x": "\xff"}', b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with refusing(400):
        read(body)


def test_a_raw_field_is_given_unless_it_is_missing_or_null() -> None:
    assert is_given(Raw(b"{}"))
    assert not is_given(Raw(b"null"))
    assert not is_given(Raw())


def test_both_kinds_of_refusal_name_the_parameter() -> None:
    assert invalid_parameter("a", "m").code == "invalid_value"
    assert unsupported_parameter("b", "m").param == "b"


def test_a_tool_that_is_a_function_is_that_function() -> None:
    function = FunctionDefinition(name="look_up")

    assert tool_function(ToolDefinition(function=function), "tools[0]") is function


@pytest.mark.parametrize(
    ("tool", "code", "param"),
    [
        (ToolDefinition(type="custom"), "unsupported_value", "tools[2].type"),
        (ToolDefinition(), "invalid_value", "tools[2].function"),
    ],
)
def test_a_tool_that_is_no_function_is_refused_by_its_place(
    tool: ToolDefinition, code: str, param: str
) -> None:
    with refusing(400) as caught:
        tool_function(tool, "tools[2]")

    assert (caught.value.code, caught.value.param) == (code, param)
