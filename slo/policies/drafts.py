"""The draft rules of a policies file: whose streams begin with a small model's draft."""

from collections.abc import Iterable
from typing import Final

import msgspec

from slo.budgets.budget import EVERY
from slo.policies.entries import FEATURE, TEAM, name_field
from slo.toml.fields import Field, read_fields
from slo.toml.table_reader import TableReader


class DraftRule(msgspec.Struct, frozen=True, kw_only=True):
    """Has a small model draft the answers of streams while the model asked for answers.

    Attributes:
        model: The public name of the model that drafts; "" for none.
    """

    name: str
    team: str = EVERY
    feature: str = EVERY
    model: str = ""

    def governs(self, team: str, feature: str) -> bool:
        """True if it is about calls of this team and feature."""
        return self.team in {EVERY, team} and self.feature in {EVERY, feature}


def draft_rule(table: TableReader) -> DraftRule:
    """The rule of a table, with stand-ins where it has problems."""
    return DraftRule(**read_fields(table, FIELDS))


def drafting_model(rules: Iterable[DraftRule], team: str, feature: str) -> str:
    """The model that drafts for calls of a team and feature, by the first rule; "" for none."""
    return next((rule.model for rule in rules if rule.governs(team, feature)), "")


FIELDS: Final = (
    name_field("support-drafts"),
    TEAM,
    FEATURE,
    Field(
        "model",
        str,
        "",
        'public name of the model that drafts; `""`: none',
        missing='write model = "gpt-5.4-mini"',
        example="gpt-5.4-mini",
    ),
)
