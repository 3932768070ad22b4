"""Schemas rewritten to the part of JSON Schema that a provider takes.

Keywords that it refuses, or ignores, move into the description, so that the model may follow them,
as Anthropic's own SDK does it::

    {"type": "integer", "minimum": 1}  →  {"type": "integer", "description": "{minimum: 1}"}

Source: anthropic 2.11, ``transform_schema``; Google, Gemini API, Schema (2026-11).
"""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.schema_rules import Json, SchemaRules, types_of

#: Keys under which a schema holds schemas: by name, in a list, and as one.
_BY_NAME: Final = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_IN_LIST: Final = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_AS_ONE: Final = frozenset({"items", "additionalProperties"})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
#: Say nothing about values, so they are left out.
_SILENT: Final = (
    frozenset({"$schema", "$id", "$anchor", "$comment", "discriminator"}) | _DEFINITIONS
)
#: Schemas that one may grow to by its references; further ones are any object.
_MAX_INLINED_SCHEMAS: Final = 1_000
_MAX_INLINED_DEPTH: Final = 64
_REF: Final = "$ref"
_ROOT: Final = "#"


class FittedSchema(msgspec.Struct, frozen=True):
    """A schema as a provider takes it.

    Attributes:
        schema: The schema; the caller's own bytes where nothing had to change.
        moved: Keywords that are now in descriptions.
        is_closed: True if objects were closed that may hold more in the caller's.
        is_recursive: True if a definition refers to itself.
    """

    schema: Raw
    moved: tuple[str, ...] = ()
    is_closed: bool = False
    is_recursive: bool = False

    def notes(self, field: str) -> list[str]:
        """A sentence for each change to the schema of a field."""
        changes = []
        if self.is_closed:
            changes.append(f"closed the objects of {field}: the model supports no others")
        if self.moved:
            names = ", ".join(self.moved)
            changes.append(
                f"said {names} of {field} in descriptions: the model takes no such keywords"
            )
        return changes


def fit_schema(schema: Raw, rules: SchemaRules) -> FittedSchema:
    """The schema as far as a provider takes it; unmodified where it cannot be read."""
    try:
        given = msgspec.json.decode(schema)
        fitting = _Fitting(rules, given)
        fitted = fitting.fit(given)
        if fitted == given:
            return FittedSchema(schema, is_recursive=fitting.is_recursive)
        written = Raw(msgspec.json.encode(fitted))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FittedSchema(schema)
    moved = tuple(dict.fromkeys(fitting.moved))
    return FittedSchema(written, moved, fitting.is_closed, fitting.is_recursive)


