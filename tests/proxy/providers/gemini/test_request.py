"""A chat body as a ``generateContent`` body."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.gemini.request import generate_body
from tests.fakes.gemini_answers import Json, gemini_route
from tests.fakes.refusals import refusing

HI: Json = {"role": "user", "content": "Hi"}


def test_fields_without_a_word_are_named_and_those_of_the_gateway_are_not() -> None:
    body = {"messages": [HI], "stream": True, "user": "u", "store": False, "logit_bias": None,
            "stream_options": {"include_usage": True}, "metadata": {"feature": "f"}}  # fmt: skip
    request = generate_body(orjson.dumps(body), gemini_route(), "gemini-x")

    assert orjson.loads(request.body) == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    assert request.notes == ("dropped store, user: the model has no such parameter",)


def test_an_explicit_cache_is_named() -> None:
    body = {"messages": [HI], "extra_body": {"google": {"cached_content": "cachedContents/a"}}}
    request = generate_body(orjson.dumps(body), gemini_route(), "gemini-x")

    assert orjson.loads(request.body)["cachedContent"] == "cachedContents/a"


@pytest.mark.parametrize(
    "fields",
    [{"messages": []}, {"messages": [HI], "functions": []}, {"messages": [HI], "audio": 1}],
)
def test_fields_that_cannot_be_left_out_are_refused(fields: Json) -> None:
    with refusing(400):
        generate_body(orjson.dumps(fields), gemini_route(), "gemini-x")


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_a_longer_conversation_begins_with_the_same_bytes(words: list[str]) -> None:
    turns = [{"role": "user", "content": word} for word in words]
    bodies = [orjson.dumps({"messages": given_turns}) for given_turns in (turns, [*turns, HI])]
    before, after = (generate_body(body, gemini_route(), "gemini-x").body for body in bodies)

    assert after.startswith(before.removesuffix(b"]}"))


@pytest.mark.parametrize("body", [b"{}", b'{"messages":[],"seed":"x"}', b"[]"])
def test_a_malformed_chat_body_is_refused_for_gemini(body: bytes) -> None:
    with refusing(400):
        generate_body(body, gemini_route(), "gemini-x")
