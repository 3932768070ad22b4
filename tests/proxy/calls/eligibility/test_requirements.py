"""Tests of what a call needs of a model, and whether one has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.calls.eligibility.requirements import (
    call_requirements,
    missing_capability,
    missing_on_every_route,
    route_capabilities,
)
from proxy.catalog.entries import Model, Upstream
from proxy.providers.fitting.chat_forms import accepted_forms, required_form
from proxy.providers.fitting.substitution import accepted_traits
from slo.objectives.ladder import SCHEMA, TOOLS, VISION, CallRequirements, Capabilities
from tests.fakes.call_dependencies import call, chat_alone, route


def model(*abilities: str, window: int | None = 8_000, output: int | None = 1_000) -> Model:
    can = frozenset(abilities)
    return Model(id="small", routes=(route("s", window=window, max_output=output, can=can),))


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        (b"{}", CallRequirements()),
        (b'{"tools":[{"type":"function"}]}', CallRequirements(tools=True)),
        (b'{"functions":[{}]}', CallRequirements(tools=True, needs=("functions",))),
        (
            b'{"n":2,"logprobs":true,"stop":"x"}',
            CallRequirements(needs=("choices", "logprobs", "stop")),
        ),
        (b'{"n":1,"logprobs":false,"top_logprobs":0,"stop":null}', CallRequirements()),
        (
            b'{"modalities":["text","audio"],"audio":{"voice":"x"}}',
            CallRequirements(needs=("audio",)),
        ),
        (b'{"web_search_options":{}}', CallRequirements(needs=("web_search",))),
        (b'{"tool_choice":"required"}', CallRequirements(needs=("forced_tools",))),
        (b'{"tool_choice":"auto"}', CallRequirements()),
        (
            b'{"tools":[{"type":"function"},{"type":"custom"},{"type":"web_search"}]}',
            CallRequirements(tools=True, needs=("custom_tools", "hosted_tools")),
        ),
        (b'{"tools":[],"functions":null}', CallRequirements()),
        (
            b'{"response_format":{"type":"json_schema","json_schema":{}}}',
            CallRequirements(schema=True),
        ),
        (b'{"response_format":{"type":"json_object"}}', CallRequirements()),
        (b'{"response_format":"json_schema"}', CallRequirements()),
        (b'{"text":{"format":{"schema":{},"type":"json_schema"}}}', CallRequirements(schema=True)),
        (b'{"text":{"format":{"type":"text"}}}', CallRequirements()),
        (b'{"messages":[{"content":[{"type":"image_url"}]}]}', CallRequirements(vision=True)),
        (b'{"input":[{"content":[{"type":"input_file"}]}]}', CallRequirements(vision=True)),
        (b'{"input":[{"type":"input_image"}]}', CallRequirements(vision=True)),
        (b'{"input":[{"output":[{"type":"input_image"}]}]}', CallRequirements(vision=True)),
        (b'{"messages":[{"content":"an \\"image_url\\" of \\"type\\""}]}', CallRequirements()),
        (b'{"messages":[{"content":[{"type":"text","text":"x"}]}]}', CallRequirements()),
        (b'{"messages":[{"content":["what is this"]}]}', CallRequirements(vision=True)),
        (b'{"messages":["image_url"]}', CallRequirements(vision=True)),
        (b'{"messages":"text","tools":[{}]}', CallRequirements(tools=True)),
        (b'{"tools":"' + b"x" * 20_000 + b'"}', CallRequirements(tools=True)),
        (b'{"text":{"format":[1]}}', CallRequirements()),
        (b'{"text":[1],"response_format":{"type":{"a":1}}}', CallRequirements()),
        (b'{"max_tokens":10}', CallRequirements(output=10)),
        (b'{"max_tokens":10,"max_completion_tokens":20}', CallRequirements(output=20)),
        (b'{"max_output_tokens":30,"max_tokens":"many"}', CallRequirements(output=30)),
        (
            b'{"max_output_tokens":40,"max_tokens":' + b"9" * 5_000 + b"}",
            CallRequirements(output=40),
        ),
        (b"\xff\x00", CallRequirements()),
        (b"[1]", CallRequirements()),
    ],
)
def test_requirements_are_read_from_the_body(body, needed):
    requirements = call_requirements(call(body, fields=None))

    assert requirements == CallRequirements(
        tools=needed.tools,
        schema=needed.schema,
        vision=needed.vision,
        output=needed.output,
        tokens=len(body) // 4,
        needs=(*needed.needs, required_form(frozenset(needed.needs), has_tools=needed.tools)),
    )


def test_a_long_schema_before_its_type_is_a_schema_all_the_same():
    long = b'{"text":{"format":{"schema":{"a":"' + b"x" * 9_000 + b'"},"type":"json_schema"}}}'

    assert call_requirements(call(long, fields=None)).schema


def test_a_call_is_bound_to_its_region():
    assert call_requirements(call(b"{}"), "eu").region == "eu"


@given(st.binary(max_size=200))
def test_any_bytes_have_requirements(body):
    assert call_requirements(call(body, fields=None)).tokens == len(body) // 4


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        (b'{"model":"m"}', True),
        (b'{"model":"m","tools":[{}]}', True),
        (b'{"model":"m","response_format":{"type":"json_schema"}}', False),
        (b'{"model":"m","messages":[{"type":"image_url"}]}', False),
        (b'{"model":"m","max_tokens":2000}', False),
        (b'{"model":"m","user":"' + b"x" * 40_000 + b'"}', False),
    ],
)
def test_a_model_that_cannot_do_it_is_unfit(body, fits):
    assert (missing_capability(call(body), model(TOOLS)) == "") is fits


def test_a_model_has_a_capability_where_one_of_its_routes_has_it():
    able = route("able", window=8_000, max_output=10, can=frozenset({TOOLS, SCHEMA, VISION}))
    request = call(b'{"model":"m","tools":[{}]}')

    assert missing_capability(request, Model(id="x", routes=(route("unknown"), able))) == ""
    assert missing_capability(request, Model(id="x", routes=(route("unknown"),)))


def test_a_model_elsewhere_is_unfit_for_what_is_bound_to_a_region():
    assert missing_capability(call(b'{"model":"m"}'), model(), "eu")
    assert missing_on_every_route(CallRequirements(tokens=9_000), model())


@pytest.mark.parametrize(
    "field", [b'"previous_response_id":"resp_1"', b'"conversation":"c"', b'"background":true']
)
def test_state_kept_by_another_upstream_cannot_be_continued(field):
    request = call(b'{"model":"m",' + field + b"}", "responses")

    assert "keeps" in missing_capability(request, model())


def test_capabilities_of_a_route_include_its_upstreams():
    upstream = Upstream(
        name="eu", kind="openai", base_url="http://eu/v1", provider="p", region="eu"
    )
    capable = route("one", upstream=upstream, window=5, max_output=2, can=frozenset({TOOLS}))

    assert route_capabilities(capable) == Capabilities(
        can=frozenset({TOOLS}),
        window=5,
        max_output=2,
        region="eu",
        takes=accepted_traits(capable) | accepted_forms(capable),
    )


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        (b'{"tools":[{"name":"a"},{"name":"b","type":"custom"}]}', CallRequirements(tools=True)),
        (
            b'{"tools":[{"name":"bash","type":"bash_20250124"}]}',
            CallRequirements(tools=True, needs=("server_tools",)),
        ),
        (b'{"tool_choice":{"type":"auto"}}', CallRequirements()),
        (b'{"tool_choice":{"type":"any"}}', CallRequirements(needs=("forced_tools",))),
        (b'{"stop_sequences":["x"]}', CallRequirements(needs=("stop",))),
        (b'{"output_config":{"effort":"low"}}', CallRequirements()),
        (
            b'{"output_config":{"format":{"type":"json_schema","schema":{}}}}',
            CallRequirements(schema=True),
        ),
        (b'{"messages":[{"content":[{"type":"image"}]}]}', CallRequirements(vision=True)),
        (
            b'{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image"}]}]}]}',
            CallRequirements(vision=True),
        ),
        (
            b'{"messages":[{"content":[{"type":"tool_result","content":"image"}]}]}',
            CallRequirements(),
        ),
        (
            b'{"messages":[{"content":[{"type":"document"}]}],"max_tokens":7}',
            CallRequirements(vision=True, output=7),
        ),
    ],
)
def test_the_requirements_of_a_call_of_anthropics_api_are_read(body, needed):
    requirements = call_requirements(call(body, endpoint="messages"))

    assert requirements.needs[-1] == required_form(frozenset(needed.needs), has_tools=needed.tools)
    assert replace(requirements, tokens=0, needs=requirements.needs[:-1]) == needed


@pytest.mark.parametrize(
    ("traits", "endpoint", "tools", "why"),
    [
        ({"tools_at_none", "effort_none"}, "chat/completions", True, ""),
        ({"tools_at_none"}, "chat/completions", False, ""),
        ({"tools_at_none"}, "chat/completions", True, "It cannot use tools in chat completions."),
        ({"tools_at_none"}, "messages", True, "It cannot use tools in chat completions."),
        ({"tools_at_none"}, "responses", True, ""),
        ({"responses_only"}, "messages", False, "It cannot be asked in chat completions."),
        ({"responses_only"}, "responses", False, ""),
    ],
)
def test_a_model_is_ruled_out_for_tools_that_its_chat_refuses(traits, endpoint, tools, why):
    body = b'{"model":"m","tools":[{"name":"a"}]}' if tools else b'{"model":"m"}'
    there = chat_alone(route("s", window=8_000, can=frozenset({TOOLS}), traits=frozenset(traits)))

    assert missing_capability(call(body, endpoint), Model(id="s", routes=(there,))) == why