class _Fitting:
    """The rewriting of one schema."""

    def __init__(self, rules: SchemaRules, root: object) -> None:
        self.moved: list[str] = []
        self.is_closed = False
        self._rules = rules
        self._root = root if isinstance(root, dict) else {}
        self._within = [_ROOT]
        self._references: dict[str, set[str]] = {}
        self._count = 0

    @property
    def is_recursive(self) -> bool:
        """True if a definition refers to itself, by others or directly."""
        try:
            TopologicalSorter(self._references).prepare()
        except CycleError:
            return True
        return False

    def fit(self, schema: Any) -> Any:  # noqa: ANN401 - a schema, or true or false
        """The schema as the provider takes it."""
        if not isinstance(schema, dict):
            return schema
        self._count += 1
        schema = self._respell(schema)
        if self._rules.has_nullable:
            schema = _say_nullable(schema)
        if _REF in schema:
            return self._fit_reference(schema)
        fitted: Json = {}
        moved: Json = {}
        for name, value in schema.items():
            check = self._rules.keywords.get(name)
            if check is not None and check(value, schema):
                fitted[name] = self._fit_value(name, value)
            elif name not in _SILENT and not (name == "additionalProperties" and value in (0, 1)):
                moved[name] = value
        if self._rules.closes_objects and "object" in types_of(fitted):
            self.is_closed = self.is_closed or "additionalProperties" not in fitted
            fitted.setdefault("additionalProperties", False)
        return self._describe(fitted, moved)

    def _fit_value(self, name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
        """A keyword's value, with the schemas in it fitted."""
        if name in _BY_NAME and isinstance(value, dict):
            prefix = f"#/{name}/" if name in _DEFINITIONS else ""
            return {
                key: self._fit_named(prefix and prefix + key, one) for key, one in value.items()
            }
        if name in _IN_LIST and isinstance(value, list):
            return [self.fit(one) for one in value]
        return self.fit(value) if name in _AS_ONE else value

    def _fit_named(self, path: str, schema: object) -> Any:  # noqa: ANN401 - a schema
        """A schema; a definition is known by its path while it is fitted."""
        if not path:
            return self.fit(schema)
        self._within.append(path)
        fitted = self.fit(schema)
        self._within.pop()
        return fitted

    def _fit_reference(self, schema: Json) -> Json:
        """A reference, which has nothing beside it, or the definition in its place."""
        path = str(schema[_REF])
        self._references.setdefault(self._within[-1], set()).add(path)
        beside = {name: one for name, one in schema.items() if not name.startswith("$")}
        if not self._rules.has_references:
            return self._inline(path, beside)
        plain = {
            name: self._fit_value(name, one)
            for name, one in schema.items()
            if name == _REF or name in _DEFINITIONS
        }
        return self.fit({"anyOf": [plain]} | beside) if beside else plain

    def _inline(self, path: str, beside: Json) -> Json:
        """The definition with what stands beside its reference; any object where it recurs."""
        definition = self._definition(path)
        is_large = self._count > _MAX_INLINED_SCHEMAS or len(self._within) > _MAX_INLINED_DEPTH
        if path in self._within or is_large or not isinstance(definition, dict):
            return self._describe({"type": "object"} | beside, {_REF: path.rpartition("/")[2]})
        return self._fit_named(path, definition | beside)  # type: ignore[no-any-return]

    def _definition(self, path: str) -> object:
        found: Any = self._root
        for step in path.removeprefix("#/").split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        return found

    def _respell(self, schema: Json) -> Json:
        """The same schema in keywords that the provider is more likely to take."""
        keywords = self._rules.keywords
        if "oneOf" in schema and "oneOf" not in keywords and "anyOf" not in schema:
            schema = {"anyOf" if key == "oneOf" else key: one for key, one in schema.items()}
        if "const" in schema and not self._rules.has_const and "enum" not in schema:
            value = schema["const"]
            schema = {("enum" if k == "const" else k): v for k, v in schema.items()}
            schema["enum"] = [value]
        single = schema.get("allOf")
        if "allOf" not in keywords and isinstance(single, list) and len(single) == 1:
            rest = {key: value for key, value in schema.items() if key != "allOf"}
            schema = (single[0] if isinstance(single[0], dict) else {}) | rest
        return _with_inclusive_bounds(schema, keywords)

    def _describe(self, fitted: Json, moved: Json) -> Json:
        """The schema whose description says what its keywords cannot."""
        if not moved:
            return fitted
        self.moved += moved
        said = "{" + ", ".join(f"{name}: {_text(value)}" for name, value in moved.items()) + "}"
        before = fitted.get("description")
        description = f"{before}\n\n{said}" if isinstance(before, str) and before else said
        return fitted | {"description": description}


def _with_inclusive_bounds(schema: Json, keywords: Mapping[str, object]) -> Json:
    """Exclusive bounds of integers as inclusive ones, where only these are known."""
    if "exclusiveMinimum" in keywords or "minimum" not in keywords:
        return schema
    if schema.get("type") != "integer":
        return schema
    changed = dict(schema)
    for exclusive, inclusive, step in (
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ):
        bound = schema.get(exclusive)
        if type(bound) is int and inclusive not in schema:
            del changed[exclusive]
            changed[inclusive] = bound + step
    return changed


def _say_nullable(schema: Json) -> Json:
    """A schema of one type, with ``nullable`` for null."""
    types = schema.get("type")
    if isinstance(types, list):
        named = [one for one in types if one != "null"]
        schema = {key: value for key, value in schema.items() if key != "type"}
        if len(named) == 1:
            schema = {"type": named[0]} | schema
        elif named:
            schema = schema | {"anyOf": [{"type": one} for one in named]}
        if len(named) < len(types):
            schema["nullable"] = True
    variants = schema.get("anyOf")
    if not isinstance(variants, list) or {"type": "null"} not in variants:
        return schema
    named = [one for one in variants if one != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"} | {"nullable": True}
    if len(named) == 1 and isinstance(named[0], dict):
        return named[0] | rest
    return rest | ({"anyOf": named} if named else {})


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
