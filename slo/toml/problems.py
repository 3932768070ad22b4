"""Problems of a file: where, what, and how to fix it."""

from collections.abc import Iterable
from dataclasses import dataclass

#: Problems shown of one run over the files; the rest is counted.
MAX_PROBLEMS_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a file.

    Attributes:
        line: From 1.
        where: The dotted name of the entry, such as ``models.gpt-5.5.price.input`` or
            ``budgets.assistants-month.limit``; "" for the whole file.
        what: The mistake, as the rest of a sentence about ``where``.
        fix: The remedy, as an imperative.
        warning: True if the file can be used all the same.
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


class InvalidFile(Exception):
    """A file of the operator's cannot be used.

    Attributes:
        problems: Every problem found, warnings included, by file and line.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = _by_line(problems)
        super().__init__(report(self.problems))


def report(problems: Iterable[Problem]) -> str:
    """One line per problem, by file and line; of very many the first."""
    ordered = _by_line(problems)
    lines = [str(problem) for problem in ordered[:MAX_PROBLEMS_SHOWN]]
    if len(ordered) > MAX_PROBLEMS_SHOWN:
        lines.append(f"and {len(ordered) - MAX_PROBLEMS_SHOWN} more")
    return "\n".join(lines)


def _by_line(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda problem: (problem.file, problem.line)))
