"""The catalog finds listed models by name and snapshot, and nothing else."""

from dataclasses import replace

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route, Upstream
from proxy.catalog.families import UnlistedModels
from tests.fakes.call_dependencies import catalog


def test_a_dated_snapshot_is_found_as_its_model_and_other_names_are_not():
    made = catalog()

    assert made.find("m-2026-01-31") is made.find("m") is made.models["m"]
    assert made.find("m-2") is None
    assert made.unlisted_model("m-2") is None


def test_calls_of_anthropics_api_without_a_model_go_to_the_first_upstream_that_speaks_it():
    openai = Upstream(name="o", kind="openai", base_url="https://u.test/v1")
    first, second = (
        Upstream(name=name, kind="anthropic", base_url="https://u.test/v1") for name in "ab"
    )
    every = {each.name: each for each in (openai, first, second)}
    default = Route(name="o", upstream=openai)
    found = Catalog(models={}, upstreams=every, default=default)

    assert found.messages_default.upstream is first
    keyed = replace(found, passing=UnlistedModels(upstreams={"b": second}))
    assert keyed.messages_default.upstream is second
    assert replace(found, upstreams={"o": openai}).messages_default is default
    own = replace(found, default=Route(name="b", upstream=second))
    assert own.messages_default is own.default
