"""Which conversation a call belongs to."""

from hashlib import blake2b
from typing import Any

import orjson
import pytest

from proxy.prefix.prompts.conversation import conversation, opened
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import Prompt, leading, parsed

WHO = ("team", "feature", "key")
SYSTEM = {"role": "system", "content": "You help. It is noon."}
ASKED = {"role": "user", "content": "What is there?"}
ANSWER = {"role": "assistant", "content": "A house."}
MARK = {"type": "ephemeral"}


def fingerprint(piece: bytes) -> bytes:
    return blake2b(piece, digest_size=16).digest()


def prompt(*messages: object, **fields: Any) -> Prompt:
    return parsed(orjson.dumps({"messages": messages, **fields}))


def of(*messages: object, who: tuple[str, ...] = WHO, **fields: Any) -> bytes:
    found = prompt(*messages, **fields)
    first = found.messages[leading(found) :][:1]
    opening = opened(first[0], fingerprint) if first else b""
    return conversation(found, who, fingerprint, opening)


def test_it_stays_the_same_as_the_conversation_grows():
    assert of(SYSTEM, ASKED) == of(SYSTEM, ASKED, ANSWER, ASKED)


def test_what_stands_before_it_makes_no_difference():
    later = {"role": "developer", "content": "You help. It is one."}

    assert of(SYSTEM, ASKED) == of(later, SYSTEM, ASKED) == of(ASKED)


def test_a_mark_that_moves_on_makes_no_difference():
    part = {"type": "text", "text": "What is there?"}
    for other in (
        {"role": "user", "content": [part]},
        {"role": "user", "content": [part | {"cache_control": MARK}]},
        {"role": "user", "content": "What is there?", "cache_control": MARK},
        {"content": "What is there?", "role": "user"},
    ):
        assert of(other) == of(ASKED)


def test_a_mark_on_a_picture_makes_no_difference():
    picture = {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}
    marked = picture | {"prompt_cache_breakpoint": {"mode": "explicit"}}

    assert of({"role": "user", "content": [picture]}) == of({"role": "user", "content": [marked]})


@pytest.mark.parametrize(
    "other",
    [
        {"role": "user", "content": "What was there?"},
        {"role": "user", "content": "What is there?", "name": "Bo"},
        {"role": "assistant", "content": "What is there?"},
        {"role": "user", "content": [{"type": "text", "text": "What is "}, {"text": "there?"}]},
        {"role": "user", "content": None},
    ],
)
def test_another_first_message_is_another_conversation(other: object):
    assert of(SYSTEM, other) != of(SYSTEM, ASKED)


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt_cache_key": "k"},
        {"user": "u"},
        {"session_id": "s"},
        {"safety_identifier": "s"},
        {"metadata": {"conversation_id": "c"}},
        {"metadata": {"thread_id": "c"}},
    ],
)
def test_what_the_caller_says_of_it_tells_two_apart(fields: dict[str, Any]):
    assert of(ASKED, **fields) != of(ASKED)


def test_other_fields_and_strange_metadata_do_not():
    assert of(ASKED, model="m", metadata={"request_id": "1"}) == of(ASKED)
    assert of(ASKED, metadata=[1]) == of(ASKED)


def test_whose_it_is_tells_two_apart():
    assert of(ASKED, who=("te", "amfeature", "key")) != of(ASKED)
    assert of(ASKED, who=(*WHO, "header")) != of(ASKED)


def test_without_a_conversation_it_is_the_callers():
    assert of(SYSTEM) == of() != of(SYSTEM, who=("other",))


def test_a_message_that_cannot_be_read_has_none():
    with pytest.raises(Unplannable):
        of(7)
    with pytest.raises(Unplannable):
        of({"role": "user", "content": 7})
