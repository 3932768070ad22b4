"""Forms of policies that people set: their inputs, and the fields that they stand for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dashboards.access import Action
from proxy.errors import CallerError
from proxy.store.sql.settings.stored_policies import NOUNS
from slo.alert import Severity
from slo.budgets.budget import UnpricedPolicy
from slo.objectives.objective import Enforce, Metric, RequestKind
from slo.policies.file import KINDS
from slo.policies.reports import ReportInterval
from slo.policies.sinks import SinkKind
from slo.toml.fields import Field
from slo.toml.problems import InvalidFile

_MAX_CHARS: Final = 2_000
#: Fields that hold an array of texts, which people write with commas.
_LISTS: Final = frozenset({"on_exceed", "cheaper", "ladder", "by", "mail_to"})
_NUMBERS: Final = frozenset({"p", "floor", "clear", "min_prompt"})
_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "metric": tuple(Metric),
    "enforce": tuple(Enforce),
    "calls": tuple(RequestKind),
    "unpriced": tuple(UnpricedPolicy),
    "kind": tuple(SinkKind),
    "at_least": tuple(Severity),
    "every": tuple(ReportInterval),
}
#: Examples where the field's own would not do in a form.
_EXAMPLES: Final = {
    "team": "empty for every team",
    "feature": "empty for every feature",
    "on_exceed": "clamp, cheaper, refuse",
    "cheaper": "gpt-5.6-luna",
    "p": "95",
    "under": "800ms, or 0.05 of cost",
    "at_most": "1%",
    "floor": "0.7",
    "ladder": "elsewhere, gpt-5.6-luna",
    "by": "team, feature",
    "mail_to": "ann@example.com, ben@example.com",
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
    "url_env": "Variable with the URL",
    "secret_env": "Variable with the secret",
    "at_least": "Least urgent alert",
    "by": "Grouped by",
    "mail_to": "Mail to",
    "time_zone": "Time zone",
}
#: Fields that stand in the file alone.
_FILE_ONLY: Final = frozenset({"alert_at", "stages"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyForm:
    """The form of a kind of policy.

    Attributes:
        kind: Its array in the policies file.
        title: Words for setting one.
        section: The page that has the form, by its name in the menu.
        action: The action that people must be allowed to set one.
        fields: The fields of its table that have an input.
    """

    kind: str
    title: str
    section: str
    action: Action
    fields: tuple[Field, ...]

    @property
    def noun(self) -> str:
        """Word for one of them."""
        return NOUNS[self.kind]

    @property
    def page(self) -> str:
        """Path of the section that has the form."""
        return f"/{self.section}#set-policies"


def _file_fields(kind: str) -> tuple[Field, ...]:
    """The fields of a kind in the policies file that have an input, each key once."""
    (fields,) = [policy.fields for policy in KINDS if policy.array == kind]
    by_key = {field.key: field for field in reversed(fields) if field.key not in _FILE_ONLY}
    return tuple(reversed(by_key.values()))


POLICY_FORMS: Final[Mapping[str, PolicyForm]] = {
    kind: PolicyForm(
        kind=kind, title=title, section=section, action=action, fields=_file_fields(kind)
    )
    for kind, title, section, action in (
        (
            "ceilings",
            "Set a ceiling on what a call may cost",
            "objectives",
            Action.CHANGE_CONFIGURATION,
        ),
        ("objectives", "Set an objective", "objectives", Action.CHANGE_CONFIGURATION),
        ("sinks", "Add a sink", "budgets", Action.CHANGE_CONFIGURATION),
        ("reports", "Schedule a report", "reports", Action.SCHEDULE_REPORTS),
    )
}
"""The form of each kind of policy that people set."""


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


def policy_form(kind: str) -> PolicyForm:
    """The form of a kind; raises CallerError if it has none."""
    if kind not in POLICY_FORMS:
        named = ", ".join(POLICY_FORMS)
        raise CallerError(f"Choose one of {named}.", code="unknown_kind", param="table")
    return POLICY_FORMS[kind]


def form_inputs(form: PolicyForm) -> list[FormInput]:
    """The inputs of a form."""
    return [
        FormInput(
            key=field.key,
            label=_LABELS.get(field.key, field.key.capitalize()),
            example=_EXAMPLES.get(field.key, field.example),
            choices=_CHOICES.get(field.key, ()),
            is_required=bool(field.missing),
        )
        for field in form.fields
    ]


def policy_fields(kind: str, form: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a policy that a form stands for; empty inputs are left out.

    Raises:
        CallerError: There is no such kind, or a text is too long.
    """
    keys = [field.key for field in policy_form(kind).fields]
    texts = {key: form[key].strip() for key in keys if form.get(key, "").strip()}
    for key, text in texts.items():
        if len(text) > _MAX_CHARS:
            raise CallerError(
                f"{key} has over {_MAX_CHARS:,} characters.", code="invalid_form", param=key
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
