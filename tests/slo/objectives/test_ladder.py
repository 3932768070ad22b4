import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.objectives.ladder import (
    SCHEMA,
    TOOLS,
    VISION,
    CallRequirements,
    Capabilities,
    missing_capability,
)

ALL = frozenset({TOOLS, SCHEMA, VISION})
ROOMY = Capabilities(can=ALL, window=100_000, max_output=8_000, region="eu")
EVERYTHING = CallRequirements(
    tools=True, schema=True, vision=True, tokens=90_000, output=8_000, region="eu"
)


def test_a_level_with_every_required_capability_fits_the_call():
    assert missing_capability(EVERYTHING, ROOMY) == ""


def test_a_level_that_declares_only_its_window_fits_a_plain_call():
    assert missing_capability(CallRequirements(tokens=1000), Capabilities(window=1000)) == ""


@pytest.mark.parametrize(
    ("wants", "offers", "why"),
    [
        (
            CallRequirements(tools=True),
            Capabilities(can=ALL - {TOOLS}, window=9),
            "It cannot use tools.",
        ),
        (
            CallRequirements(schema=True),
            Capabilities(can=ALL - {SCHEMA}, window=9),
            "It cannot answer by a JSON schema.",
        ),
        (
            CallRequirements(vision=True),
            Capabilities(can=ALL - {VISION}, window=9),
            "It cannot read images.",
        ),
        (
            CallRequirements(tools=True),
            Capabilities(window=9),
            "It is not known whether it can use tools.",
        ),
        (
            CallRequirements(vision=True),
            Capabilities(window=9),
            "It is not known whether it can read images.",
        ),
        (
            CallRequirements(tokens=10),
            Capabilities(window=9),
            "Its window of 9 tokens is too small.",
        ),
        (
            CallRequirements(tokens=5, output=5),
            Capabilities(window=9, max_output=9),
            "Its window of 9 tokens is too small.",
        ),
        (CallRequirements(tokens=1), Capabilities(), "The length of its window is not known."),
        (
            CallRequirements(tokens=1, output=5),
            Capabilities(window=9, max_output=4),
            "Its answers have at most 4 tokens.",
        ),
        (
            CallRequirements(output=5),
            Capabilities(window=9),
            "The length of its answers is not known.",
        ),
        (
            CallRequirements(region="eu"),
            Capabilities(window=9),
            "It is not bound to the region that the call is bound to.",
        ),
        (
            CallRequirements(region="eu"),
            Capabilities(window=9, region="us"),
            "It is not bound to the region that the call is bound to.",
        ),
    ],
)
def test_a_missing_or_undeclared_capability_is_named(wants, offers, why):
    assert missing_capability(wants, offers) == why


@pytest.mark.slow
@given(st.data())
def test_a_call_that_fits_still_fits_with_more_capabilities_or_fewer_requirements(data):
    wants = data.draw(
        st.builds(
            CallRequirements,
            tools=st.booleans(),
            schema=st.booleans(),
            vision=st.booleans(),
            tokens=st.integers(0, 99),
            output=st.integers(0, 9),
            region=st.sampled_from(["", "eu"]),
        )
    )
    offers = data.draw(
        st.builds(
            Capabilities,
            can=st.one_of(st.none(), st.frozensets(st.sampled_from(sorted(ALL)))),
            window=st.one_of(st.none(), st.integers(1, 99)),
            max_output=st.one_of(st.none(), st.integers(1, 9)),
            region=st.sampled_from(["", "eu", "us"]),
        )
    )
    if missing_capability(wants, offers) == "":
        more = Capabilities(
            can=ALL, window=(offers.window or 0) + 1, max_output=10, region=offers.region
        )
        assert missing_capability(wants, more) == ""
        assert missing_capability(CallRequirements(), offers) == ""
