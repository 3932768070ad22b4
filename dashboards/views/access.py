"""Teams, keys, people and the audit log, as pages show them and the API answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from slo.alert import format_amount
from slo.budgets.budget import BudgetUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamView:
    """A team.

    Attributes:
        keeps_prompts: True if the text of its prompts is stored.
        may_change_keys: True if the viewer may make and revoke its keys.
    """

    id: str
    name: str
    keeps_prompts: bool
    created: float
    may_change_keys: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBudgetView:
    """A budget of one key.

    Attributes:
        limit: Dollars as a decimal text, or a whole number.
        unit: Unit that is counted.
        is_own: True for the one that is set with the key.
    """

    name: str
    limit: str
    unit: str
    window: str
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyView:
    """A key; its secret is not known any more.

    Attributes:
        name: Team's name for it.
        ends_in: The last four characters of its secret.
        state: ``open``, ``expired`` or ``revoked``.
        revoked_at: Seconds since the epoch; null while it was not.
        expires: Time from which it opens nothing; null for never.
        models: The models that its calls may ask for; null for all.
        budgets: Budgets of this key alone.
    """

    id: str
    team: str
    team_name: str
    name: str
    ends_in: str
    feature: str
    created: float
    state: str
    revoked_at: float | None
    expires: float | None
    models: Sequence[str] | None
    budgets: Sequence[KeyBudgetView]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPage:
    """Some keys, the newest first; ``next`` is the ``after`` of the page behind, null for none."""

    keys: Sequence[KeyView]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedKey:
    """A new key, with its secret, which is shown this once."""

    key: KeyView
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonView:
    """A person who may sign in."""

    id: str
    name: str
    role: str
    teams: Sequence[str]
    has_password: bool
    uses_sso: bool
    created: float
    is_disabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInLink:
    """A link that signs a person in once, which is shown this once.

    Attributes:
        path: Path and query of the link, below the gateway's URL.
        expires: Time from which it opens nothing, in seconds since the epoch.
    """

    person: PersonView
    path: str
    expires: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry:
    """One of the viewer's sessions.

    Attributes:
        id: Name of it, which opens nothing.
        used: Last use, within a minute.
        is_this: True for the session that asks.
    """

    id: str
    method: str
    browser: str
    began: float
    used: float
    is_this: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """The viewer's own account.

    Attributes:
        has_password: True if they have one; null for the admin token, which is no person.
        needs_current: True if the current password is needed to set another one.
        sessions: Their sessions that go on, the last used first.
    """

    name: str
    role: str
    has_password: bool | None
    needs_current: bool
    sessions: Sequence[SessionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntryView:
    """A change that somebody made.

    Attributes:
        id: Sorts by time.
        who: Name of the person, or of the account that ran a command.
        team: Id of the team it is about; null for none.
        before: Values before it; null where there was nothing.
        after: Values after it; null where nothing is left.
    """

    id: str
    at: float
    who: str
    action: str
    subject: str
    team: str | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Some changes, the newest first; ``next`` is the ``after`` of the page behind."""

    entries: Sequence[AuditEntryView]
    next: str | None


#: Names of values that are seconds since the epoch.
_MOMENTS: Final = frozenset({"until", "expires"})


def changed_values(entry: AuditEntryView) -> Sequence[tuple[str, str, str]]:
    """Name, value before and value after of what an entry changed; "" where there is none."""
    before, after = entry.before or {}, entry.after or {}
    names = [*before, *(name for name in after if name not in before)]
    rows = [(name, _text(before, name), _text(after, name)) for name in names]
    is_change = entry.before is not None and entry.after is not None
    return [row for row in rows if row[1] != row[2]] if is_change else rows


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "limit" and values.get("unit") == "usd" and isinstance(value, int):
        return format_amount(BudgetUnit.USD, value)
    if name in _MOMENTS and isinstance(value, int | float):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
