from dataclasses import replace
from datetime import date
from typing import Any

import msgspec
import pytest
from fastapi import Request

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model, Upstream
from proxy.catalog.model_aliases import ModelAliases
from proxy.pages.models import router
from proxy.records.call import Key
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
    status, content, _ = page(PAGES, "/v1/models")

    assert status == 200
    assert content == {
        "object": "list",
        "data": [
            {"id": "m", "object": "model", "created": 1_700_000_000, "owned_by": "openai"},
            {"id": "org/llama", "object": "model", "created": 0, "owned_by": "vllm"},
        ],
    }


def test_a_model_at_an_assumed_price_says_whose_it_is():
    newest = Model(id="m-2", routes=(route("openai", assumed_price_of="m-1"),))
    pages = router(lambda: replace(KNOWN, models={"m-2": newest}), authenticate, lambda _: True)

    assert page(pages, "/v1/models/m-2")[1]["price_assumed_from"] == "m-1"


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
    content = page(PAGES, "/v1/models", query=query)[1]

    assert [model["id"] for model in content["data"]] == listed


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


VERSION = {"anthropic-version": "2023-06-01"}
SHOWN = {
    "type": "model",
    "id": "m",
    "display_name": "m",
    "created_at": "2023-11-14T22:13:20Z",
    "lifecycle": "active",
    "deprecated_at": None,
    "retires_at": None,
    "line": None,
    "capabilities": None,
    "max_input_tokens": None,
    "max_tokens": None,
}


def model_list(query: str = "") -> Any:
    headers = {"authorization": "Bearer tg-1", **VERSION}
    return page(PAGES, "/v1/models", query=query, headers=headers)[1]


def test_a_model_whose_end_is_announced_is_deprecated_for_callers_of_anthropics_api():
    large = replace(route("openai"), window=200_000, max_output=8_000)
    ends = Model(id="old", routes=(large,), retires=date(2027, 1, 31))
    catalog = Catalog(models={"old": ends}, upstreams={}, default=route("default"))
    headers = {"authorization": "Bearer tg-1", **VERSION}
    content = page(router(lambda: catalog, authenticate, bool), "/v1/models/old", headers=headers)[
        1
    ]

    assert (content["lifecycle"], content["retires_at"]) == ("deprecated", "2027-01-31T00:00:00Z")
    assert (content["max_input_tokens"], content["max_tokens"]) == (200_000, 8_000)


def test_callers_of_anthropics_api_get_models_in_its_shape():
    content = model_list("all=1")

    assert content["data"][0] == SHOWN
    assert (content["has_more"], content["first_id"], content["last_id"]) == (False, "m", "failing")
    headers = {"authorization": "Bearer tg-1", **VERSION}
    assert page(PAGES, "/v1/models/m", headers=headers)[1] == SHOWN


@pytest.mark.parametrize(
    ("query", "ids", "has_more"),
    [
        ("limit=1", ["m"], True),
        ("limit=1&after_id=m", ["org/llama"], True),
        ("limit=2&after_id=m", ["org/llama", "failing"], False),
        ("after_id=failing", [], False),
        ("limit=1&before_id=failing", ["org/llama"], True),
        ("limit=5&before_id=failing", ["m", "org/llama"], False),
    ],
)
def test_anthropics_list_of_models_comes_in_pages(query, ids, has_more):
    content = model_list(f"all=1&{query}")

    assert [model["id"] for model in content["data"]] == ids
    assert content["has_more"] is has_more


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "99999999999"])
def test_a_wrong_page_size_is_refused(limit):
    with refusing(400, match="from 1 to 1000"):
        model_list(f"limit={limit}")


ALIASED = replace(
    KNOWN,
    team_aliases={"acme": ModelAliases({"fast": "m", "org/*": "m", "slow": "failing", "m": "m"})},
)


def test_a_teams_aliases_are_listed_once_with_what_holds_for_their_models():
    pages = router(lambda: ALIASED, authenticate, lambda model: model.id != "failing")
    listed = {model["id"]: model for model in page(pages, "/v1/models")[1]["data"]}

    assert list(listed) == ["m", "org/llama", "fast"]
    assert listed["org/llama"] == {**listed["m"], "id": "org/llama"}
    shown = [page(pages, f"/v1/models/{name}")[1] for name in ("fast", "org/unlisted", "m")]
    assert [model["id"] for model in shown] == ["fast", "org/unlisted", "m"]
    assert {model["created"] for model in shown} == {1_700_000_000}


def test_an_alias_is_listed_for_keys_that_may_use_its_model():
    async def limited_key(request: Request) -> Key:
        key = await authenticate(request)
        return msgspec.structs.replace(key, models=frozenset({"m"}))

    content = page(router(lambda: ALIASED, limited_key, bool), "/v1/models", query="all=1")[1]
    assert [model["id"] for model in content["data"]] == ["m", "org/llama", "fast"]


def test_aliases_of_other_teams_are_not_shown():
    other = replace(ALIASED, team_aliases={"other": ALIASED.team_aliases["acme"]})
    content = page(router(lambda: other, authenticate, bool), "/v1/models")[1]

    assert [model["id"] for model in content["data"]] == ["m", "org/llama", "failing"]
