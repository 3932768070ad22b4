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
    made = catalog(route("one"))
    model = replace(
        made.models["m"], fallbacks=("small", "gone", "other"), when_too_long=("long", "gone")
    )
    others = {name: Model(id=name, routes=(route(name),)) for name in ("small", "other", "long")}
    return replace(made, models={"m": model, **others})


def test_the_routes_of_a_model_are_tried_in_their_order():
    one, two = route("one"), route("two")

    assert requested_routes(call(request_body("m")), catalog(one, two)) == (
        RouteChoice(one, "m"),
        RouteChoice(two, "m"),
    )


def test_a_dated_snapshot_takes_its_models_routes():
    assert requested_routes(call(request_body("m-2026-01-31")), catalog())[0].route.name == "one/m"


def test_an_alias_takes_the_routes_of_its_model_under_that_models_own_name():
    made = replace(catalog_with_fallbacks(), aliases=ModelAliases({"claude-*": "small", "m": "m"}))
    (choice,) = requested_routes(call(request_body("claude-opus-20260131")), made)

    assert (choice.route, choice.model) == (replace(route("small"), model="small"), "small")
    assert choice.is_alias
    assert not choice.reroute_reason
    (own,) = requested_routes(call(request_body("m")), made)
    assert (own.route.model, own.is_alias) == ("", False)


def test_an_alias_falls_back_as_its_model_does():
    made = replace(catalog_with_fallbacks(), aliases=ModelAliases({"claude": "m", "small": "long"}))
    found = fallback_models(call(request_body("claude")), made, TOO_LONG)

    assert [model.id for model in found] == ["long"]
    found = fallback_models(call(request_body("claude")), made, broken_connection())
    assert [model.id for model in found] == ["small", "other"]


def test_a_call_that_names_no_model_takes_the_default_route():
    made = catalog()
    default = (RouteChoice(made.default, ""),)

    assert requested_routes(call(b"{}"), made) == default
    assert requested_routes(call(b"\x00", fields=None), made) == default


def test_passed_through_models_need_not_be_in_the_catalog():
    one, made = route("one"), catalog()
    moderated = RouteChoice(made.default, "omni-moderation-latest")

    assert requested_routes(call(request_body("omni-moderation-latest"), "moderations"), made) == (
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
    made = replace(
        catalog(one),
        passing=UnlistedModels(families=(family,), upstreams={one.upstream.name: one.upstream}),
    )

    (choice,) = requested_routes(call(request_body("new-model")), made)

    assert (choice.route.name, choice.model) == ("one/new-*", "new-*")
    with refusing(404, match="default_upstream"):
        requested_routes(call(request_body("new-model")), made.passing_to(()))


def test_an_unlisted_model_takes_its_familys_route_on_every_endpoint():
    one, two = route("one"), route("two")
    family = Family(names="voxtral-*", upstream=two.upstream)
    there = {each.upstream.name: each.upstream for each in (one, two)}
    made = replace(catalog(one), passing=UnlistedModels(families=(family,), upstreams=there))

    for endpoint in ("audio/transcriptions", "images/generations"):
        (choice,) = requested_routes(call(request_body("voxtral-mini"), endpoint), made)
        assert choice.route.upstream == two.upstream
        (choice,) = requested_routes(call(request_body("unheard-of"), endpoint), made)
        assert choice.route == made.default
        with refusing(404):
            requested_routes(call(request_body("unheard-of"), endpoint), made.refusing_unlisted())


def test_a_model_is_deleted_by_the_first_upstream_whose_model_it_is_and_by_no_other():
    one, two = route("one"), route("two")
    family = Family(names="ft:{base}:*", upstream=two.upstream)
    made = replace(
        catalog(one, two),
        passing=UnlistedModels(families=(family,), upstreams={"two": two.upstream}),
    )

    def owner(name: str) -> list[str]:
        deletion = call(b"", f"models/{name}", method="DELETE", fields=None)
        return [choice.route.upstream.name for choice in requested_routes(deletion, made)]

    assert owner("m") == ["one"]
    assert owner("ft%3Am%3Aacme%3A%3Aabc") == ["two"]
    with refusing(404, match="not in the gateway's catalog"):
        owner("gone")


def test_a_long_name_is_cut_short_in_what_is_reported():
    with refusing(404) as caught:
        requested_routes(call(request_body("x" * 500)), catalog())

    assert len(caught.value.message) < 300


def test_another_model_is_asked_for_by_its_own_name():
    own, named = route("one"), route("two", model="their-name")
    found = substitute_routes(Model(id="small", routes=(own, named)), "why")

    assert [each.route.model for each in found] == ["small", "their-name"]
    assert [(each.model, each.reroute_reason) for each in found] == [("small", "why")] * 2
    assert [each.route.name for each in found] == [own.name, named.name]


@pytest.mark.parametrize(
    ("failure", "found"),
    [(broken_connection(), ["small", "other"]), (TOO_LONG, ["long"]), (WRONG, [])],
)
def test_which_models_follow_depends_on_what_failed(failure, found):
    assert [
        each.id
        for each in fallback_models(call(request_body("m")), catalog_with_fallbacks(), failure)
    ] == found


def test_nothing_follows_for_what_names_no_model_or_generates_nothing():
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
    ("said", "status", "is_too_long"),
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
def test_a_prompt_that_is_too_long_is_reported_by_words_too(said, status, is_too_long):
    failure = UpstreamError(said, status=status, code="invalid_request", retryable=False)

    assert is_overflow(failure) is is_too_long


def test_a_prompt_that_is_too_long_is_reported_by_its_code():
    assert is_overflow(TOO_LONG)
