"""Translates names of chat fields in errors and notes into those of the Responses API.

::

    messages[2].content[0].file.file_id    input[1].content[0].file_id
    messages[3].tool_calls[1].id           input[4].call_id
    response_format                        text.format

A name that stands in the caller's own body is the caller's own.
"""

import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final

from proxy.errors import CallerError
from proxy.providers.responses.fields import Json
from proxy.providers.responses.input import (
    CallOutput,
    InputCompaction,
    InputMessage,
    InputReasoning,
    Run,
    runs,
)

_NAMES: Final = MappingProxyType(
    {
        "max_completion_tokens": "max_output_tokens",
        "max_tokens": "max_output_tokens",
        "reasoning_effort": "reasoning.effort",
        "response_format": "text.format",
        "verbosity": "text.verbosity",
    }
)
_LOGPROBS: Final = "logprobs"
_BLOCKS: Final = "thinking_blocks"
_WORD: Final = re.compile(rf"\b(?:{'|'.join((*_NAMES, _LOGPROBS, _BLOCKS))})\b")
_MESSAGE: Final = re.compile(r"messages\[(\d{1,9})\](.*)")
_TOOL: Final = re.compile(r"tools\[(\d{1,9})\](.*)")
_CALL: Final = re.compile(r"\.tool_calls\[(\d{1,9})\](.*)")
_PART: Final = re.compile(r"\.content\[(\d{1,9})\](.*)")
_NESTING: Final = re.compile(r"\.(?:function|file|allowed_tools)\b|(?<=\.image_url)\.url\b")


class ParameterNames:
    """The caller's names for what its chat body holds."""

    def __init__(self, request: Json, tools: Sequence[str] = ()) -> None:
        """Of the caller's own fields, which ``chat_body`` has accepted.

        Args:
            tools: The place of each tool in them.
        """
        self._request = {name: value for name, value in request.items() if value is not None}
        self._tools = tools

    def translate_error(self, error: CallerError) -> CallerError:
        """An error with the caller's names of fields."""
        if error.param is None:
            return CallerError(self.translate_note(error.message), code=error.code)
        param = self._place(error.param)
        sentence = error.message.replace(f"`{error.param}`", f"`{param}`")
        return CallerError(self.translate_note(sentence), code=error.code, param=param)

    def translate_note(self, sentence: str) -> str:
        """A sentence with the caller's names of fields."""
        return _WORD.sub(lambda word: self._translate_word(word[0]), sentence)

    def _translate_word(self, word: str) -> str:
        if word == _BLOCKS:
            return "reasoning items"
        place = self._place(word)
        return "message.output_text.logprobs" if place == "include" else place

    def _place(self, path: str) -> str:
        """The caller's name for a place in the chat body; the path itself where there is none."""
        if (tool := _TOOL.fullmatch(path)) is not None and int(tool[1]) < len(self._tools):
            path = self._tools[int(tool[1])] + tool[2]
        if (message_place := _MESSAGE.fullmatch(path)) is not None:
            try:
                return self._message(int(message_place[1]), _NESTING.sub("", message_place[2]))
            except IndexError:
                return path
        head = re.split(r"[.\[]", path, maxsplit=1)[0]
        if head in self._request:
            return _NESTING.sub("", path)
        if head == _LOGPROBS:
            return "top_logprobs" if "top_logprobs" in self._request else "include"
        name = "input" if head == "messages" else _NAMES.get(head, head)
        return name + path.removeprefix(head)

    def _message(self, number: int, rest: str) -> str:
        """The caller's name of this place in a message."""
        given: Any = self._request.get("input")
        if "instructions" in self._request:
            if number == 0:
                return "instructions"
            number -= 1
        return "input" if isinstance(given, str) else _in_run(runs(given)[number], rest)


def _in_run(run: Run, rest: str) -> str:
    """The place in one of the items that became one message."""
    number, item = run[0]
    if isinstance(item, CallOutput):
        renamed = rest.replace(".content", ".output", 1).replace(".tool_call_id", ".call_id", 1)
        return f"input[{number}]{renamed}"
    if (place_within := _PART.fullmatch(rest)) is not None:
        return _parts(run)[int(place_within[1])] + place_within[2]
    if (place_within := _CALL.fullmatch(rest)) is not None:
        calls = [place for place, item in run if not isinstance(item, InputMessage | _Opaque)]
        return f"input[{calls[int(place_within[1])]}]" + (
            ".call_id" if place_within[2] == ".id" else place_within[2]
        )
    if rest == ".thinking_blocks":
        sealed = [place for place, item in run if isinstance(item, _Opaque)]
        return f"input[{sealed[0]}].encrypted_content"
    return f"input[{number}]{rest}"


def _parts(run: Run) -> list[str]:
    """The places of all parts of the run's messages, which stand in one list in chat."""
    return [
        f"input[{place}].content" + ("" if isinstance(item.content, str) else f"[{number}]")
        for place, item in run
        if isinstance(item, InputMessage)
        for number in range(1 if isinstance(item.content, str) else len(item.content))
    ]


_Opaque: Final = InputReasoning | InputCompaction
