"""Forms of ceilings and objectives: their inputs, and the fields that they stand for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from proxy.errors import CallerError
from slo.budgets.budget import UnpricedPolicy
from slo.objectives.objective import Enforce, Metric, RequestKind
from slo.policies import ceilings, objectives
from slo.toml.problems import InvalidFile

_MAX_CHARS: Final = 300
#: Fields that hold an array of texts, which people write with commas.
_LISTS: Final = frozenset({"on_exceed", "cheaper", "ladder"})
_NUMBERS: Final = frozenset({"p", "floor", "clear", "min_prompt"})
_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "metric": tuple(Metric),
    "enforce": tuple(Enforce),
    "calls": tuple(RequestKind),
    "unpriced": tuple(UnpricedPolicy),
}
_EXAMPLES: Final = {
    "name": "such as chat-first-token",
    "team": "empty for every team",
    "feature": "empty for every feature",
    "limit": "0.05",
    "on_exceed": "clamp, cheaper, refuse",
    "cheaper": "gpt-5.6-luna",
    "p": "95",
    "under": "800ms, or 0.05 of cost",
    "at_most": "1%",
    "floor": "0.7",
    "ladder": "elsewhere, gpt-5.6-luna",
}
#: Words before the field's own name; others say enough by their name.
_LABELS: Final = {
    "limit": "Dollars a call",
    "on_exceed": "Steps, in order",
    "cheaper": "Cheaper models",
    "unpriced": "Calls of unknown price",
    "p": "Percent of calls, of times and cost",
    "under": "Time, or dollars of cost",
    "at_most": "Share of errors",
    "floor": "Share read from the cache",
    "clear": "Cache: kept again from",
    "min_prompt": "Cache: shortest prompt, tokens",
    "ladder": "Fallback levels, in order",
    "enforce": "Does",
    "calls": "About",
}
#: Fields that stand in the file alone.
_FILE_ONLY: Final = frozenset({"alert_at", "stages"})
_KEYS: Final[Mapping[str, Sequence[str]]] = {
    kind: tuple(dict.fromkeys(field.key for field in fields if field.key not in _FILE_ONLY))
    for kind, fields in (("ceilings", ceilings.FIELDS), ("objectives", objectives.FIELDS))
}
POLICY_KINDS: Final = tuple(_KEYS)
"""Kinds of policies that have a form."""


@dataclass(frozen=True, slots=True)
class FormInput:
    """An input of a form.

    Attributes:
        choices: Values to choose from; () for a text.
    """

    key: str
    label: str
    example: str
    choices: Sequence[str]
    is_required: bool


def form_inputs(kind: str) -> list[FormInput]:
    """The inputs of the form of a kind of policy."""
    return [
        FormInput(
            key=key,
            label=_LABELS.get(key, key.capitalize()),
            example=_EXAMPLES.get(key, ""),
            choices=_CHOICES.get(key, ()),
            is_required=key in {"name", "metric", "limit"},
        )
        for key in _KEYS[kind]
    ]


def policy_fields(kind: str, form: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a policy that a form stands for; empty inputs are left out.

    Raises:
        CallerError: There is no such kind, or a text is too long.
    """
    if kind not in _KEYS:
        raise CallerError("Choose ceilings or objectives.", code="unknown_kind", param="kind")
    texts = {key: form[key].strip() for key in _KEYS[kind] if form.get(key, "").strip()}
    for key, text in texts.items():
        if len(text) > _MAX_CHARS:
            raise CallerError(
                f"{key} has over {_MAX_CHARS} characters.", code="invalid_form", param=key
            )
    return {key: _value(key, text) for key, text in texts.items()}


def form_texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a form that stand for these fields."""
    return {
        key: ", ".join(value) or "none" if isinstance(value, list) else str(value)
        for key, value in fields.items()
    }


def invalid_policy_error(invalid: InvalidFile) -> CallerError:
    """The refusal of a policy that breaks rules, which names each field."""
    faults = [
        f"{problem.where.rpartition('.')[2] or 'policy'} {problem.what}; {problem.fix}."
        for problem in invalid.problems
    ]
    return CallerError(" ".join(faults), code="invalid_policy")


def _value(key: str, text: str) -> object:
    if key in _LISTS:
        parts = [part.strip() for part in text.split(",")]
        return [] if parts == ["none"] else [part for part in parts if part]
    if key in _NUMBERS:
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
    return text
