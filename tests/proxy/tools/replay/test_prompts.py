"""Chat bodies as a route's cache sees them."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.entries import Model, Route, Upstream
from proxy.errors import OperatorError
from proxy.records.request_fields import replace_fields
from proxy.tools.replay.prompts import LineVocabulary, PromptReader
from proxy.tools.simulator.apis import chat_bodies
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.replies import ReadingContext
from tests.proxy.tools.replay.scene import CATALOG, body, prompt_reader, system, tool, user

ASKED = body(system("Be brief."), user("Hello"), tools=[tool("notes")])


def test_an_openai_route_is_shown_what_the_lab_would_see(vocabulary):
    route = prompt_reader("breakpoints", vocabulary)

    prompt = route.read_prompt(ASKED, 0.0)

    document = orjson.loads(replace_fields(ASKED, {"model": b'"gpt-6.1-sol"'}))
    context = ReadingContext(vocabulary, route.simulated, "replay")
    assert prompt == chat_bodies.chat_prompt(document, context)
    assert [block.role for block in prompt.blocks] == ["tools", "system", "user", "assistant"]


def test_an_anthropic_route_is_shown_messages_with_their_marks(vocabulary):
    marked = {"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral", "ttl": "1h"}}

    prompt = prompt_reader("marks", vocabulary).read_prompt(
        body({"role": "user", "content": [marked]}), 0.0
    )

    assert [block.mark for block in prompt.blocks] == ["1h", None]


@pytest.mark.parametrize("name", ["breakpoints", "marks"])
@pytest.mark.parametrize(
    "request_body",
    [
        b"[]",
        body({"role": "user", "content": [{"text": "Hi"}]}),
        body({"role": "wizard", "content": "Hi"}),
        body({"role": "user", "content": 7}),
        body(user("Hi"), stream="yes"),
        body(user("Hi"), tools=[{"type": "function"}], response_format=3),
    ],
)
def test_a_prompt_that_cannot_be_sent_says_why(name, request_body, vocabulary):
    with pytest.raises(OperatorError) as error:
        prompt_reader(name, vocabulary).read_prompt(request_body, 0.0)

    assert str(error.value)
    assert "' object" not in str(error.value)


def test_an_answer_is_the_tokens_that_the_next_prompt_holds(vocabulary):
    route = prompt_reader("blocks", vocabulary)
    call = {"type": "function", "id": "1", "function": {"name": "f", "arguments": '{"a":1}'}}
    reply = {"role": "assistant", "content": "I look.", "tool_calls": [call]}

    generated = route.generated_tokens(orjson.dumps(reply))

    prompt = route.read_prompt(body(user("Hi"), reply, user("And?")), 0.0)
    tokens = [token for block in prompt.blocks if block.message == 1 for token in block.tokens]
    assert tuple(tokens[3:-1]) == generated


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (b'{"content": [{"type": "text", "text": "Yes"}, {"type": "refusal"}]}', "Yes"),
        (b'{"content": "Yes", "tool_calls": null}', "Yes"),
        (b'{"content": [{"type": "refusal", "refusal": "No"}]}', "No"),
        (b'{"content": null, "refusal": "No"}', "No"),
        (b'{"content": null}', ""),
        (b"null", ""),
        (b'"Yes"', ""),
        (b"{", ""),
        (b'{"content": [1], "tool_calls": [{}]}', ""),
        (b'{"tool_calls": [{"type": "custom", "custom": {"name": "f", "input": "x"}}]}', "f x"),
    ],
)
def test_an_answer_of_any_shape_has_tokens_or_none(reply, text, vocabulary):
    assert prompt_reader("blocks", vocabulary).generated_tokens(reply) == vocabulary.ids(text)


def test_a_model_is_read_by_its_public_name(vocabulary):
    reader = prompt_reader("breakpoints", vocabulary)

    assert reader.public == "breakpoints"
    assert reader.simulated.regime == CATALOG.models["breakpoints"].routes[0].regime


def test_a_route_of_googles_native_api_is_shown_the_chat_it_was_asked(vocabulary):
    upstream = Upstream(name="g", kind="gemini", base_url="https://g.test/v1beta")
    route = Route(name="g/n", upstream=upstream, model="gemini-x", regime="implicit")
    prompt = PromptReader(Model(id="n", routes=(route,)), route, vocabulary).read_prompt(ASKED, 0.0)

    assert [block.role for block in prompt.blocks] == ["tools", "system", "user", "assistant"]


WHOLE = Vocabulary()
BY_LINES = LineVocabulary()
TEXTS = st.text(
    alphabet=st.sampled_from("ab1 .,;/\\-\t\n\r\u00a0\u2028\x1c\x85é漢'sT"), max_size=60
)


@given(TEXTS | st.text(max_size=60))
def test_a_text_read_by_lines_is_the_same_tokens(text):
    assert BY_LINES.ids(text + "\n" + text) == WHOLE.ids(text + "\n" + text)


def test_code_and_long_texts_are_the_same_tokens_too():
    text = "def f(x):\n    return x\n\n\n// note.\n/path/to\n\n- a\r\n- b.\n" * 200

    assert BY_LINES.ids(text) == WHOLE.ids(text)


def test_of_a_text_that_grows_only_what_is_new_is_encoded():
    lines = LineVocabulary()
    text = "A log.\nIt only\never grows.\n"

    lines.ids(text + "Here")
    before = set(lines._known)
    lines.ids(text + "Here it grew.\nAnd here.")

    assert before == {"A log.\n", "It only\n", "ever grows.\n", "Here"}
    assert set(lines._known) - before == {"Here it grew.\n", "And here."}
