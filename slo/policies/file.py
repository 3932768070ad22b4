"""The whole policies file; each kind of table has a module beside this one.

``KINDS`` describes each kind once: the file's reader, ``thriftgate check``, the log of a reload,
the page of settings and warnings about teams read it. A new kind is a module, a field of
``Policies`` and a row of ``KINDS``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from slo.budgets.budget import Budget
from slo.budgets.ceiling import Ceiling
from slo.objectives import ladder_levels
from slo.objectives.objective import Objective
from slo.policies import answer_cache as answer_caches
from slo.policies import budgets, ceilings, contexts, drafts, objectives, reports, sinks
from slo.policies import residency as residency_rules
from slo.policies import small_first as small_first_rules
from slo.policies import stream_continuation as continuation_rules
from slo.policies.answer_cache import AnswerCachePolicy
from slo.policies.contexts import ContextPolicy
from slo.policies.drafts import DraftRule
from slo.policies.entries import read_entries
from slo.policies.reports import ScheduledReport, TagRule
from slo.policies.residency import Residency
from slo.policies.sinks import Sink
from slo.policies.small_first import SmallFirst
from slo.policies.stream_continuation import StreamContinuation
from slo.toml.fields import Field
from slo.toml.nodes import Node
from slo.toml.problems import InvalidFile, Problem
from slo.toml.table_reader import TableReader


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of each kind, in the file's order."""

    budgets: tuple[Budget, ...] = ()
    objectives: tuple[Objective, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    sinks: tuple[Sink, ...] = ()
    residency: tuple[Residency, ...] = ()
    reports: tuple[ScheduledReport, ...] = ()
    contexts: tuple[ContextPolicy, ...] = ()
    stream_continuation: tuple[StreamContinuation, ...] = ()
    answer_cache: tuple[AnswerCachePolicy, ...] = ()
    small_first: tuple[SmallFirst, ...] = ()
    drafts: tuple[DraftRule, ...] = ()
    tags: tuple[TagRule, ...] = ()


class PolicyKind(NamedTuple):
    """A kind of policy.

    Attributes:
        array: Name of its array of tables in the file, and of its field of ``Policies``.
        noun: Word for one of them, whose plural ends in s.
        read: The policy of a table, with stand-ins where it has problems.
    """

    array: str
    noun: str
    fields: tuple[Field, ...]
    read: Callable[[TableReader], Any]


KINDS: Final = (
    PolicyKind("budgets", "budget", budgets.FIELDS, budgets.budget),
    PolicyKind("ceilings", "ceiling", ceilings.FIELDS, ceilings.ceiling),
    PolicyKind("objectives", "objective", objectives.FIELDS, objectives.objective),
    PolicyKind("sinks", "sink", sinks.FIELDS, sinks.sink),
    PolicyKind("residency", "residency rule", residency_rules.FIELDS, residency_rules.residency),
    PolicyKind("reports", "report", reports.FIELDS, reports.report),
    PolicyKind("contexts", "context", contexts.FIELDS, contexts.context_policy),
    PolicyKind(
        "stream_continuation",
        "stream continuation",
        continuation_rules.FIELDS,
        continuation_rules.stream_continuation,
    ),
    PolicyKind("answer_cache", "answer cache", answer_caches.FIELDS, answer_caches.answer_cache),
    PolicyKind(
        "small_first", "small-first rule", small_first_rules.FIELDS, small_first_rules.small_first
    ),
    PolicyKind("drafts", "draft rule", drafts.FIELDS, drafts.draft_rule),
    PolicyKind("tags", "tag rule", reports.TAG_FIELDS, reports.tag_rule),
)


def policies_by_kind(policies: Policies) -> Mapping[PolicyKind, tuple[Any, ...]]:
    """The policies of each kind, in the order of ``KINDS``."""
    return {kind: getattr(policies, kind.array) for kind in KINDS}


def read(top: Node) -> Policies:
    """The policies of a file.

    Raises:
        InvalidFile: With every problem found.
    """
    problems: list[Problem] = []
    table = TableReader(top, [kind.array for kind in KINDS], problems)
    entries = {kind: read_entries(table, kind.array, kind.fields, kind.read) for kind in KINDS}
    if problems:
        raise InvalidFile(problems)
    return Policies(**{kind.array: policies for kind, policies in entries.items()})


def models(top: Node) -> Iterator[Node]:
    """The models that ladders, ceilings, small-first and draft rules name."""
    for node in _names(top, "objectives", "ladder"):
        if ladder_levels.is_model(node.value):
            yield node
    yield from _names(top, "ceilings", "cheaper")
    for entry in top.value["small_first"].value if "small_first" in top.value else ():
        yield from (entry.value[key] for key in ("small", "judge") if key in entry.value)
    for entry in top.value["drafts"].value if "drafts" in top.value else ():
        if "model" in entry.value:
            yield entry.value["model"]


def _names(top: Node, kind: str, key: str) -> Iterator[Node]:
    """All values that the entries of a kind hold in an array."""
    for entry in top.value[kind].value if kind in top.value else ():
        if key in entry.value:
            yield from entry.value[key].value
