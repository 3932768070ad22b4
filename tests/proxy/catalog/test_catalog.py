"""The catalog finds listed models by name and snapshot, and nothing else."""

from dataclasses import replace

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route, Upstream
from proxy.catalog.families import UnlistedModels
from tests.fakes.call_dependencies import catalog


def test_a_dated_snapshot_is_found_as_its_model_and_other_names_are_not():
    listed = catalog()

    assert listed.find("m-2026-01-31") is listed.find("m") is listed.models["m"]
    assert listed.find("m-2") is None
    assert listed.unlisted_model("m-2") is None


def test_calls_of_anthropics_api_without_a_model_go_to_the_first_upstream_that_speaks_it():
    openai = Upstream(name="o", kind="openai", base_url="https://u.test/v1")
    first, second = (
        Upstream(name=name, kind="anthropic", base_url="https://u.test/v1") for name in "ab"
    )
    every = {upstream.name: upstream for upstream in (openai, first, second)}
    default = Route(name="o", upstream=openai)
    catalog_ = Catalog(models={}, upstreams=every, default=default)

    assert catalog_.messages_default.upstream is first
    keyed = replace(catalog_, passing=UnlistedModels(upstreams={"b": second}))
    assert keyed.messages_default.upstream is second
    assert replace(catalog_, upstreams={"o": openai}).messages_default is default
    own = replace(catalog_, default=Route(name="b", upstream=second))
    assert own.messages_default is own.default
