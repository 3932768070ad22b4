"""Reading chat bodies."""

from typing import Any

import pytest

from proxy.errors import UpstreamError
from proxy.tools.simulator.apis.chat_bodies import read_chat_request
from proxy.tools.simulator.models import MODELS, SimulatedModel
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.replies import ReadingContext
from tests.proxy.tools.simulator.scene import TOOL, user

CALL = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}


def body(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-6.1-sol", "messages": list(messages) or [user("Hello")]} | fields


def test_a_prompt_is_tools_then_the_messages_in_order(context: ReadingContext) -> None:
    messages = (
        {"role": "system", "content": "Be brief."},
        user("Read it."),
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "text"},
    )

    blocks = read_chat_request(body(*messages, tools=[TOOL]), context).prompt.blocks

    assert [(block.role, block.kind) for block in blocks] == [
        ("tools", "text"),
        ("system", "text"),
        ("user", "text"),
        ("assistant", "tool_use"),
        ("tool", "text"),
        ("assistant", "text"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "I cannot."},
        {"content": None, "refusal": "I cannot."},
        {"content": "", "refusal": "I cannot."},
        {"content": [{"type": "refusal", "refusal": "I cannot."}]},
    ],
)
def test_a_refusal_of_the_assistant_is_read_like_any_text(
    context: ReadingContext, fields: dict[str, Any]
) -> None:
    plain = {"role": "assistant", "content": "I cannot."}

    def tokens(message: dict[str, Any]) -> list[int]:
        prompt = read_chat_request(body(user("Do it."), message, user("Why?")), context).prompt
        return [token for block in prompt.blocks for token in block.tokens]

    assert tokens({"role": "assistant", **fields}) == tokens(plain)


def test_marks_keys_and_modes_reach_the_cache(context: ReadingContext) -> None:
    part = {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
    options = {"mode": "explicit", "ttl": "30m"}

    prompt = read_chat_request(
        body(user("x") | {"content": [part]}, prompt_cache_options=options, prompt_cache_key="k"),
        context,
    ).prompt

    assert prompt.blocks[0].mark == "30m"
    assert (prompt.explicit, prompt.key, prompt.ttl) == (True, "k", "30m")


def test_a_cache_salt_parts_caches_too(context: ReadingContext) -> None:
    assert read_chat_request(body(cache_salt="s"), context).prompt.key == "s"


@pytest.mark.parametrize(
    "change",
    [{"reasoning_effort": "low"}, {"verbosity": "low"}, {"parallel_tool_calls": False}],
)
def test_parameters_of_the_prefix_part_caches(
    context: ReadingContext, change: dict[str, Any]
) -> None:
    assert (
        read_chat_request(body(**change), context).prompt.scope
        != read_chat_request(body(), context).prompt.scope
    )


@pytest.mark.parametrize("change", [{"temperature": 0.5}, {"user": "u"}, {"seed": 3}, {"x": 1}])
def test_other_parameters_do_not(context: ReadingContext, change: dict[str, Any]) -> None:
    assert (
        read_chat_request(body(**change), context).prompt
        == read_chat_request(body(), context).prompt
    )


def test_a_schema_is_part_of_the_prefix_and_binds_the_answer(context: ReadingContext) -> None:
    schema = {"type": "object", "properties": {}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}

    request = read_chat_request(body(response_format=form), context)

    assert request.schema == schema
    assert request.prompt.blocks[0].role == "system"
    assert read_chat_request(body(response_format={"type": "json_object"}), context).schema == {}
    assert read_chat_request(body(response_format={"type": "text"}), context).schema is None


def test_a_tool_choice_can_oblige(context: ReadingContext) -> None:
    named = {"type": "function", "function": {"name": "read_file"}}

    for choice in ("required", named):
        assert read_chat_request(body(tools=[TOOL], tool_choice=choice), context).forced == [
            "read_file"
        ]
    for free in ("auto", "none", None, {"type": "allowed_tools", "allowed_tools": {}}):
        assert read_chat_request(body(tools=[TOOL], tool_choice=free), context).forced == []


@pytest.mark.parametrize(
    ("trait", "fields", "param"),
    [
        ("tools_at_none", {"tools": [TOOL]}, "reasoning_effort"),
        ("tools_at_none", {"tools": [TOOL], "reasoning_effort": "low"}, "reasoning_effort"),
        ("tools_at_none", {"tools": [TOOL], "reasoning_effort": "none"}, None),
        ("tools_at_none", {"reasoning_effort": "low"}, None),
        ("responses_only", {}, "model"),
    ],
)
def test_tools_beside_reasoning_are_refused_as_openai_does(
    vocabulary: Vocabulary, trait: str, fields: dict[str, Any], param: str | None
) -> None:
    context = ReadingContext(vocabulary, SimulatedModel(traits=frozenset({trait})), "sk")
    if param is None:
        assert read_chat_request(body(**fields), context).model
        return
    with pytest.raises(UpstreamError) as refused:
        read_chat_request(body(**fields), context)

    assert (refused.value.status, refused.value.param) == (400, param)


def test_pictures_and_files_have_tokens_too(context: ReadingContext) -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "http://a", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "http://a"}},
        {"type": "file", "file": {"file_data": "x" * 400}},
        {"type": "refusal", "refusal": "no"},
    ]

    blocks = read_chat_request(body({"role": "user", "content": parts}), context).prompt.blocks

    assert [block.kind for block in blocks[:4]] == ["image", "image", "file", "text"]
    assert len(blocks[0].tokens) < len(blocks[1].tokens)
    assert len(blocks[2].tokens) > 100


