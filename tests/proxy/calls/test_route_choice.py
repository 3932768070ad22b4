"""Tests of which routes a call may take, and which models answer in another's place."""

from dataclasses import replace

import pytest

from proxy.calls.route_choice import (
    RouteChoice,
    fallback_models,
    is_overflow,
    requested_routes,
    substitute_routes,
)
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.catalog.families import Family, UnlistedModels
from proxy.catalog.model_aliases import ModelAliases
from proxy.errors import UpstreamError
from tests.fakes.call_dependencies import call, catalog, route
from tests.fakes.refusals import refusing
from tests.fakes.upstream import broken_connection

TOO_LONG = UpstreamError("", status=400, code="context_length_exceeded", retryable=False)
WRONG = UpstreamError("no such field", status=400, code="invalid", retryable=False)


def request_body(model: str) -> bytes:
    return b'{"model":"' + model.encode() + b'"}'


def catalog_with_fallbacks() -> Catalog:
    base = catalog(route("one"))
    model = replace(
        base.models["m"], fallbacks=("small", "gone", "other"), when_too_long=("long", "gone")
    )
    other_models = {
        name: Model(id=name, routes=(route(name),)) for name in ("small", "other", "long")
    }
    return replace(base, models={"m": model, **other_models})


def test_the_routes_of_a_model_are_tried_in_their_order():
    one, two = route("one"), route("two")

    assert requested_routes(call(request_body("m")), catalog(one, two)) == (
        RouteChoice(one, "m"),
        RouteChoice(two, "m"),
    )


def test_a_dated_snapshot_takes_its_models_routes():
    assert requested_routes(call(request_body("m-2026-01-31")), catalog())[0].route.name == "one/m"


def test_an_alias_takes_the_routes_of_its_model_under_that_models_own_name():
    aliased = replace(
        catalog_with_fallbacks(), aliases=ModelAliases({"claude-*": "small", "m": "m"})
    )
    (choice,) = requested_routes(call(request_body("claude-opus-20260131")), aliased)

    assert (choice.route, choice.model) == (replace(route("small"), model="small"), "small")
    assert choice.is_alias
    assert not choice.reroute_reason
    (own,) = requested_routes(call(request_body("m")), aliased)
    assert (own.route.model, own.is_alias) == ("", False)


def test_an_alias_falls_back_as_its_model_does():
    aliased = replace(
        catalog_with_fallbacks(), aliases=ModelAliases({"claude": "m", "small": "long"})
    )
    models = fallback_models(call(request_body("claude")), aliased, TOO_LONG)

    assert [model.id for model in models] == ["long"]
    models = fallback_models(call(request_body("claude")), aliased, broken_connection())
    assert [model.id for model in models] == ["small", "other"]


def test_a_call_that_names_no_model_takes_the_default_route():
    base = catalog()
    default = (RouteChoice(base.default, ""),)

    assert requested_routes(call(b"{}"), base) == default
    assert requested_routes(call(b"\x00", fields=None), base) == default


def test_passed_through_models_need_not_be_in_the_catalog():
    one, base = route("one"), catalog()
    moderated = RouteChoice(base.default, "omni-moderation-latest")

    assert requested_routes(call(request_body("omni-moderation-latest"), "moderations"), base) == (
        moderated,
    )
    assert requested_routes(call(request_body("m"), "moderations"), catalog(one)) == (
        RouteChoice(one, "m"),
    )


@pytest.mark.parametrize(("name", "hint"), [("mm", "Did you mean m?"), ("other", "GET /v1/models")])
def test_an_unknown_model_is_told_with_the_nearest_known_one(name, hint):
    with refusing(404, match="not in the gateway's catalog") as caught:
        requested_routes(call(request_body(name)), catalog())

    assert hint in caught.value.message
    assert ("Did you mean" in caught.value.message) is ("Did you mean" in hint)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_an_unlisted_model_takes_its_familys_route_and_needs_no_name_of_its_own():
    one = route("one")
    family = Family(names="new-*", upstream=one.upstream)
    base = replace(
        catalog(one),
        passing=UnlistedModels(families=(family,), upstreams={one.upstream.name: one.upstream}),
    )

    (choice,) = requested_routes(call(request_body("new-model")), base)

    assert (choice.route.name, choice.model) == ("one/new-*", "new-*")
    with refusing(404, match="default_upstream"):
        requested_routes(call(request_body("new-model")), base.passing_to(()))


