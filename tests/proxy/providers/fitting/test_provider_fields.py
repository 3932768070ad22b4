"""A substitute is sent no field, of its call or its messages, that its provider refuses."""

from typing import Any

import orjson
import pytest

from proxy.calls.translation.translation import prepare
from proxy.catalog.entries import BodyFields, Route, Upstream
from proxy.providers.fitting.provider_fields import apply_body_fields, refused_fields
from proxy.providers.port import PreparedRequest
from tests.fakes.call_dependencies import call

TRAITS = frozenset({"max_tokens", "sampling", "stop", "openai_params"})
DECLARED = BodyFields(
    add={"safe_prompt": b"true"},
    rename={"max_completion_tokens": "max_tokens"},
    drop=frozenset({"store"}),
)
DECLARED_WHY = "the catalog says so of this upstream"


def route_of(provider: str, *, asks_usage: bool = True, **fields: Any) -> Route:
    upstream = Upstream(
        name=provider,
        kind="openai",
        base_url="http://there/v1",
        provider=provider,
        asks_usage=asks_usage,
    )
    return Route(**{"name": f"{provider}/m", "upstream": upstream, "traits": TRAITS, **fields})


def prepare_for(route: Route, **fields: Any) -> PreparedRequest:
    body = orjson.dumps({"model": "m", **fields})
    return prepare(call(body), route, is_substitute=True)


def fields(prepared: PreparedRequest) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(prepared.body)
    return {name: value for name, value in read.items() if name != "model"}


@pytest.mark.parametrize(
    ("provider", "stays"),
    [
        ("openai", {"prompt_cache_key": "k", "modalities": ["text"]}),
        ("azure", {"prompt_cache_key": "k", "modalities": ["text"]}),
        ("google", {}),
        ("groq", {}),
        ("mistral", {"prompt_cache_key": "k"}),
    ],
)
def test_fields_that_a_strict_provider_refuses_are_left_out(provider, stays):
    given = {"prompt_cache_key": "k", "modalities": ["text"], "chat_template_kwargs": {"a": 1}}
    prepared = prepare_for(route_of(provider), **given)

    assert fields(prepared) == stays
    assert "chat_template_kwargs" in prepared.notes[0]


def test_fields_stay_where_unknown_ones_are_ignored():
    assert refused_fields({"chat_template_kwargs", "model"}, route_of("", regime="")) == []
    assert refused_fields({"chat_template_kwargs"}, route_of("xai")) == []


@pytest.mark.parametrize("provider", ["google", "groq", "mistral", "deepseek", "xai"])
def test_an_answer_of_openai_that_is_sent_back_has_no_field_that_others_refuse(provider):
    # What openai-python's message.model_dump() gives.
    answered: dict[str, Any] = {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
    }
    prepared = prepare_for(
        route_of(provider), messages=[{"role": "user", "content": "a"}, answered]
    )

    assert fields(prepared)["messages"][1] == {"role": "assistant", "content": "Hi"}
    assert prepared.notes == (
        "dropped annotations, audio, function_call, refusal: the model does not take it",
    )


def test_a_refusal_goes_on_as_what_was_said():
    refused = {"role": "assistant", "content": None, "refusal": "I cannot."}
    prepared = prepare_for(route_of("mistral"), messages=[refused])

    assert fields(prepared)["messages"] == [{"role": "assistant", "content": "I cannot."}]


def test_openai_gets_its_own_answers_back_unmodified():
    answered: dict[str, Any] = {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "annotations": [],
    }
    prepared = prepare_for(route_of("openai"), messages=[answered])

    assert fields(prepared)["messages"] == [answered]


@pytest.mark.parametrize(
    ("provider", "stays"),
    [("mistral", False), ("groq", False), ("google", False), ("deepseek", True), ("xai", True)],
)
def test_thinking_of_another_provider_goes_where_it_is_read(provider, stays):
    thought = {"role": "assistant", "content": "Hi", "reasoning_content": "Hm."}
    prepared = prepare_for(route_of(provider), messages=[thought])

    assert ("reasoning_content" in fields(prepared)["messages"][0]) is stays


def test_an_engine_of_ones_own_gets_thinking():
    thought = {"role": "assistant", "content": "Hi", "reasoning_content": "Hm."}
    engine = route_of("vllm", traits=frozenset[str]())

    assert fields(prepare_for(engine, messages=[thought]))["messages"] == [thought]


