"""Tables of the keywords of JSON Schema that providers take, and checks of their values.

Source: Anthropic, structured outputs, JSON Schema limitations; Google, Gemini API, Schema,
structured outputs; google-gemini/gemini-cli, issue 3178, on formats; xAI, structured outputs, JSON
Schema support; get-bb/bb, issue 1612: Grok 4.6 refuses references in a circle; DeepSeek, tool
calls, strict mode; AWS, Bedrock, structured output: refuses what Anthropic does (2026-11).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

Json = dict[str, Any]
_Check = Callable[[Any, Json], bool]

_ANTHROPIC_FORMATS: Final = frozenset(
    {
        "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6",
        "uuid",
    }
)  # fmt: skip
_ANTHROPIC_KEYWORDS: Final = (
    "type", "title", "description", "default", "anyOf", "allOf", "$ref", "$defs", "definitions",
    "properties", "required", "additionalProperties", "items",
)  # fmt: skip
_GEMINI_KEYWORDS: Final = (
    "$id", "$anchor", "$defs", "$ref", "type", "format", "title", "description", "items",
    "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties",
    "additionalProperties", "required", "propertyOrdering", "default",
)  # fmt: skip
_GOOGLE_CHAT_KEYWORDS: Final = (
    "type", "format", "title", "description", "nullable", "items", "minItems", "maxItems",
    "minLength", "maxLength", "minimum", "maximum", "minProperties", "maxProperties", "pattern",
    "properties", "required", "anyOf", "propertyOrdering", "example", "default",
)  # fmt: skip
_GOOGLE_CHAT_FORMATS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "string": ("enum", "date-time"),
        "number": ("float", "double"),
        "integer": ("int32", "int64"),
    }
)
_XAI_KEYWORDS: Final = (
    "type", "title", "description", "default", "const", "oneOf", "allOf", "$ref", "$defs",
    "definitions", "properties", "required", "additionalProperties", "prefixItems", "format",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip
_DEEPSEEK_KEYWORDS: Final = (
    "type", "title", "description", "default", "const", "enum", "anyOf", "$ref", "$defs",
    "definitions", "properties", "required", "additionalProperties", "items", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
)  # fmt: skip
_DEEPSEEK_FORMATS: Final = frozenset({"email", "hostname", "ipv4", "ipv6", "uuid"})
#: Missing from xAI's regular expressions: look-around, modifiers, back-references, word
#: boundaries, classes of Unicode.
_XAI_HARD_PATTERN: Final = re.compile(r"\(\?(?!:)|\\[bBpPkK1-9]")
#: Missing from Anthropic's regular expressions: look-around, back-references, word boundaries,
#: classes of Unicode.
_HARD_PATTERN: Final = re.compile(r"\(\?|\\[bBpPkK1-9]")
_QUANTIFIER: Final = re.compile(r"\{(\d*),?(\d*)\}")
#: Anthropic refuses large ranges, and does not say from which on.
_MAX_QUANTIFIER: Final = 32


def _is_any(_value: object, _schema: Json) -> bool:
    return True


def _is_zero_or_one(value: object, _schema: Json) -> bool:
    return value in (0, 1)


def _is_primitive(value: object, _schema: Json) -> bool:
    return value is None or isinstance(value, str | int | float)


def _are_primitive(value: object, schema: Json) -> bool:
    return isinstance(value, list) and all(_is_primitive(item, schema) for item in value)


def _are_texts(value: object, schema: Json) -> bool:
    is_text = schema.get("type") == "string"
    return is_text and isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_google_chat_format(value: object, schema: Json) -> bool:
    formats = (_GOOGLE_CHAT_FORMATS.get(kind, ()) for kind in types_of(schema))
    return any(value in names for names in formats)


def _is_anthropic_format(value: object, schema: Json) -> bool:
    is_known = isinstance(value, str) and value in _ANTHROPIC_FORMATS
    return is_known and "string" in types_of(schema)


def _is_deepseek_format(value: object, _schema: Json) -> bool:
    return isinstance(value, str) and value in _DEEPSEEK_FORMATS


def _is_xai_pattern(value: object, _schema: Json) -> bool:
    return isinstance(value, str) and not _XAI_HARD_PATTERN.search(value)


def _is_no_list(value: object, _schema: Json) -> bool:
    return not isinstance(value, list)


def _is_filled(value: object, _schema: Json) -> bool:
    return bool(value)


def _is_simple_pattern(value: object, _schema: Json) -> bool:
    if not isinstance(value, str) or _HARD_PATTERN.search(value):
        return False
    bounds = (number for match in _QUANTIFIER.finditer(value) for number in match.groups())
    return all(len(number) < 3 and int(number) <= _MAX_QUANTIFIER for number in bounds if number)


class SchemaRules(msgspec.Struct, frozen=True, kw_only=True):
    """The part of JSON Schema that a provider takes.

    Attributes:
        keywords: Those it takes, each with a check of its value.
        closes_objects: True if it wants ``additionalProperties: false`` in every object.
        has_references: True if it takes ``$ref``, with nothing beside it; False puts the
            definition in its place.
        has_nullable: True if it says null by ``nullable``, and takes one type, no list.
        has_const: True if it takes ``const``; False makes it an ``enum`` of one.
        has_circles: True if references may lead back to themselves; False puts any object where
            they would.
        is_strict_only: True if it holds only strict tools, and answers, to it.
    """

    keywords: Mapping[str, _Check]
    closes_objects: bool = False
    has_references: bool = True
    has_nullable: bool = False
    has_const: bool = True
    has_circles: bool = True
    is_strict_only: bool = False


#: Structured outputs and strict tools; ordinary tools take any schema.
ANTHROPIC: Final = SchemaRules(
    keywords=MappingProxyType(
        dict.fromkeys(_ANTHROPIC_KEYWORDS, _is_any)
        | {
            "enum": _are_primitive,
            "const": _is_primitive,
            "format": _is_anthropic_format,
            "pattern": _is_simple_pattern,
            "minItems": _is_zero_or_one,
        }
    ),
    closes_objects=True,
    is_strict_only=True,
)
#: ``responseJsonSchema``; what it does not know it ignores.
GEMINI: Final = SchemaRules(
    keywords=MappingProxyType(dict.fromkeys(_GEMINI_KEYWORDS, _is_any) | {"enum": _are_primitive}),
    has_const=False,
)
#: Tools and answers by Google's OpenAI endpoint, which fills the older ``Schema`` with them.
GOOGLE_CHAT: Final = SchemaRules(
    keywords=MappingProxyType(
        dict.fromkeys(_GOOGLE_CHAT_KEYWORDS, _is_any)
        | {"enum": _are_texts, "format": _is_google_chat_format}
    ),
    has_references=False,
    has_nullable=True,
    has_const=False,
)
#: Tools and answers; a keyword that it takes without holding answers to it goes, too.
XAI: Final = SchemaRules(
    keywords=MappingProxyType(
        dict.fromkeys(_XAI_KEYWORDS, _is_any)
        | {
            "items": _is_no_list,
            "enum": _is_filled,
            "anyOf": _is_filled,
            "pattern": _is_xai_pattern,
        }
    ),
    has_circles=False,
)
#: Strict tools, which the beta base URL alone knows.
DEEPSEEK: Final = SchemaRules(
    keywords=MappingProxyType(
        dict.fromkeys(_DEEPSEEK_KEYWORDS, _is_any)
        | {"format": _is_deepseek_format, "pattern": _is_xai_pattern}
    ),
    closes_objects=True,
    is_strict_only=True,
)


def types_of(schema: Json) -> Iterable[str]:
    """The types of a schema's values, as far as it names them."""
    kind = schema.get("type")
    if isinstance(kind, list):
        return [name for name in kind if isinstance(name, str)]
    return (kind,) if isinstance(kind, str) else ()
