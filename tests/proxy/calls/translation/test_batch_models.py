"""Models in a batch of Messages calls, under the names of the batch's upstream."""

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest

from proxy.calls.translation.batch_models import with_batch_models
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Route, Upstream
from proxy.catalog.model_aliases import ModelAliases
from proxy.records.call import Call
from tests.fakes.call_dependencies import call, catalog, route
from tests.fakes.refusals import refusing

CLAUDE = replace(route("anthropic").upstream, name="anthropic", kind="anthropic")
ALIASES = ModelAliases({"house": "claude-x", "fast": "gpt-x", "claude-o*": "claude-x"})


def _route(upstream: Upstream, model: str = "") -> Route:
    return replace(route(upstream.name), upstream=upstream, model=model)


def batch_catalog(aliases: ModelAliases = ALIASES) -> Catalog:
    """Two Claude models, one of them named otherwise upstream, and one of another provider."""
    base = catalog()
    models = {
        "claude-x": Model(id="claude-x", routes=(_route(CLAUDE, "claude-x-2026"),)),
        "claude-y": Model(id="claude-y", routes=(_route(CLAUDE),)),
        "gpt-x": Model(id="gpt-x", routes=(route("openai"),)),
    }
    return replace(base, models=models, aliases=aliases)


def batch(*models: Any, **fields: Any) -> Call:
    requests = [
        {
            "custom_id": f"r{number}",
            "params": {"model": model, "max_tokens": 9, "beta": {"b": 1.50}},
        }
        for number, model in enumerate(models)
    ]
    return call(orjson.dumps({"requests": requests, "later": [1]}), "messages/batches", **fields)


def name_batch(
    request: Call, from_catalog: Catalog | None = None, upstream: Upstream = CLAUDE
) -> Call:
    return asyncio.run(with_batch_models(request, from_catalog or batch_catalog(), upstream))


def models_of(request: Call) -> list[Any]:
    return [entry["params"]["model"] for entry in orjson.loads(request.body)["requests"]]


def test_an_alias_goes_under_the_upstreams_name_and_all_else_stays() -> None:
    request = batch("house", "claude-y", "claude-opus", "claude-x", "unlisted")
    named = name_batch(request)

    assert models_of(named) == [
        "claude-x-2026", "claude-y", "claude-x-2026", "claude-x-2026", "unlisted",
    ]  # fmt: skip
    assert named.body == (
        request.body.replace(b'"house"', b'"claude-x-2026"')
        .replace(b'"claude-opus"', b'"claude-x-2026"')
        .replace(b'"claude-x"', b'"claude-x-2026"')
    )
    assert named.notes == (
        (
            "renamed models: claude-opus to claude-x-2026, claude-x to claude-x-2026,"
            " house to claude-x-2026"
        ),
    )


def test_an_alias_of_a_model_without_a_name_upstream_goes_under_its_id() -> None:
    aliased = batch_catalog(ModelAliases({"quick": "claude-y"}))

    assert models_of(name_batch(batch("quick"), aliased)) == ["claude-y"]


def test_spaces_and_unknown_fields_of_a_request_survive_the_new_name() -> None:
    request = b'{"x" : [1.0, 2],  "params": {"model" : "house", "n":1e3 , "s": "\\u00e9"}}'
    other = b'{ "custom_id": "b", "params": { "model": "claude-y" } }'
    body = b'{ "requests": [%b , %b], "z": 1.50 }' % (request, other)
    named = name_batch(call(body, "messages/batches"))

    assert other in named.body
    for fragment in (b"[1.0, 2]", b"1e3", b'"\\u00e9"', b"1.50"):
        assert fragment in named.body
    assert b'"claude-x-2026"' in named.body


def test_an_alias_of_another_providers_model_refuses_the_batch_and_names_the_request() -> None:
    with refusing(400, match="All requests of a batch are sent to anthropic") as caught:
        name_batch(batch("claude-y", "fast", "house", "fast", "fast"))

    assert caught.value.param == "requests[1].params.model"
    assert caught.value.code == "unsupported_endpoint"
    assert (
        "`requests[1].params.model`: fast is your team's alias for gpt-x, which anthropic"
        in caught.value.message
    )
    assert "Also affected: 2 more requests." in caught.value.message
    assert "send such requests to /v1/messages" in caught.value.message


def test_a_single_request_that_is_refused_is_not_counted() -> None:
    with refusing(400, match="gpt-x") as caught:
        name_batch(batch("fast"))

    assert "more" not in caught.value.message


@pytest.mark.parametrize(
    "incoming",
    [
        batch("claude-y", "unlisted", "gpt-x", None, 7, ["house"]),
        batch(),
        batch("house", method="GET"),
        call(b'{"requests":[{"params":{"model":"house"}}]}', "messages"),
        call(b'{"requests":[{"params":{"model":"house"}},{}]}', "messages/batches"),
        call(b'{"requests":{"model":"house"}}', "messages/batches"),
        call(b"{}", "messages/batches"),
        call(b"", "messages/batches", fields=None),
        call(b"[" * 100_000, "messages/batches", fields=None),
        call(b'{"requests":[{"params":{"model":"\xff"}}]}', "messages/batches", fields=None),
        call(
            b'{"requests":[{"params":{"model":"house","\xff":1}}]}',
            "messages/batches",
            fields=None,
        ),
        call(
            b'{"requests":[{"params":{"model":"house"}}],"\xff":1}',
            "messages/batches",
            fields=None,
        ),
    ],
)
def test_any_other_call_stays_the_callers(incoming: Call) -> None:
    assert name_batch(incoming) is incoming


def test_a_batch_without_a_model_is_no_alias_of_a_pattern_for_everything() -> None:
    request = batch("", None)

    assert name_batch(request, batch_catalog(ModelAliases({"*": "gpt-x"}))) is request


def test_a_batch_to_an_upstream_that_lacks_the_messages_api_is_left_to_its_refusal() -> None:
    request = batch("house", "fast")

    assert name_batch(request, upstream=route("openai").upstream) is request


def test_a_note_says_few_of_many_long_names() -> None:
    names = [f"claude-o{number:04d}{'x' * 200}" for number in range(1_000)]
    (note,) = name_batch(batch(*names)).notes

    assert len(note) < 1_200
    assert note.endswith("and 992 more names")


def test_a_name_too_long_for_a_model_is_no_alias() -> None:
    request = batch("claude-o" + "x" * 10_000)

    assert name_batch(request) is request


def test_a_long_batch_is_named_as_a_short_one_is() -> None:
    request = batch(*["house", "claude-y"] * 3_000)

    assert len(request.body) > 256 * 1024
    assert models_of(name_batch(request)) == ["claude-x-2026", "claude-y"] * 3_000
    with refusing(400, match=r"requests\[6000\]"):
        name_batch(batch(*["house", "claude-y"] * 3_000, "fast"))
