"""Tests of what a Responses caller calls the things that were said in chat for it."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import CallerError
from proxy.providers.responses.names import ParameterNames
from proxy.providers.responses.reasoning import OpaqueParts, seal_parts
from proxy.providers.responses.request import chat_body

_FILE = {"type": "input_file", "file_id": "f"}
_IMAGE = {"type": "input_image", "image_url": "ftp://x"}
_SEAL = seal_parts(OpaqueParts(thinking_blocks=[{"type": "thinking"}]))
_THOUGHT = {"type": "reasoning", "summary": [], "encrypted_content": _SEAL}
_CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
_INPUT: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "input_text", "text": "see"}, _FILE, _IMAGE]},
    _THOUGHT,
    {"role": "assistant", "content": "a"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "b"}, _IMAGE]},
    _CALL,
    _CALL | {"call_id": ""},
    {"type": "function_call_output", "call_id": "c1", "output": [_FILE]},
    _THOUGHT,
    {"role": "user", "content": "on"},
]
_ASKED: dict[str, Any] = {"model": "m", "instructions": "be", "input": _INPUT}


def _names(**fields: Any) -> ParameterNames:
    return chat_body(orjson.dumps(_ASKED | fields)).names


def _param(path: str, **fields: Any) -> str | None:
    return _names(**fields).translate_error(CallerError("x", code="c", param=path)).param


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("messages[0].content[0]", "instructions"),
        ("messages[1].content[1].file.file_id", "input[0].content[1].file_id"),
        ("messages[1].content[1].file.file_data", "input[0].content[1].file_data"),
        ("messages[1].content[2].image_url.url", "input[0].content[2].image_url"),
        ("messages[2].content[0]", "input[2].content"),
        ("messages[2].content[2].type", "input[3].content[1].type"),
        ("messages[2].tool_calls[0]", "input[4]"),
        ("messages[2].tool_calls[1].id", "input[5].call_id"),
        ("messages[2].thinking_blocks", "input[1].encrypted_content"),
        ("messages[2].audio", "input[1].audio"),
        ("messages[3].content[0].file.file_id", "input[6].output[0].file_id"),
        ("messages[3].tool_call_id", "input[6].call_id"),
        ("messages[4]", "input[8]"),
        ("messages", "input"),
        ("max_completion_tokens", "max_output_tokens"),
        ("response_format", "text.format"),
        ("reasoning_effort", "reasoning.effort"),
        ("logprobs", "include"),
        ("tools[1].function.parameters", "tools[1].parameters"),
        ("tool_choice.allowed_tools", "tool_choice"),
        ("temperature", "temperature"),
        ("messages[9].content", "messages[9].content"),
        ("messages[2].tool_calls[7]", "messages[2].tool_calls[7]"),
    ],
)
def test_a_place_in_the_chat_body_has_its_place_in_the_callers(path: str, name: str) -> None:
    assert _param(path, tools=[], tool_choice="auto") == name


def test_an_error_in_a_text_input_names_input() -> None:
    assert _param("messages[1].content", input="hi") == "input"
    assert _param("messages[0].content", input="hi", instructions=None) == "input"


def test_without_instructions_the_first_message_is_the_first_item() -> None:
    assert _param("messages[0].content[1]", instructions=None) == "input[0].content[1]"


def test_log_probabilities_are_named_as_they_were_asked_for() -> None:
    sentence = "leave logprobs out."

    assert _param("logprobs", top_logprobs=2) == "top_logprobs"
    assert _param("logprobs", top_logprobs=None) == "include"
    assert _names(top_logprobs=2).translate_note(sentence) == "leave top_logprobs out."
    assert _names().translate_note(sentence) == "leave message.output_text.logprobs out."


def test_a_name_the_caller_wrote_itself_stays() -> None:
    assert _param("max_tokens", max_tokens=5) == "max_tokens"
    assert _names(max_tokens=5).translate_note("max_tokens is low") == "max_tokens is low"


def test_an_error_without_a_parameter_names_none() -> None:
    error = _names().translate_error(CallerError("no response_format", code="c"))

    assert (error.param, error.message) == (None, "no text.format")


def test_a_refusal_says_its_place_in_its_sentence_too() -> None:
    path = "messages[3].content[0].file.file_data"
    error = CallerError(f"`{path}` must be UTF-8.", code="c", param=path)

    assert (
        _names().translate_error(error).message == "`input[6].output[0].file_data` must be UTF-8."
    )


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("lowered max_completion_tokens to 5: x", "lowered max_output_tokens to 5: x"),
        ("the thinking_blocks are missing", "the reasoning items are missing"),
        ("this model's messages carry none", "this model's messages carry none"),
        ("No answer to 'messages[1]': ü", "No answer to 'messages[1]': ü"),
    ],
)
def test_a_sentence_names_what_the_caller_wrote(sentence: str, expected: str) -> None:
    assert _names().translate_note(sentence) == expected


_BITS = st.sampled_from(
    [
        "messages",
        "logprobs",
        "[",
        "]",
        "0",
        "7",
        "99999999999",
        ".content",
        ".tool_calls",
        ".id",
        " ",
        "tools",
    ]
)


@given(st.lists(st.one_of(_BITS, st.text(max_size=3)), max_size=10).map("".join))
def test_no_words_of_an_attacker_break_the_naming(sentence: str) -> None:
    assert isinstance(_names().translate_note(sentence), str)
    assert isinstance(_param(sentence), str)
