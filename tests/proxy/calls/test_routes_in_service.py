"""Routes that people have taken out get no calls; fallbacks answer, or the call is refused."""

from dataclasses import replace

import pytest

from proxy.calls.route_choice import RouteChoice, substitute_routes
from proxy.calls.routes_in_service import routes_in_service
from proxy.catalog.entries import Model
from proxy.errors import Unready
from tests.fakes.answers import ASKED
from tests.fakes.call_dependencies import call, catalog, route

FIRST, SECOND, SPARE = route("first"), route("second"), replace(route("spare"), window=9_000)


def choices(*, out: frozenset[str]) -> tuple[RouteChoice, ...]:
    return tuple(RouteChoice(replace(one, is_out=one.name in out), "m") for one in (FIRST, SECOND))


def answering(out: frozenset[str], *fallbacks: str) -> list[tuple[str, str]]:
    """Routes that take a call, with the reasons."""
    request = call(ASKED)
    asked = Model(id=request.model, routes=(FIRST, SECOND), fallbacks=fallbacks)
    spare = Model(id="spare", routes=(replace(SPARE, is_out=SPARE.name in out),))
    models = {request.model: asked, "spare": spare}
    known = replace(catalog(), models=models)
    served = routes_in_service(request, known, choices(out=out))
    return [(choice.route.name, choice.reroute_reason) for choice in served]


def test_without_a_route_taken_out_the_choices_stay_the_same() -> None:
    every = choices(out=frozenset())
    assert routes_in_service(call(ASKED), catalog(), every) is every


def test_other_routes_of_the_model_go_on() -> None:
    assert answering(frozenset({FIRST.name})) == [(SECOND.name, "")]


def test_fallbacks_answer_where_no_route_is_left() -> None:
    out = frozenset({FIRST.name, SECOND.name})
    assert answering(out, "spare", "unknown") == [(SPARE.name, "fallback: taken out")]


@pytest.mark.parametrize("fallbacks", [(), ("spare",)])
def test_a_call_is_refused_where_no_fallback_is_in_service(fallbacks: tuple[str, ...]) -> None:
    out = frozenset({FIRST.name, SECOND.name, SPARE.name})
    with pytest.raises(Unready) as refusal:
        answering(out, *fallbacks)

    assert (refusal.value.status, refusal.value.code) == (503, "model_taken_out")


def test_a_model_in_place_of_another_has_no_routes_that_are_taken_out() -> None:
    model = Model(id="m", routes=(FIRST, replace(SECOND, is_out=True)))
    assert [choice.route.name for choice in substitute_routes(model, "x")] == [FIRST.name]
