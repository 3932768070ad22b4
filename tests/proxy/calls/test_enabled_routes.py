"""Routes that people have disabled get no calls; fallbacks answer, or the call is refused."""

from dataclasses import replace

import msgspec
import pytest

from proxy.calls.enabled_routes import enabled_choices
from proxy.calls.route_choice import RouteChoice, substitute_routes
from proxy.catalog.entries import Model
from proxy.errors import Unready
from tests.fakes.answers import ASKED
from tests.fakes.call_dependencies import call, catalog, route

FIRST, SECOND, SPARE = route("first"), route("second"), replace(route("spare"), window=9_000)


def choices(*, disabled: frozenset[str]) -> tuple[RouteChoice, ...]:
    return tuple(
        RouteChoice(replace(one, is_disabled=one.name in disabled), "m") for one in (FIRST, SECOND)
    )


def routes_that_answer(disabled: frozenset[str], *fallbacks: str) -> list[tuple[str, str]]:
    """Routes that take a call, with the reasons."""
    request = call(ASKED)
    asked = Model(id=request.model, routes=(FIRST, SECOND), fallbacks=fallbacks)
    spare = Model(id="spare", routes=(replace(SPARE, is_disabled=SPARE.name in disabled),))
    models = {request.model: asked, "spare": spare}
    known = replace(catalog(), models=models)
    served = enabled_choices(request, known, choices(disabled=disabled))
    return [(choice.route.name, choice.reroute_reason) for choice in served]


def test_without_a_disabled_route_the_choices_stay_the_same() -> None:
    every = choices(disabled=frozenset())
    assert enabled_choices(call(ASKED), catalog(), every) is every


def test_other_routes_of_the_model_go_on() -> None:
    assert routes_that_answer(frozenset({FIRST.name})) == [(SECOND.name, "")]


def test_fallbacks_answer_where_no_route_is_left() -> None:
    disabled = frozenset({FIRST.name, SECOND.name})
    assert routes_that_answer(disabled, "spare", "unknown") == [
        (SPARE.name, "fallback: route disabled")
    ]


@pytest.mark.parametrize("fallbacks", [(), ("spare",)])
def test_a_call_is_refused_where_no_fallback_is_enabled(fallbacks: tuple[str, ...]) -> None:
    disabled = frozenset({FIRST.name, SECOND.name, SPARE.name})
    with pytest.raises(Unready) as refusal:
        routes_that_answer(disabled, *fallbacks)

    assert (refusal.value.status, refusal.value.code) == (503, "route_disabled")


def test_a_refused_call_without_a_model_names_its_route() -> None:
    disabled = choices(disabled=frozenset({FIRST.name, SECOND.name}))
    with pytest.raises(Unready, match="The route of this call is disabled"):
        enabled_choices(msgspec.structs.replace(call(ASKED), fields=None), catalog(), disabled)


def test_a_model_in_place_of_another_has_no_disabled_routes() -> None:
    model = Model(id="m", routes=(FIRST, replace(SECOND, is_disabled=True)))
    assert [choice.route.name for choice in substitute_routes(model, "x")] == [FIRST.name]
