from dataclasses import replace

import pytest

from proxy.catalog.catalog import Catalog
from proxy.catalog.load import load
from proxy.configuration import read_catalog as catalog
from proxy.settings import read
from proxy.tools.demo.catalog import redirected_catalog, simulated_models

LAB = "http://127.0.0.1:1/v1"


@pytest.fixture(scope="module")
def shipped_catalog() -> Catalog:
    return catalog(read({}))


@pytest.fixture(scope="module")
def catalog_at_lab(shipped_catalog: Catalog) -> Catalog:
    upstreams = "".join(
        f'[upstreams.{upstream.name}]\nkind = "{upstream.kind}"\nbase_url = "{upstream.base_url}"\n'
        f'key_env = "{upstream.key_env}"\n'
        for upstream in shipped_catalog.upstreams.values()
    )
    return load(f'default = "openai"\n{upstreams}', redirected_catalog(shipped_catalog, LAB))


def test_every_upstream_is_the_lab(shipped_catalog: Catalog, catalog_at_lab: Catalog) -> None:
    assert catalog_at_lab.upstreams.keys() == shipped_catalog.upstreams.keys()
    assert {upstream.base_url for upstream in catalog_at_lab.upstreams.values()} == {LAB}


def test_no_upstream_knows_where_a_real_key_is(
    shipped_catalog: Catalog, catalog_at_lab: Catalog
) -> None:
    assert any(upstream.key_env for upstream in shipped_catalog.upstreams.values())
    assert not any(upstream.key_env for upstream in catalog_at_lab.upstreams.values())


def test_the_lab_serves_every_model_on_its_wire(shipped_catalog: Catalog) -> None:
    wires = {
        (route.model or name): route.upstream.kind
        for name, model in shipped_catalog.models.items()
        for route in model.routes
    }
    served = simulated_models(shipped_catalog)

    assert {name: served[name].wire for name in wires} == wires


def test_a_route_with_a_name_of_its_own_is_served_under_that_name(shipped_catalog: Catalog) -> None:
    model = shipped_catalog.models["gpt-5.5"]
    renamed = replace(model, routes=(replace(model.routes[0], model="deployment-7"),))
    served = simulated_models(replace(shipped_catalog, models={"gpt-5.5": renamed}))

    assert served["deployment-7"].regime == model.routes[0].regime


def test_embedding_models_give_vectors(shipped_catalog: Catalog) -> None:
    named = [name for name in shipped_catalog.models if "embedding" in name]

    assert [simulated_models(shipped_catalog)[name].dimensions for name in named] == [
        1536,
        3072,
        1536,
    ]


def test_every_text_model_has_the_window_of_its_catalog(shipped_catalog: Catalog) -> None:
    windows = {
        (route.model or name): route.window
        for name, model in shipped_catalog.models.items()
        for route in reversed(model.routes)
        if "embedding" not in name
    }
    served = simulated_models(shipped_catalog)

    assert {name: served[name].window for name in windows} == windows
    assert sum(window is not None for window in windows.values()) > 50
