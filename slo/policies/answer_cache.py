"""The answer caches of a policies file: which features' calls may be answered again from memory."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from slo.budgets.budget import EVERY
from slo.policies.entries import FEATURE, TEAM, duration, name_field, share
from slo.toml.fields import Field, flag, read_fields
from slo.toml.table_reader import TableReader, describe_value

#: Seconds for which an answer is kept where the file does not say, and the longest it may say.
_DEFAULT_TTL_S: Final = 3_600.0
MAX_TTL_S: Final = 30 * 86_400.0
_DEFAULT_MAX_WRONG: Final = 0.005
_MAX_IGNORED_FIELDS: Final = 20
#: Names of a body's fields, from the outside in, with dots between them.
_FIELD_PATH: Final = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}")
#: Fields without which two calls may ask for different things.
_NEVER_IGNORED: Final = frozenset({"input", "messages", "model", "prompt", "stream"})


class AnswerCachePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Lets the calls of a team's feature be answered by answers given before to equal calls.

    Attributes:
        ttl: Seconds for which an answer may be given again.
        reusable: True if all answers of the feature may be, not only those that a call asks to
            repeat.
        ignore_fields: Fields of a body, from the outside in, that make no call another one.
        similar: True if answers to similar questions may be given, once that is proved to be right.
        max_wrong: Share of those answers that may be wrong.
        show_wrong: True if texts of wrong ones may be kept, to be shown to those who may see calls.
    """

    name: str
    team: str = EVERY
    feature: str = EVERY
    ttl: float = _DEFAULT_TTL_S
    reusable: bool = False
    ignore_fields: tuple[tuple[str, ...], ...] = ()
    similar: bool = False
    max_wrong: float = _DEFAULT_MAX_WRONG
    show_wrong: bool = False

    def covers(self, team: str, feature: str) -> bool:
        """True if it is about calls of this team and feature."""
        return self.team in {EVERY, team} and self.feature in {EVERY, feature}


def answer_cache(table: TableReader) -> AnswerCachePolicy:
    """The policy of a table, with stand-ins where it has problems."""
    return AnswerCachePolicy(**read_fields(table, FIELDS))


def answer_cache_of(
    policies: Iterable[AnswerCachePolicy], team: str, feature: str
) -> AnswerCachePolicy | None:
    """The first of the policies that is about calls of this team and feature; None for none.

    One that keeps no answer at all stands for none.
    """
    first = next((policy for policy in policies if policy.covers(team, feature)), None)
    return first if first is not None and first.ttl else None


def _ttl(table: TableReader, field: Field) -> float | None:
    seconds = duration(table, field)
    if seconds is not None and not 0 < seconds <= MAX_TTL_S:
        fix = "write more than 0s and at most 30d"
        table.add_problem(field.key, f"is {describe_value(table.nodes[field.key].value)}", fix)
        return None
    return seconds


def _ignored_fields(table: TableReader, field: Field) -> tuple[tuple[str, ...], ...]:
    nodes = table.elements(field.key)
    paths = [node.value for node in nodes]
    names = [path for path in paths if isinstance(path, str) and _FIELD_PATH.fullmatch(path)]
    if not len(set(names)) == len(paths) <= _MAX_IGNORED_FIELDS:
        fix = f'write up to {_MAX_IGNORED_FIELDS} fields, each once: ["metadata.request_id"]'
        table.add_problem(field.key, "is no list of fields", fix)
    for name in sorted(_NEVER_IGNORED.intersection(names)):
        table.add_problem(field.key, f"has {name}, which makes two calls different", "take it out")
    return tuple(sorted(tuple(name.split(".")) for name in names if name not in _NEVER_IGNORED))


FIELDS: Final = (
    name_field("faq-answers"),
    TEAM,
    FEATURE,
    Field(
        "ttl",
        _ttl,
        _DEFAULT_TTL_S,
        "how long an answer may be given again, at most `30d`",
        shown='`"1h"`',
        example="1h",
    ),
    flag(
        "reusable",
        "`true`: every answer of the feature may be given again; `false`: of calls with"
        " `temperature` 0 or a `seed`, and of embeddings",
        default=False,
    ),
    Field(
        "ignore_fields",
        _ignored_fields,
        (),
        "up to 20 fields of bodies that differ between equal calls, such as"
        ' `["metadata.request_id"]`',
    ),
    flag(
        "similar",
        "`true`: also the answer to a similar question, from the score on at which at most"
        " `max_wrong` of such answers are proved to be wrong; needs answers that repeat, such as"
        " classes",
        default=False,
    ),
    Field(
        "max_wrong",
        share,
        _DEFAULT_MAX_WRONG,
        "share of answers to similar questions that may be wrong; a larger one is proved sooner",
        shown='`"0.5%"`',
        example="0.5%",
    ),
    flag(
        "show_wrong",
        "`true`: the page *Fast path* shows questions and answers of the last 20 wrong hits to"
        " those who may see calls; they stay in memory",
        default=False,
    ),
)
