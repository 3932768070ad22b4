import pytest

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import (
    FAMILY_FIELDS,
    MODEL_FIELDS,
    ROUTE_FIELDS,
    TOP_FIELDS,
    Model,
    Route,
    Upstream,
)
from proxy.catalog.prices import FIELDS as PRICE_FIELDS
from proxy.catalog.prices import OFF_PEAK_FIELDS
from proxy.catalog.upstreams import FIELDS as UPSTREAM_FIELDS
from slo.toml.fields import Field, reference
from tests.fakes.source_trees import ROOT

UPSTREAM = Upstream(name="openai", kind="openai", base_url="https://api.openai.com/v1")
ROUTE = Route(name="openai/x", upstream=UPSTREAM)
CATALOG = Catalog(
    models={
        name: Model(id=name, routes=(ROUTE,))
        for name in ("gpt-4o", "claude-sonnet-4-5", "mistral-large-latest", "gpt-4o-2024-05-13")
    },
    upstreams={"openai": UPSTREAM},
    default=ROUTE,
)


@pytest.mark.parametrize(
    ("name", "model_id"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("gpt-4o-latest", "gpt-4o"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("mistral-large-latest", "mistral-large-latest"),
    ],
)
def test_a_model_is_found_by_its_name_or_that_of_a_snapshot(name: str, model_id: str) -> None:
    model = CATALOG.find(name)
    assert model is not None
    assert model.id == model_id


@pytest.mark.parametrize(
    "name", ["", "gpt-4", "gpt-4o-mini", "gpt-4o-99999999", "-latest", "mistral-large", "GPT-4o"]
)
def test_any_other_name_finds_nothing(name: str) -> None:
    assert CATALOG.find(name) is None


@pytest.mark.parametrize(
    "fields",
    [
        TOP_FIELDS,
        UPSTREAM_FIELDS,
        MODEL_FIELDS,
        ROUTE_FIELDS,
        FAMILY_FIELDS,
        PRICE_FIELDS,
        OFF_PEAK_FIELDS,
    ],
    ids=lambda fields: fields[0].key,
)
def test_readme_has_the_reference_of_every_table_of_the_catalog(fields: tuple[Field, ...]) -> None:
    assert reference(fields) in (ROOT / "proxy/catalog/README.md").read_text(encoding="utf8")
