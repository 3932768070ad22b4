"""Forms of policies that people set: their inputs, and the fields that they stand for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dashboards.access import Action
from proxy.catalog import prices
from proxy.catalog.entries import MODEL_FIELDS, ROUTE_FIELDS
from proxy.catalog.page_entries import read_long_prompts
from proxy.errors import CallerError
from proxy.services.policy_overlay import STORED_KINDS
from proxy.store.sql.settings.stored_policies import NOUNS
from slo.alert import Severity
from slo.budgets.budget import UnpricedPolicy
from slo.objectives.objective import Enforce, Metric, RequestKind
from slo.policies.entries import TEAM
from slo.policies.file import KINDS
from slo.policies.reports import ReportInterval
from slo.policies.sinks import SinkKind
from slo.toml.fields import Field
from slo.toml.problems import InvalidFile

_MAX_CHARS: Final = 2_000
#: Fields that hold an array of texts, which people write with commas.
_LISTS: Final = frozenset(
    {"on_exceed", "cheaper", "ladder", "by", "mail_to", "fallbacks", "when_too_long", "can"}
)
_NUMBERS: Final = frozenset({"p", "floor", "clear", "min_prompt", "window", "max_output"})
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
    "routes": "openai, azure/my-deployment",
    "like": "gpt-5.4-mini",
    "fallbacks": "gpt-5.4-mini",
    "discount": "0.12",
    "can": "tools, schema, vision",
    "alias": "claude-*",
    "model": "gpt-5.4-mini",
    "since": "2027-01-01; empty for now",
    "input": "1.25",
    "cache_read": "0.125",
    "output": "10",
    "long": '[{ above = 272_000, input = "2.50", cache_read = "0.25", output = "15" }]',
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
    "like": "As another model",
    "routes": "Upstreams, in order",
    "discount": "Discount, 0 to 1",
    "window": "Most prompt tokens",
    "max_output": "Most generated tokens",
    "fallbacks": "Fallback models",
    "when_too_long": "Models for longer prompts",
    "can": "It can",
    "since": "From",
    "input": "Input, $ per million tokens",
    "cache_read": "Cache read",
    **{f"write_{time}": f"Cache write, {time}" for time in ("5m", "30m", "1h", "12h")},
    "output": "Output",
    "long": "Long prompts",
    "alias": "Name that callers ask for",
    "model": "Model that answers",
}
_ROUTE_KEYS: Final = ("upstream", "model")
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
        stored_as: The kind that is stored; prices are part of their model.
    """

    kind: str
    stored_as: str
    title: str
    section: str
    action: Action
    fields: tuple[Field, ...]

    @property
    def noun(self) -> str:
        """Word for one of them."""
        return NOUNS.get(self.kind, "price")

    @property
    def page(self) -> str:
        """Path of the section that has the form."""
        return f"/{self.section}#set-policies"


def _file_fields(kind: str) -> tuple[Field, ...]:
    """The fields of a kind in the policies file that have an input, each key once."""
    (fields,) = [policy.fields for policy in KINDS if policy.array == kind]
    by_key = {field.key: field for field in reversed(fields) if field.key not in _FILE_ONLY}
    return tuple(reversed(by_key.values()))


_MODEL_NAME: Final = Field("name", str, "", "the name callers use", missing="write a name")
_MODEL_KEYS: Final = (
    *("like", "routes", "discount", "window", "max_output", "can", "fallbacks", "when_too_long"),
)
_FIELDS: Final[Mapping[str, tuple[Field, ...]]] = {
    **{kind: _file_fields(kind) for kind in STORED_KINDS},
    "models": (
        _MODEL_NAME,
        *(field for field in (*MODEL_FIELDS, *ROUTE_FIELDS) if field.key in _MODEL_KEYS),
    ),
    "prices": (
        _MODEL_NAME,
        *(field for field in prices.FIELDS if field.key == "since"),
        *(field for field in prices.FIELDS if field.key in {"long", *prices.RATES}),
    ),
    "model_aliases": (
        TEAM,
        Field("alias", str, "", "the name that callers ask for", missing="write a name"),
        Field("model", str, "", "the model that answers", missing="write a model's name"),
    ),
}
_SETUP: Final = Action.CHANGE_CONFIGURATION
POLICY_FORMS: Final[Mapping[str, PolicyForm]] = {
    kind: PolicyForm(
        kind=kind,
        stored_as="models" if kind == "prices" else kind,
        title=title,
        section=section,
        action=action,
        fields=_FIELDS[kind],
    )
    for kind, title, section, action in (
        ("ceilings", "Set a ceiling on what a call may cost", "objectives", _SETUP),
        ("objectives", "Set an objective", "objectives", _SETUP),
        ("sinks", "Add a sink", "budgets", _SETUP),
        ("reports", "Schedule a report", "reports", Action.SCHEDULE_REPORTS),
        ("models", "Add a model, or change one", "models", _SETUP),
        ("prices", "Set prices, now or from a day on", "models", _SETUP),
        ("model_aliases", "Have a name mean another model", "models", _SETUP),
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
    try:
        return {key: _value(key, text) for key, text in texts.items()}
    except InvalidFile as invalid:
        raise invalid_policy_error(invalid) from None


def form_texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a form that stand for these fields."""
    return {key: _text(key, value) for key, value in fields.items()}


def invalid_policy_error(invalid: InvalidFile) -> CallerError:
    """The refusal of a policy that breaks rules, which names each field."""
    faults = [
        f"{problem.where.rpartition('.')[2] or 'policy'} {problem.what}; {problem.fix}."
        for problem in invalid.problems
    ]
    return CallerError(" ".join(faults), code="invalid_policy")


def _text(key: str, value: object) -> str:
    if key == "routes" and isinstance(value, list):
        return ", ".join("/".join(filter(None, map(one.get, _ROUTE_KEYS))) for one in value)
    if isinstance(value, Mapping):
        days = [str(change["since"]) for change in value.get("changes", ())]
        return f"also from {', '.join(days)}" if days else "set"
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)


def _route(text: str) -> dict[str, str]:
    """The route of a text such as ``azure/my-deployment``."""
    upstream, _, model = text.partition("/")
    return {"upstream": upstream, "model": model} if model else {"upstream": upstream}


def _value(key: str, text: str) -> object:
    if key == "long":
        return read_long_prompts(text)
    if key == "routes":
        return [_route(part.strip()) for part in text.split(",") if part.strip()]
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
