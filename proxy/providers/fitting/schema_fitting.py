"""Schemas rewritten to the part of JSON Schema that a provider takes.

Keywords that it refuses, or ignores, move into the description, so that the model may follow them,
as Anthropic's own SDK does it::

    {"type": "integer", "minimum": 1}  →  {"type": "integer", "description": "{minimum: 1}"}

Source: anthropic 2.11, ``transform_schema``; Google, Gemini API, Schema (2026-11).
"""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from proxy.providers.fitting.schema_rules import Json, SchemaRules, types_of

#: Keys under which a schema holds schemas: by name, in a list, and as one.
_BY_NAME: Final = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_IN_LIST: Final = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_AS_ONE: Final = frozenset({"items", "additionalProperties"})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
#: Say nothing about values, so they are left out.
_SILENT: Final = (
    frozenset({"$schema", "$id", "$anchor", "$comment", "discriminator"}) | _DEFINITIONS
)
#: May stand beside a reference with other words than the definition's.
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "nullable"})
_MAX_INLINED_DEPTH: Final = 64
#: Bytes that definitions in place of references may add for each byte given, and in any case.
_INLINED_RATIO: Final = 3
_INLINED_BYTES: Final = 256 * 1024
#: Work on an object, however short, as bytes of text that take as long.
_OBJECT_BYTES: Final = 100
_MAX_INDEX_DIGITS: Final = 9
_REF: Final = "$ref"
_ROOT: Final = "#"


class FittedSchema(msgspec.Struct, frozen=True):
    """A schema as a provider takes it.

    Attributes:
        schema: The schema; the caller's own bytes where nothing had to change.
        moved: Keywords that are now in descriptions.
        is_closed: True if objects were closed that may hold more in the caller's.
        is_recursive: True if a definition refers to itself.
        is_too_deep: True if the schema is unmodified, for it is too deep to rewrite.
    """

    schema: Raw
    moved: tuple[str, ...] = ()
    is_closed: bool = False
    is_recursive: bool = False
    is_too_deep: bool = False

    def notes(self, field: str) -> list[str]:
        """A sentence for each change to the schema of a field."""
        changes = []
        if self.is_too_deep:
            changes.append(f"left a schema of {field} unmodified: it is too deep to rewrite")
        if self.is_closed:
            changes.append(f"closed the objects of {field}: the model supports no others")
        if self.moved:
            names = ", ".join(self.moved)
            changes.append(
                f"said {names} of {field} in descriptions: the model takes no such keywords"
            )
        return changes


class InliningBudget:
    """Bytes that the schemas of a call may grow by: definitions in place of references.

    Definitions that refer to each other twice double at each step: 228 KB became 100 MB.
    """

    def __init__(self, given_bytes: int) -> None:
        self._left = _INLINED_RATIO * given_bytes + _INLINED_BYTES

    def take(self, count: int) -> bool:
        """True if so many bytes may be added, which are taken; references go without others."""
        if count > self._left:
            return False
        self._left -= count
        return True


def fit_schema(
    schema: Raw, rules: SchemaRules, budget: InliningBudget | None = None
) -> FittedSchema:
    """The schema as far as a provider takes it; unmodified where it cannot be read.

    Args:
        budget: That of all schemas of the call; one for this schema alone by default.
    """
    try:
        document = msgspec.json.decode(schema)
        budget = budget or InliningBudget(len(bytes(schema)))
        fitting = _Fitting(rules, document, budget)
        fitted = fitting.fit(document)
        if fitting.is_recursive and not rules.has_circles:
            fitting = _Fitting(_without_references(rules), document, budget)
            fitted = fitting.fit(document)
        if fitted == document:
            return FittedSchema(schema, is_recursive=fitting.is_recursive)
        written = Raw(msgspec.json.encode(fitted))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return FittedSchema(schema)
    except RecursionError:
        return FittedSchema(schema, is_too_deep=True)
    moved = tuple(dict.fromkeys(fitting.moved))
    return FittedSchema(written, moved, fitting.is_closed, fitting.is_recursive)


def _without_references(rules: SchemaRules) -> SchemaRules:
    """The same rules, with definitions in place of references."""
    keywords = {name: check for name, check in rules.keywords.items() if name not in _DEFINITIONS}
    return msgspec.structs.replace(rules, keywords=keywords, has_references=False)


