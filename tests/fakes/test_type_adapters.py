from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from fastapi import Body, FastAPI
from fastapi.testclient import TestClient
from pydantic import Field

from tests.fakes.type_adapters import share_type_adapters, shared_type_adapter


@dataclass(frozen=True)
class TeamBody:
    name: Annotated[str, Field(max_length=5)]


def test_fields_that_are_described_alike_share_an_adapter():
    one, other = (
        shared_type_adapter(Annotated[list[TeamBody], Field(title="teams")]) for _ in "ab"
    )

    assert one is other
    assert one.validate_python([{"name": "acme"}]) == [TeamBody("acme")]


@pytest.mark.parametrize(
    "changed",
    [
        {"annotated": Annotated[tuple[TeamBody, ...], Field(max_length=2)]},
        {"annotated": Annotated[list[TeamBody], Field(max_length=3)]},
        {"annotated": Annotated[list[TeamBody], Field(max_length=2, title="x")]},
        {"config": {"strict": True}},
    ],
)
def test_fields_that_differ_in_anything_have_adapters_of_their_own(changed: dict[str, Any]):
    alike: dict[str, Any] = {"annotated": Annotated[list[TeamBody], Field(max_length=2)]}
    one, other = (
        shared_type_adapter(fields.pop("annotated"), **fields)
        for fields in (dict(alike), alike | changed)
    )

    assert one is not other


def test_apps_that_share_adapters_check_each_its_own_fields():
    share_type_adapters()
    clients = []
    for limit in (2, 3, 2):
        app = FastAPI()

        @app.post("/teams")
        def add(team: Annotated[str, Body(max_length=limit)]) -> TeamBody:
            return TeamBody(name=team)

        clients.append(TestClient(app))

    answers = [client.post("/teams", json="abc").status_code for client in clients]
    assert answers == [422, 200, 422]