def test_an_unlisted_model_takes_its_familys_route_on_every_endpoint():
    one, two = route("one"), route("two")
    family = Family(names="voxtral-*", upstream=two.upstream)
    there = {upstream_route.upstream.name: upstream_route.upstream for upstream_route in (one, two)}
    base = replace(catalog(one), passing=UnlistedModels(families=(family,), upstreams=there))

    for endpoint in ("audio/transcriptions", "images/generations"):
        (choice,) = requested_routes(call(request_body("voxtral-mini"), endpoint), base)
        assert choice.route.upstream == two.upstream
        (choice,) = requested_routes(call(request_body("unheard-of"), endpoint), base)
        assert choice.route == base.default
        with refusing(404):
            requested_routes(call(request_body("unheard-of"), endpoint), base.refusing_unlisted())


def test_a_model_is_deleted_by_the_first_upstream_whose_model_it_is_and_by_no_other():
    one, two = route("one"), route("two")
    family = Family(names="ft:{base}:*", upstream=two.upstream)
    base = replace(
        catalog(one, two),
        passing=UnlistedModels(families=(family,), upstreams={"two": two.upstream}),
    )

    def owner(name: str) -> list[str]:
        deletion = call(b"", f"models/{name}", method="DELETE", fields=None)
        return [choice.route.upstream.name for choice in requested_routes(deletion, base)]

    assert owner("m") == ["one"]
    assert owner("ft%3Am%3Aacme%3A%3Aabc") == ["two"]
    with refusing(404, match="not in the gateway's catalog"):
        owner("gone")


def test_a_long_name_is_cut_short_in_what_is_reported():
    with refusing(404) as caught:
        requested_routes(call(request_body("x" * 500)), catalog())

    assert len(caught.value.message) < 300


def test_a_substitute_model_is_asked_for_by_its_own_name():
    own, named = route("one"), route("two", model="their-name")
    choices = substitute_routes(Model(id="small", routes=(own, named)), "why")

    assert [choice.route.model for choice in choices] == ["small", "their-name"]
    assert [(choice.model, choice.reroute_reason) for choice in choices] == [("small", "why")] * 2
    assert [choice.route.name for choice in choices] == [own.name, named.name]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [(broken_connection(), ["small", "other"]), (TOO_LONG, ["long"]), (WRONG, [])],
)
def test_which_models_follow_depends_on_what_failed(failure, expected):
    assert [
        model.id
        for model in fallback_models(call(request_body("m")), catalog_with_fallbacks(), failure)
    ] == expected


def test_a_call_without_a_known_model_or_that_generates_nothing_has_no_fallbacks():
    assert fallback_models(call(b"{}"), catalog_with_fallbacks(), broken_connection()) == ()
    assert (
        fallback_models(
            call(request_body("unknown")), catalog_with_fallbacks(), broken_connection()
        )
        == ()
    )
    assert (
        fallback_models(
            call(request_body("m"), "moderations"), catalog_with_fallbacks(), broken_connection()
        )
        == ()
    )


@pytest.mark.parametrize(
    ("message", "status", "is_too_long"),
    [
        ("request (24590 tokens) exceeds the available context size (4096 tokens)", 400, True),
        ("This model's maximum context length is 8192 tokens", 400, True),
        ("prompt is too long: 205000 tokens > 200000 maximum", 400, True),
        ("The input token count (9) exceeds the maximum", 400, True),
        ("The decoder prompt is longer than the maximum model length of 5", 422, True),
        ("prompt is too long", 503, False),
        ("temperature is too high", 400, False),
    ],
)
def test_a_prompt_that_is_too_long_is_reported_by_words_too(message, status, is_too_long):
    failure = UpstreamError(message, status=status, code="invalid_request", retryable=False)

    assert is_overflow(failure) is is_too_long


def test_a_prompt_that_is_too_long_is_reported_by_its_code():
    assert is_overflow(TOO_LONG)
