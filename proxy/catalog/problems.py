"""Problems of a catalog: where, what, and how to fix it."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a catalog file.

    Attributes:
        file: Its name, as the reader knows it.
        line: From 1.
        where: The dotted name of the entry, such as ``models.gpt-5.5.price.input``.
        what: Defect, as the rest of a sentence about ``where``.
        fix: Fix, as an imperative sentence.
        warning: True if the catalog can be used all the same.
    """

    file: str
    line: int
    where: str
    what: str
    fix: str
    warning: bool = False

    def __str__(self) -> str:
        """One line: ``catalog.toml:14: models.gpt-x.price.input: is a float; write "2.50"``."""
        kind = "warning: " if self.warning else ""
        subject = f"{self.where}: " if self.where else ""
        return f"{self.file}:{self.line}: {kind}{subject}{self.what}; {self.fix}"


class BadCatalog(Exception):
    """The catalog cannot be used; carries every problem found, warnings included."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(report(self.problems))


def report(problems: Iterable[Problem]) -> str:
    """One line per problem, by file and line."""
    return "\n".join(map(str, sorted(problems, key=lambda problem: (problem.file, problem.line))))