def test_chat_parameters_are_read(context: ReadingContext) -> None:
    request = read_chat_request(
        body(
            max_completion_tokens=5,
            n=99,
            stop="x",
            stream=True,
            stream_options={"include_usage": True},
            reasoning_effort="low",
        ),
        context,
    )

    assert (request.max_tokens, request.n, request.stops) == (5, 8, ("x",))
    assert (request.stream, request.usage_chunk, request.reasoning) == (True, True, 64)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        (body(model="gpt-5.5", max_tokens=5), "max_tokens"),
        (body(tools=[TOOL], tool_choice={"function": {"name": "x"}}), "tool_choice"),
        (body({"role": "poet", "content": "x"}), "messages"),
        (body({"role": "user", "content": 5}), "messages"),
        (body(user("a"), {"role": "tool", "tool_call_id": "x"}), "messages.[1].role"),
        (body(user("a"), {"role": "assistant", "tool_calls": [CALL]}), "messages.[1].role"),
        (
            body(user("a"), {"role": "assistant", "tool_calls": [CALL]}, user("b")),
            "messages.[2].role",
        ),
        ({"model": "m", "messages": []}, "messages"),
    ],
)
def test_a_chat_body_that_openai_refuses_is_refused(
    context: ReadingContext, wrong: dict[str, Any], param: str
) -> None:
    with pytest.raises(UpstreamError) as refused:
        read_chat_request(wrong, context)

    assert (refused.value.status, refused.value.param) == (400, param)


def test_an_older_model_takes_no_cache_options_but_the_old_bound(context: ReadingContext) -> None:
    older = ReadingContext(context.vocabulary, MODELS["gpt-4o-mini"], "sk")

    assert read_chat_request(body(model="gpt-4o-mini", max_tokens=5), older).max_tokens == 5
    with pytest.raises(UpstreamError) as refused:
        read_chat_request(
            body(model="gpt-4o-mini", prompt_cache_options={"mode": "explicit"}), older
        )
    assert refused.value.param == "prompt_cache_options"
    part = {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
    with pytest.raises(UpstreamError) as refused:
        read_chat_request(body(user("x") | {"content": [part]}, model="gpt-4o-mini"), older)
    assert refused.value.param == "prompt_cache_breakpoint"


def test_retention_of_the_body_goes_before_the_models(vocabulary: Vocabulary) -> None:
    model = SimulatedModel(regime="openai-interval", prompt_cache_retention="24h")
    context = ReadingContext(vocabulary, model, "key")
    messages: list[dict[str, Any]] = [
        {},
        {"prompt_cache_retention": None},
        {"prompt_cache_retention": "in_memory"},
    ]
    prompts = [read_chat_request(body(**fields), context).prompt for fields in messages]

    assert [prompt.retention for prompt in prompts] == ["24h", "24h", "in_memory"]