def test_mistral_gets_names_of_tools_alone():
    messages = [
        {"role": "user", "name": "Ann", "content": "a"},
        {"role": "tool", "name": "look", "content": "b", "tool_call_id": "c"},
    ]

    assert fields(prepare_for(route_of("mistral"), messages=messages))["messages"] == [
        {"role": "user", "content": "a"},
        messages[1],
    ]
    assert fields(prepare_for(route_of("groq"), messages=messages))["messages"] == messages


TEXT = {"type": "content", "content": "def f(): ..."}
PARTS = {"type": "content", "content": [{"type": "text", "text": "def f(): ..."}]}


@pytest.mark.parametrize(
    ("provider", "prediction", "note"),
    [
        ("mistral", {"prediction": TEXT}, ""),
        ("mistral", {"prediction": TEXT, "n": 1}, ""),
        ("mistral", {"prediction": PARTS}, "dropped prediction: the model takes it as one text"),
        (
            "mistral",
            {"prediction": TEXT, "n": 2},
            "dropped prediction: the model takes it with one answer only",
        ),
        ("openai", {"prediction": PARTS}, ""),
    ],
)
def test_a_prediction_goes_in_the_form_that_the_provider_takes(provider, prediction, note):
    prepared = prepare_for(route_of(provider, traits=TRAITS | {"prediction"}), **prediction)

    left = {name: value for name, value in prediction.items() if name != "prediction" or not note}
    assert fields(prepared) == left
    assert prepared.notes == ((note,) if note else ())


def test_a_stream_is_not_asked_for_usage_that_is_sent_unasked():
    given = {"stream": True, "stream_options": {"include_usage": True}}

    prepared = prepare_for(route_of("mistral", asks_usage=False), **given)
    assert fields(prepared) == {"stream": True}
    assert prepared.notes == ("dropped stream_options: usage is sent unasked",)
    assert fields(prepare_for(route_of("openai"), **given)) == given


def request_with(body: bytes) -> PreparedRequest:
    return PreparedRequest(method="POST", path="/chat/completions", headers={}, body=body)


@pytest.mark.parametrize(
    ("body", "sent", "notes"),
    [
        (b'{"a": 1}', b'{"a": 1,"safe_prompt":true}', ()),
        (
            b'{"max_completion_tokens":9,"a":1}',
            b'{"a":1,"safe_prompt":true,"max_tokens":9}',
            ("sent max_completion_tokens as max_tokens",),
        ),
        (
            b'{"max_completion_tokens":9,"max_tokens":8}',
            b'{"max_tokens":8,"safe_prompt":true}',
            (f"dropped max_completion_tokens: {DECLARED_WHY}",),
        ),
        (
            b'{"store":true,"safe_prompt":false}',
            b'{"safe_prompt":true}',
            (f"dropped store: {DECLARED_WHY}", f"set safe_prompt: {DECLARED_WHY}"),
        ),
    ],
)
def test_declared_fields_are_added_renamed_and_dropped(
    body: bytes, sent: bytes, notes: tuple[str, ...]
) -> None:
    request = apply_body_fields(request_with(body), DECLARED)

    assert (request.body, request.notes) == (sent, notes)


def test_the_first_of_two_names_for_an_upstreams_field_is_sent() -> None:
    declared = BodyFields(rename={"max_tokens": "limit", "max_completion_tokens": "limit"})
    request = request_with(b'{"max_completion_tokens":9,"max_tokens":8}')

    prepared = apply_body_fields(request, declared)

    dropped = f"dropped max_completion_tokens: {DECLARED_WHY}"
    assert (prepared.body, prepared.notes) == (
        b'{"limit":8}',
        ("sent max_tokens as limit", dropped),
    )


def test_a_body_that_is_no_object_goes_unmodified() -> None:
    request = request_with(b"[]")

    assert apply_body_fields(request, DECLARED) is request


def test_a_body_without_fields_to_change_goes_byte_for_byte() -> None:
    only_drops = BodyFields(drop=frozenset({"store"}))

    assert apply_body_fields(request_with(b' {"a": 1 }'), only_drops).body == b' {"a": 1 }'
