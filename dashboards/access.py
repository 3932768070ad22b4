"""Roles of people, and what each may see and change on the pages and in their API."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Role(StrEnum):
    """The role of a person."""

    VIEWER = "viewer"  #: Sees costs, savings and latency of own teams.
    TEAM_ADMIN = "team-admin"  #: Sees calls of own teams, too, and changes their settings.
    FINANCE = "finance"  #: Sees costs and savings of all teams, but no call; changes budgets.
    ADMIN = "admin"  #: Sees and changes all.


class Action(StrEnum):
    """An action of a person."""

    SEE_COSTS = "see costs"
    SEE_CALLS = "see calls"
    SEE_OPERATIONS = "see objectives, engines and alerts"
    SEE_AUDIT_LOG = "see changes of budgets, reports and prices in the audit log"
    SEE_ALL_CHANGES = "see all of the audit log"
    CHANGE_TEAM_SETTINGS = "change layouts, compaction and the fast path of a team"
    CHANGE_KEYS = "change keys of a team"
    CHANGE_BUDGETS = "change budgets of a team"
    CHANGE_OBJECTIVES = "pin objectives"
    CHANGE_TEAMS = "make teams"
    CHANGE_USERS = "change people"
    CHANGE_CONFIGURATION = "reload catalog and policies"
    ANSWER_ALERTS = "acknowledge and snooze alerts"
    SEND_MESSAGES = "send reports and test alerts"
    SCHEDULE_REPORTS = "schedule reports"


_READING: Final = frozenset({Action.SEE_COSTS, Action.SEE_OPERATIONS})
_ALLOWED: Final[Mapping[Role, frozenset[Action]]] = MappingProxyType(
    {
        Role.VIEWER: _READING,
        Role.TEAM_ADMIN: _READING
        | {
            Action.SEE_CALLS,
            Action.CHANGE_TEAM_SETTINGS,
            Action.CHANGE_KEYS,
            Action.CHANGE_BUDGETS,
        },
        Role.FINANCE: _READING
        | {Action.SCHEDULE_REPORTS, Action.CHANGE_BUDGETS, Action.SEE_AUDIT_LOG},
        Role.ADMIN: frozenset(Action),
    }
)
#: Roles that see all teams, whatever teams they are given.
ALL_TEAMS_ROLES: Final = frozenset({Role.FINANCE, Role.ADMIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """A person who is signed in.

    Attributes:
        name: Their name, as the audit log has it.
        own_teams: Ids of the teams that they belong to.
        user: Id of the person; "" for the admin token.
        session: Id of their session, which opens nothing; "" for none.
    """

    name: str
    role: Role
    own_teams: frozenset[str] = frozenset()
    user: str = ""
    session: str = ""

    @property
    def teams(self) -> frozenset[str] | None:
        """Ids of the teams they may see; None for all."""
        return None if self.role in ALL_TEAMS_ROLES else self.own_teams

    def may(self, action: Action, team: str | None = None) -> bool:
        """True if they may do it, to this team where one is named by its id."""
        if action not in _ALLOWED[self.role]:
            return False
        return team is None or self.teams is None or team in self.teams


HOME_PATH: Final = "/admin/"
"""The path of the first page, as links name it."""


def sign_in_url(base_url: str, code: str, page: str = "") -> str:
    """The address of a link that signs a person in once.

    Args:
        base_url: URL of the gateway, without a path.
        code: The link's code; "" for the dashboard itself.
        page: Path of the page that follows; "" for the usual one.
    """
    base = base_url.rstrip("/")
    if not code:
        return f"{base}/admin"
    return f"{base}/admin/sign-in?code={code}" + (f"&next={page}" if page else "")
