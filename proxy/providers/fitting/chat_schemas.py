"""Schemas of a chat call, as the provider of an OpenAI endpoint takes them; pure.

For calls that were translated to chat, whose callers wrote them for another provider.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Raw

from proxy.catalog.entries import Route, Upstream
from proxy.providers.chat.chat_body import Fields
from proxy.providers.fitting.schema_fitting import FittedSchema, InliningBudget, fit_schema
from proxy.providers.fitting.schema_rules import ANTHROPIC, DEEPSEEK, GOOGLE_CHAT, XAI, SchemaRules
from proxy.records.request_fields import raw_field

#: A provider that documents no limits has no row.
_RULES: Final[Mapping[str, SchemaRules]] = MappingProxyType(
    {"google": GOOGLE_CHAT, "xai": XAI, "deepseek": DEEPSEEK, "bedrock": ANTHROPIC}
)
_DEEPSEEK_STRICT_PATH: Final = "/beta"
#: Fields that hold schemas, and the members within that lead to one.
_TOOLS: Final = "tools"
_TOOL_PATH: Final = ("function", "parameters")
_FORM: Final = "response_format"
_FORM_PATH: Final = ("json_schema", "schema")

_members: Final = msgspec.json.Decoder(Fields).decode
_items: Final = msgspec.json.Decoder(list[Raw]).decode


def chat_schema_rules(upstream: Upstream) -> SchemaRules | None:
    """The part of JSON Schema that an OpenAI endpoint takes; None where it documents no limit."""
    if upstream.provider == "deepseek" and not upstream.base_url.endswith(_DEEPSEEK_STRICT_PATH):
        return None
    return _RULES.get(upstream.provider)


def fit_chat_schemas(fields: Fields, route: Route) -> list[str]:
    """Rewrite the schemas of a chat body in place; the notes on what was changed.

    Raises:
        msgspec.DecodeError: If tools or format cannot be read.
    """
    rules = chat_schema_rules(route.upstream)
    if rules is None:
        return []
    notes: list[str] = []
    given_bytes = sum(len(bytes(fields.get(name, Raw()))) for name in (_TOOLS, _FORM))
    budget = InliningBudget(given_bytes)
    if (tools := fields.get(_TOOLS)) is not None and bytes(tools).startswith(b"["):
        fitted = [_fit_within(tool, _TOOL_PATH, rules, budget) for tool in _items(tools)]
        if any(schema is not None and not schema.is_too_deep for _, schema in fitted):
            fields[_TOOLS] = Raw(msgspec.json.encode([tool for tool, _ in fitted]))
        for _, schema in fitted:
            notes += [] if schema is None else schema.notes(_TOOLS)
    if (form := fields.get(_FORM)) is not None:
        fields[_FORM], schema = _fit_within(form, _FORM_PATH, rules, budget)
        notes += [] if schema is None else schema.notes(_FORM)
    return list(dict.fromkeys(notes))


def fit_body_schemas(body: bytes, route: Route) -> tuple[dict[str, bytes], list[str]]:
    """The fields of a chat body that hold schemas to be rewritten, and the notes on that."""
    if chat_schema_rules(route.upstream) is None:
        return {}, []
    values = {name: raw_field(body, name) for name in (_TOOLS, _FORM)}
    fields = {name: Raw(raw) for name, raw in values.items() if raw is not None}
    notes = fit_chat_schemas(fields, route)
    return {name: bytes(raw) for name, raw in fields.items() if bytes(raw) != values[name]}, notes


def _fit_within(
    value: Raw, path: tuple[str, str], rules: SchemaRules, budget: InliningBudget
) -> tuple[Raw, FittedSchema | None]:
    """A value with the schema in it fitted, and that schema; None where it stays as it was."""
    outer_name, inner_name = path
    outer = _object(value)
    inner = _object(outer.get(outer_name, Raw()))
    if rules.is_strict_only and path is _TOOL_PATH and bytes(inner.get("strict", b"")) != b"true":
        return value, None
    schema = inner.get(inner_name, Raw())
    if not bytes(schema).startswith(b"{"):
        return value, None
    fitted = fit_schema(schema, rules, budget)
    if fitted.schema is schema:
        return value, fitted if fitted.is_too_deep else None
    inner[inner_name] = fitted.schema
    outer[outer_name] = Raw(msgspec.json.encode(inner))
    return Raw(msgspec.json.encode(outer)), fitted


def _object(value: Raw) -> Fields:
    """The members of an object; empty for anything else."""
    return _members(value) if bytes(value).startswith(b"{") else {}
