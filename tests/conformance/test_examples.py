"""Examples are what the SDK's own models take."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from openai.pagination import SyncCursorPage
from openai.types import FileObject
from pydantic import BaseModel, Field, TypeAdapter

from tests.conformance.examples import example
from tests.conformance.operations import operations
from tests.conformance.sdks import SDKS, SdkUnderTest


class Leaf(BaseModel):
    kind: Literal["leaf", "other"]
    at: datetime


class Tree(BaseModel):
    left: "Tree | Leaf"
    more: "list[Tree] | None" = None
    named: Annotated[str, "a note"] = Field(alias="name")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (str, "string"),
        (bool, True),
        (int | None, 1),
        (list[int], [1]),
        (dict[str, float], {"key": 0.5}),
        (Literal["a", "b"], "a"),
        (object, "string"),
    ],
)
def test_plain_types_have_plain_examples(kind: Any, expected: object):
    assert example(kind) == expected


def test_a_model_within_itself_ends():
    assert example(Tree) == {
        "left": {"kind": "leaf", "at": "2026-01-02T03:04:05Z"},
        "more": [],
        "name": "string",
    }


def test_a_page_holds_one_item():
    page = SyncCursorPage[FileObject].model_validate(example(SyncCursorPage[FileObject]))

    assert isinstance(page.data[0], FileObject)


@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
def test_the_example_of_every_answer_is_valid(sdk: SdkUnderTest):
    answers = [operation for operation in operations(sdk) if not operation.is_binary]
    for kind in [answer.line or answer.answer for answer in answers] + [
        answer.events for answer in answers
    ]:
        if kind is not None:
            TypeAdapter(kind).validate_python(json.loads(json.dumps(example(kind))))