class _Fitting:
    """The rewriting of one schema."""

    def __init__(self, rules: SchemaRules, root: object, budget: InliningBudget) -> None:
        self.moved: list[str] = []
        self.is_closed = False
        self._rules = rules
        self._root = root if isinstance(root, dict) else {}
        self._within = [_ROOT]
        self._references: dict[str, set[str]] = {}
        self._budget = budget
        self._sizes: dict[int, int] = {}

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
        schema = self._respell(schema)
        if self._rules.has_nullable:
            schema = _say_choices(_say_nullable(schema))
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
                key: self._fit_named(
                    prefix and prefix + _pointer_step(key), {} if inner is True else inner
                )
                for key, inner in value.items()
            }
        if name in _IN_LIST and isinstance(value, list):
            return [self.fit(inner) for inner in value]
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
        path = unquote(str(schema[_REF]))
        self._references.setdefault(self._within[-1], set()).add(path)
        beside = {
            name: inner for name, inner in schema.items() if name != _REF and name not in _SILENT
        }
        if not self._rules.has_references:
            return self._inline(path, beside)
        reference = {_REF: schema[_REF]}
        definitions = {name: inner for name, inner in schema.items() if name in _DEFINITIONS}
        if not beside:
            return reference | {
                name: self._fit_value(name, inner) for name, inner in definitions.items()
            }
        clashing = {"anyOf": beside["anyOf"]} if "anyOf" in beside else {}
        fitted = self.fit(beside | {"anyOf": [reference]} | definitions)
        return self._describe(fitted, clashing)

    def _inline(self, path: str, beside: Json) -> Json:
        """The definition with what stands beside its reference.

        Any object where it recurs, and where the schema would grow too large.
        """
        definition = self._definition(path)
        is_open = path in self._within or len(self._within) > _MAX_INLINED_DEPTH
        if is_open or not isinstance(definition, dict) or not self._may_grow(definition):
            fitted = self.fit({"type": "object", "additionalProperties": True} | beside)
            return self._describe(fitted, {_REF: path.rpartition("/")[2]})
        clashing = {
            name: inner
            for name, inner in beside.items()
            if name not in _ANNOTATIONS and definition.get(name, inner) != inner
        }
        rest = {name: inner for name, inner in beside.items() if name not in clashing}
        return self._describe(self._fit_named(path, definition | rest), clashing)

    def _may_grow(self, definition: Json) -> bool:
        """True if the budget has room for a definition of the root, which is taken from it."""
        key = id(definition)  # many pointers may lead to one
        if key not in self._sizes:
            text = msgspec.json.encode(definition)
            self._sizes[key] = len(text) + _OBJECT_BYTES * text.count(b"{")
        return self._budget.take(self._sizes[key])

    def _definition(self, path: str) -> object:
        node: Any = self._root
        for step in path.removeprefix("#/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and name.isdecimal() and len(name) <= _MAX_INDEX_DIGITS:
                node = next(iter(node[int(name) : int(name) + 1]), None)
            else:
                node = node.get(name) if isinstance(node, dict) else None
        return node

    def _respell(self, schema: Json) -> Json:
        """The same schema in keywords that the provider is more likely to take."""
        keywords = self._rules.keywords
        if "oneOf" in schema and "oneOf" not in keywords and "anyOf" not in schema:
            schema = {"anyOf" if key == "oneOf" else key: inner for key, inner in schema.items()}
        if "const" in schema and not self._rules.has_const and "enum" not in schema:
            value = schema["const"]
            schema = {("enum" if k == "const" else k): v for k, v in schema.items()}
            schema["enum"] = [value]
        if isinstance(schema.get("items"), list) and "prefixItems" in keywords:
            schema = {("prefixItems" if k == "items" else k): v for k, v in schema.items()}
        single = schema.get("allOf")
        if "allOf" not in keywords and isinstance(single, list) and len(single) == 1:
            rest = {key: value for key, value in schema.items() if key != "allOf"}
            only = single[0] if isinstance(single[0], dict) else {}
            if not only.keys() & rest.keys() - _ANNOTATIONS:
                schema = only | rest
        return _with_inclusive_bounds(schema, keywords)

    def _describe(self, fitted: Json, moved: Json) -> Json:
        """The schema whose description says what its keywords cannot."""
        if not moved:
            return fitted
        self.moved += moved
        keywords = "{" + ", ".join(f"{name}: {_text(value)}" for name, value in moved.items()) + "}"
        before = fitted.get("description")
        description = f"{before}\n\n{keywords}" if isinstance(before, str) and before else keywords
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
        named = [variant for variant in types if variant != "null"]
        schema = {key: value for key, value in schema.items() if key != "type"}
        if len(named) == 1:
            schema = {"type": named[0]} | schema
        elif named:
            schema = schema | {"anyOf": [{"type": variant} for variant in named]}
        if len(named) < len(types):
            schema["nullable"] = True
    variants = schema.get("anyOf")
    if not isinstance(variants, list) or {"type": "null"} not in variants:
        return schema
    named = [variant for variant in variants if variant != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"} | {"nullable": True}
    if len(named) == 1 and isinstance(named[0], dict):
        return named[0] | rest
    return rest | ({"anyOf": named} if named else {})


def _say_choices(schema: Json) -> Json:
    """A schema whose choices are texts with the type that they need, and ``nullable`` for null."""
    choices = schema.get("enum")
    if not isinstance(choices, list) or "anyOf" in schema:
        return schema
    texts = [text for text in choices if text is not None]
    if not texts or not all(isinstance(text, str) for text in texts):
        return schema
    if len(texts) < len(choices):
        schema = schema | {"enum": texts, "nullable": True}
    return {"type": "string"} | schema


def _pointer_step(key: str) -> str:
    """A key as JSON pointers write it."""
    return key.replace("~", "~0").replace("/", "~1")


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
