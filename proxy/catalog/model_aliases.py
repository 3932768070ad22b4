"""Model aliases: names that mean another model of the catalog for one team's calls."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from proxy.catalog.families import MAX_NAME_LENGTH, MODEL_NAME
from proxy.catalog.predecessors import SNAPSHOT
from slo.toml.nodes import Node
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader, checked_choice

#: Stands for the teams that have no table of their own.
EVERY_TEAM: Final = "*"
_TEAM: Final = ("model_aliases",)


@dataclass(frozen=True, slots=True)
class ModelAliases:
    """The aliases of a team.

    Attributes:
        targets: Listed models by the name that means them, in the order they were written; ``*``
            in a name is any text.
    """

    targets: Mapping[str, str] = field(default_factory=dict)
    _patterns: tuple[tuple[re.Pattern[str], str], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compile the patterns."""
        patterns = tuple(
            (re.compile(".*".join(map(re.escape, name.split("*")))), target)
            for name, target in self.targets.items()
            if "*" in name
        )
        object.__setattr__(self, "_patterns", patterns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are no pattern."""
        return tuple(name for name in self.targets if "*" not in name)

    def target(self, name: str) -> str:
        """The model that the name means; "" where it is no alias.

        The name itself goes first, then the model of which it names a dated snapshot, then the
        first pattern that matches. A name that is longer than a model's is none.
        """
        if not self.targets or len(name) > MAX_NAME_LENGTH:
            return ""
        if (target := self.targets.get(name)) is not None:
            return target
        if (snapshot := SNAPSHOT.search(name)) and (
            target := self.targets.get(name[: snapshot.start()])
        ):
            return target
        return next((to for pattern, to in self._patterns if pattern.fullmatch(name)), "")


def read_aliases(
    files: Sequence[TableReader], models: Collection[str]
) -> Mapping[str, ModelAliases]:
    """The aliases of all files by the team's name, later files over earlier ones.

    Args:
        files: Each with its own problems, to which those found here are added.
    """
    merged: dict[str, dict[str, Node]] = {}
    for file in files:
        for team, node in file.entries("teams").items():
            table = TableReader(node, _TEAM, file.problems)
            merged.setdefault(team, {}).update(table.entries(_TEAM[0]))
    problems = files[0].problems
    return {team: _team_aliases(nodes, models, problems) for team, nodes in merged.items()}


def _team_aliases(
    nodes: Mapping[str, Node], models: Collection[str], problems: list[Problem]
) -> ModelAliases:
    """The aliases of one team, checked."""
    targets: dict[str, str] = {}
    for name, node in nodes.items():
        if not MODEL_NAME.fullmatch(name):
            fix = "write at most 256 ASCII characters without spaces"
            problems.append(node.problem("is no name of a model", fix))
        elif target := checked_choice(node, models, problems):
            targets[name] = target
    aliases = ModelAliases(targets)
    problems.extend(_alias_chains(nodes, aliases))
    return aliases


def _alias_chains(nodes: Mapping[str, Node], aliases: ModelAliases) -> Iterator[Problem]:
    """A problem for each alias of a name that means another model: aliases are not followed."""
    for name, target in aliases.targets.items():
        further = aliases.target(target)
        if further in {"", target}:
            continue
        path, last = [target], further
        while last and last not in path:
            path.append(last)
            last = aliases.target(last)
        if last and last != path[-1]:
            what = f"is part of a cycle: {' → '.join([*path, last])}"
            fix = f'name a model that is no alias, or write "{target}" = "{target}" beside it'
        else:
            what = f'names "{target}", which is an alias of "{path[-1]}"'
            fix = f'write "{path[-1]}", or "{target}" = "{target}" beside it'
        yield nodes[name].problem(what, fix)
