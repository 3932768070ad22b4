"""The small-first rules of a policies file: which features' calls may go to a small model first."""

import re
from decimal import Decimal
from enum import StrEnum
from typing import Final

import msgspec

from slo.budgets.budget import EVERY
from slo.policies.entries import FEATURE, TEAM, name_field, share
from slo.toml.fields import Field, list_of, read_fields
from slo.toml.table_reader import TableReader, describe_value

_MAX_CHECK_MS: Final = 10_000
_URL: Final = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[A-Za-z0-9._~/%?=&+-]*)?")
#: Checks of a small model's answer.
CHECKS: Final = ("finish", "tools", "schema")


class SmallFirstMode(StrEnum):
    """The way to choose the calls that go to the small model."""

    ROUTER = "router"  #: Those of which it is proved that they lose little.
    CASCADE = "cascade"  #: All; an answer that fails a check is given by the other model.


class SmallFirst(msgspec.Struct, frozen=True, kw_only=True):
    """Lets calls go to a small model as far as the loss against the one asked for is proved small.

    Attributes:
        mode: The way to choose the calls that go to the small model.
        small: The public name of the small model.
        judge: That of the model which compares answers; "" for the one asked for.
        max_loss: Answers that may be lost, as a share of the calls of a team under the rule.
        judged_share: The share of calls whose two answers are compared at most.
        judge_error: The share of comparisons that is wrong, as long as little is known of it.
        checks: Checks that a small model's whole answer must pass, or the other model answers.
        min_margin: The least mean lead in log-probability of its tokens; None to ask none.
        pattern: A pattern that its text must hold; "" for none.
        check_url: The address of the team's own service that accepts answers; "" for none.
        check_ms: Milliseconds that it has.
    """

    name: str
    team: str = EVERY
    feature: str = EVERY
    mode: SmallFirstMode = SmallFirstMode.ROUTER
    small: str = ""
    judge: str = ""
    max_loss: float = 0.01
    judged_share: float = 0.1
    judge_error: float = 0.1
    checks: tuple[str, ...] = ()
    min_margin: float | None = None
    pattern: str = ""
    check_url: str = ""
    check_ms: int = 300

    @property
    def has_checks(self) -> bool:
        """True if whole answers are checked before they are given."""
        return bool(self.checks or self.pattern or self.check_url) or self.min_margin is not None

    def applies_to(self, team: str, feature: str) -> bool:
        """True if it is about calls of this team and feature."""
        return self.team in {EVERY, team} and self.feature in {EVERY, feature}


def small_first(table: TableReader) -> SmallFirst:
    """The rule of a table, with stand-ins where it has problems."""
    rule = SmallFirst(**read_fields(table, FIELDS))
    if rule.mode is SmallFirstMode.CASCADE and not rule.has_checks:
        table.add_problem("mode", "is a cascade without a check", 'add checks = ["finish"]')
    return rule


def _margin(table: TableReader, field: Field) -> float | None:
    value = table.nodes[field.key].value
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if is_number and 0 <= value <= 100:
        return float(value)
    table.add_problem(field.key, f"is {describe_value(value)}", "write 0 to 100, such as 1.5")
    return None


def _url(table: TableReader, field: Field) -> str | None:
    url = table.get(field.key, str)
    if url is not None and not _URL.fullmatch(url):
        fix = 'write an address without a user, such as "https://checks.example.com/support"'
        table.add_problem(field.key, f"is {describe_value(url)}", fix)
        return None
    return url


def _milliseconds(table: TableReader, field: Field) -> int | None:
    deadline = table.get(field.key, int)
    if deadline is not None and not 1 <= deadline <= _MAX_CHECK_MS:
        fix = f"write 1 to {_MAX_CHECK_MS:,} milliseconds"
        table.add_problem(field.key, f"is {deadline}", fix)
        return None
    return deadline


FIELDS: Final = (
    name_field("support-small-first"),
    TEAM,
    FEATURE,
    Field(
        "small",
        str,
        "",
        "public name of the small model",
        missing='write small = "gpt-5.4-mini"',
        example="gpt-5.4-mini",
    ),
    Field(
        "mode",
        SmallFirstMode,
        SmallFirstMode.ROUTER,
        "`router`: calls whose loss is proved small; `cascade`: each call whose answer is checked",
    ),
    Field("judge", str, "", "model that compares answers; none: the one asked for"),
    Field(
        "max_loss",
        share,
        0.01,
        "share of a team's calls under the rule that may get a worse answer",
        shown='`"1%"`',
        example="1%",
    ),
    Field(
        "judged_share",
        share,
        0.1,
        "share of calls whose two answers are compared at most",
        shown='`"10%"`',
        example="10%",
    ),
    Field(
        "judge_error",
        share,
        0.1,
        "share of comparisons that is wrong, until it is estimated from both orders",
        shown='`"10%"`',
        example="10%",
    ),
    Field(
        "checks",
        list_of(CHECKS),
        (),
        "of whole answers to chat calls: `finish`, `tools`, `schema`; one that fails is not given",
    ),
    Field(
        "min_margin",
        _margin,
        None,
        "the same: least mean lead of its tokens in log-probability; without any, it fails",
    ),
    Field("pattern", str, "", "the same: a pattern its text must hold, without look-around"),
    Field("check_url", _url, "", "the same: your own service, which is asked once all else passes"),
    Field("check_ms", _milliseconds, 300, "milliseconds that `check_url` has, 1 to 10,000"),
)
