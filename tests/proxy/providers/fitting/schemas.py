"""Models of pydantic, and schemas as providers take them."""

from typing import Annotated, Any, Literal

import orjson
from msgspec import Raw
from pydantic import BaseModel, Field, conlist, constr

from proxy.providers.fitting.schema_fitting import FittedSchema, fit_schema
from proxy.providers.fitting.schema_rules import SchemaRules


class Part(BaseModel):
    """An inner model."""

    sku: Annotated[str, Field(min_length=3, max_length=9, pattern=r"^[A-Z]{3}\d+$")]
    count: int = Field(ge=1, le=9, description="How many")


class Order(BaseModel):
    """A model with each kind of constraint."""

    kind: Literal["new", "old"]
    only: Literal["order"]
    level: Literal[1, 2]
    parts: conlist(Part, min_length=2, max_length=5)  # type: ignore[valid-type]
    first: conlist(str, min_length=1)  # type: ignore[valid-type]
    code: constr(max_length=10) | None = None  # type: ignore[valid-type]
    main: Part = Field(description="The main part")
    spare: Part | None = Field(default=None, description="A spare part")
    pair: tuple[int, str]
    either: int | str
    even: int = Field(gt=0, multiple_of=2)
    price: float = Field(gt=0, lt=10)


class TreeNode(BaseModel):
    """A model that refers to itself."""

    value: float = Field(gt=0)
    children: list["TreeNode"] = Field(default=[], max_length=3)


def fitted_schema(schema: object, rules: SchemaRules) -> tuple[Any, FittedSchema]:
    fitted = fit_schema(Raw(orjson.dumps(schema)), rules)
    return orjson.loads(bytes(fitted.schema)), fitted
