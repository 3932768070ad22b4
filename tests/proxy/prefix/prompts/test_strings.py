"""Texts that planning took apart, and that are sent as strings."""

from typing import Any

import orjson
import pytest

from proxy.prefix.layouts.order import TextPiece, place_pieces
from proxy.prefix.prompts.prompt import Prompt, PromptSlot, parse_prompt
from proxy.prefix.prompts.strings import join_texts

RULES = "Be kind.\nThe user is Ines.\nIt is noon."
WISH = {
    (0, 0): [
        TextPiece(text="Be kind.\n", slot=PromptSlot.STABLE),
        TextPiece(text="The user is Ines.\n", slot=PromptSlot.SEMI_STABLE),
        TextPiece(text="It is noon.", slot=PromptSlot.VARIABLE),
    ]
}


def prompt(*messages: object) -> Prompt:
    return parse_prompt(orjson.dumps({"model": "m", "messages": messages}))


def message(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


def contents(found: Prompt) -> list[Any]:
    return [orjson.loads(raw)["content"] for raw in found.messages]


def words(found: Prompt) -> str:
    return "".join(
        content if isinstance(content, str) else "".join(part["text"] for part in content)
        for content in contents(found)
    )


@pytest.mark.parametrize("late", [True, False])
def test_what_came_as_strings_goes_as_strings(
    late: bool,  # noqa: FBT001 - a case of the table
):
    came = prompt(message("system", RULES), message("user", "Hi"))
    found = place_pieces(came, WISH, late=late).prompt
    sent = join_texts(found, came)

    assert any(isinstance(content, list) for content in contents(found))
    assert all(isinstance(content, str) for content in contents(sent))
    assert words(sent) == words(found)
    assert (sent.semi, sent.tail) == (None, found.tail)


def test_parts_of_the_callers_own_stay_parts():
    came = prompt(
        message("system", [{"type": "text", "text": RULES}]),
        message("user", [{"type": "text", "text": "Hi"}]),
    )
    found = place_pieces(came, WISH, late=False).prompt

    assert join_texts(found, came) is found


def test_what_was_not_taken_apart_stays_as_it_is():
    came = prompt(message("system", RULES), message("user", "Hi"))

    assert join_texts(came, came) is came


def test_a_part_that_is_no_plain_text_keeps_its_message():
    came = prompt(message("system", "a"), message("user", "Hi"))
    marked = {"type": "text", "text": "b", "cache_control": {}}
    picture = {"type": "image_url", "image_url": {"url": "u"}}
    rules = message("system", [{"type": "text", "text": "a"}, marked])
    asked = message("user", [{"type": "text", "text": "a"}, picture])
    found = prompt(rules, asked)
    found = Prompt(fields=found.fields, messages=found.messages, semi=(0, 1), tail=1)

    assert join_texts(found, came) is found


def test_a_conversation_keeps_the_same_instructions_whatever_follows_them():
    picture = message("user", [{"type": "image_url", "image_url": {"url": "u"}}])
    first = prompt(message("system", RULES), message("user", "Hi"))
    later = prompt(
        message("system", RULES), message("user", "Hi"), message("assistant", "Ho"), picture
    )
    sent = [
        join_texts(place_pieces(came, WISH).prompt, came).messages[0] for came in (first, later)
    ]

    assert sent[0] == sent[1]
