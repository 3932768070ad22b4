"""Prefilled answers: the last message is the assistant's, and the model goes on from its text.

Source: vLLM, OpenAI-compatible server, extra parameters; DeepSeek, chat prefix completion; Mistral,
prefix; Anthropic, prefill (2026-11).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from proxy.catalog.entries import Continues
from proxy.tools.simulator.bodies import Body
from proxy.tools.simulator.fault_directives import closing_text
from proxy.tools.simulator.refusals import provider_refusal
from proxy.tools.simulator.replies import ReplyBeginning
from proxy.tools.simulator.streams import Json

_GOES_ON: Final = "continue_final_message"
_OPENS: Final = "add_generation_prompt"
_PREFIX: Final = "prefix"


def chat_beginning(
    body: Body, continues: Continues, count: Callable[[Body], int]
) -> ReplyBeginning | None:
    """The beginning of a chat answer; None where a new message is asked for.

    Args:
        continues: Way in which the model is told to go on.
        count: Tokens of a body's prompt.
    """
    last = body["messages"][-1]
    is_assistants = last.get("role") == "assistant" and not last.get("tool_calls")
    if continues == _GOES_ON:
        goes_on = body.get(_GOES_ON) is True
        if goes_on and body.get(_OPENS, True):
            raise provider_refusal(400, f"Cannot set both {_GOES_ON} and {_OPENS}.")
    elif continues.startswith(_PREFIX):
        goes_on = last.get(_PREFIX) is True
        if is_assistants and not goes_on:
            raise provider_refusal(400, "Expected the last role to be user, or prefix to be true.")
    else:
        goes_on = continues == "last_message" and is_assistants
    if not goes_on:
        return None
    if not is_assistants:
        raise provider_refusal(400, "The last message must be the assistant's.")
    return _beginning(body, _text(last), count, echoes=continues == "prefix_echoed")


def messages_beginning(body: Body, count: Callable[[Body], int]) -> ReplyBeginning | None:
    """The beginning of an answer of Anthropic's API; None where the last message is the user's."""
    last = body["messages"][-1]
    text = _text(last)
    if last["role"] != "assistant" or not text:
        return None
    return _beginning(body, text, count)


def _beginning(
    body: Body, text: str, count: Callable[[Body], int], *, echoes: bool = False
) -> ReplyBeginning:
    before = {**body, "messages": body["messages"][:-1]}
    return ReplyBeginning(
        text=text, closing=closing_text(before), tokens=count(before), echoes=echoes
    )


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message; "" where it holds anything else."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts: list[Json] = content if isinstance(content, list) else []
    if any(part.get("type") not in {"text", "output_text"} for part in parts):
        return ""
    return "".join(part["text"] for part in parts)
