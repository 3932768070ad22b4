"""The state of upstreams' keys: what answered and was refused last decides it."""

import pytest

from proxy.catalog.entries import Upstream
from proxy.pages.resources.upstream_keys import UpstreamKeyView, upstream_keys_view
from proxy.store.sql.views.setup.upstream_uses import UpstreamUse

LAB = Upstream(name="lab", kind="openai", base_url="https://lab.example/v1", key_env="LAB_KEY")
OWN_ENGINE = Upstream(name="engine", kind="openai", base_url="http://localhost:8000/v1")
BEDROCK = Upstream(
    name="bedrock", kind="anthropic-bedrock", base_url="https://aws.example", auth="aws"
)


def view_of_lab(use: UpstreamUse | None, *, is_set: bool = True) -> UpstreamKeyView:
    uses = {} if use is None else {"lab": use}
    (view,) = upstream_keys_view([LAB], ["lab"] if is_set else [], uses)
    return view


@pytest.mark.parametrize(
    ("use", "state"),
    [
        (None, "unused"),
        (UpstreamUse(answered=20.0, refused=None, refusals=0), "answers"),
        (UpstreamUse(answered=20.0, refused=10.0, refusals=3), "answers"),
        (UpstreamUse(answered=10.0, refused=20.0, refusals=1), "refused"),
        (UpstreamUse(answered=None, refused=20.0, refusals=1), "refused"),
    ],
)
def test_the_later_of_answer_and_refusal_decides_the_state(
    use: UpstreamUse | None, state: str
) -> None:
    assert view_of_lab(use).state == state


def test_a_missing_key_says_which_variable_to_set() -> None:
    view = view_of_lab(None, is_set=False)

    assert (view.state, view.is_set) == ("missing", False)
    assert view.fix == "Set LAB_KEY to a key of lab, and restart"


def test_an_engine_without_a_key_is_not_listed() -> None:
    assert upstream_keys_view([OWN_ENGINE], ["engine"], {}) == []


def test_an_account_at_a_cloud_is_named_in_place_of_a_variable() -> None:
    refused = {"bedrock": UpstreamUse(answered=None, refused=20.0, refusals=1)}
    (view,) = upstream_keys_view([BEDROCK], ["bedrock"], refused)

    assert view.variable == "credentials of AWS"
    assert "account at bedrock" in view.fix


def test_refused_keys_come_first_and_missing_ones_last() -> None:
    other = Upstream(
        name="also", kind="openai", base_url="https://also.example/v1", key_env="ALSO_KEY"
    )
    third = Upstream(
        name="third", kind="openai", base_url="https://third.example/v1", key_env="THIRD_KEY"
    )
    uses = {"third": UpstreamUse(answered=None, refused=1.0, refusals=1)}

    views = upstream_keys_view([other, LAB, third], ["lab", "third"], uses)

    assert [view.upstream for view in views] == ["third", "lab", "also"]
