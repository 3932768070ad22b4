"""Calls that are bound to regions: they go to no other, and are refused where none is left."""

from dataclasses import replace

import msgspec
import pytest

from proxy.calls.residency import allowed_choices, bind_call, check_residency
from proxy.calls.route_choice import RouteChoice
from proxy.errors import CallerError
from slo.policies.residency import Residency
from tests.fakes.answers import ASKED
from tests.fakes.call_dependencies import call, route

EUROPE = (Residency(name="europe", regions=frozenset({"eu", "uk"})),)


def choice(name: str, region: str) -> RouteChoice:
    base = route(name)
    return RouteChoice(replace(base, upstream=replace(base.upstream, region=region)), "m")


CHOICES = (choice("anywhere", ""), choice("east", "us"), choice("west", "eu"))


def test_a_call_without_regions_goes_anywhere():
    request = call(ASKED)

    assert bind_call(request, ()) is request
    assert check_residency(request, CHOICES) == CHOICES


def test_a_bound_call_goes_to_no_upstream_that_is_elsewhere_or_bound_to_none():
    request = call(ASKED, regions=frozenset({"eu"}))

    assert allowed_choices(request, CHOICES) == CHOICES[2:]
    assert check_residency(request, CHOICES) == CHOICES[2:]


def test_policies_narrow_what_the_call_asks_for():
    assert bind_call(call(ASKED), EUROPE).regions == frozenset({"eu", "uk"})
    assert bind_call(call(ASKED, regions=frozenset({"eu", "us"})), EUROPE).regions == frozenset(
        {"eu"}
    )


def test_a_call_that_asks_for_a_region_outside_its_policies_is_refused_by_name():
    with pytest.raises(CallerError) as refused:
        bind_call(call(ASKED, regions=frozenset({"us"})), EUROPE)

    assert refused.value.code == "residency_unsatisfied"
    assert "processed in us" in refused.value.message
    assert "residency policies (europe) allow eu, uk" in refused.value.message


def test_policies_that_have_no_region_in_common_refuse_the_call():
    other = Residency(name="alps", regions=frozenset({"ch"}))
    with pytest.raises(CallerError, match="no region in common"):
        bind_call(call(ASKED), (*EUROPE, other))


def test_the_refusal_of_a_call_without_a_route_names_regions_and_routes():
    request = msgspec.structs.replace(call(ASKED), regions=frozenset({"eu"}))
    with pytest.raises(CallerError) as refused:
        check_residency(request, CHOICES[:2])

    assert refused.value.status == 403
    assert refused.value.message.startswith(
        "This call may be processed in eu only, and no route of `m` is there: "
        "anywhere (bound to no region), east (us)."
    )
