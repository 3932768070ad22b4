import pytest

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Upstream
from proxy.pages.models import router
from tests.fakes.call_dependencies import catalog, route
from tests.fakes.pages import authenticate, page
from tests.fakes.refusals import refusing

NAMELESS = Upstream(name="vllm", kind="openai", base_url="http://vllm/v1")
KNOWN = Catalog(
    models={
        "m": Model(id="m", routes=(route("openai"),), created=1_700_000_000),
        "org/llama": Model(id="org/llama", routes=(route(upstream=NAMELESS),)),
        "failing": Model(id="failing", routes=(route("one"),)),
    },
    upstreams={},
    default=route("default"),
)
PAGES = router(lambda: KNOWN, authenticate, lambda model: model.id != "failing")


def test_the_models_that_can_answer_now_are_listed_in_the_catalogs_order():
    status, told, _ = page(PAGES, "/v1/models")

    assert status == 200
    assert told == {
        "object": "list",
        "data": [
            {"id": "m", "object": "model", "created": 1_700_000_000, "owned_by": "openai"},
            {"id": "org/llama", "object": "model", "created": 0, "owned_by": "vllm"},
        ],
    }


@pytest.mark.parametrize(
    ("query", "listed"),
    [
        ("", ["m", "org/llama"]),
        ("all=0", ["m", "org/llama"]),
        ("all=1", ["m", "org/llama", "failing"]),
        ("all=true", ["m", "org/llama", "failing"]),
    ],
)
def test_models_that_cannot_answer_now_are_listed_on_request(query, listed):
    told = page(PAGES, "/v1/models", query=query)[1]

    assert [model["id"] for model in told["data"]] == listed


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/models/m", "m"),
        ("/v1/models/org/llama", "org/llama"),
        ("/v1/models/failing", "failing"),
        ("/v1/models/m-2026-01-31", "m"),
    ],
)
def test_a_model_is_told_by_its_name(path, name):
    assert page(PAGES, path)[1]["id"] == name


def test_an_unknown_model_is_not_found():
    with refusing(404, match="GET /v1/models") as caught:
        page(PAGES, "/v1/models/n")

    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m"])
def test_models_are_told_to_keys_only(path):
    with refusing(401):
        page(router(catalog, authenticate, bool), path, headers={"authorization": "Bearer x"})
