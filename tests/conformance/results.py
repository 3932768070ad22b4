"""Outcomes of the SDK's tests, by test, and a table of both runs."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

PASSED, SKIPPED = "passed", "skipped"
#: Failures and endpoints that are named; the rest is counted.
SHOWN = 40


@dataclass(frozen=True, slots=True)
class SuiteComparison:
    """Both runs of the same tests.

    Attributes:
        direct: "passed", "skipped" or the failure, by test, against the upstream itself.
        through: The same, through the gateway.
        default: The same, through a gateway with default settings.
        changed: Requests that reached the upstream otherwise, by endpoint.
    """

    direct: dict[str, str]
    through: dict[str, str]
    default: dict[str, str]
    changed: Counter[str]

    @property
    def share(self) -> float:
        """Percent of what passes without the gateway that passes through it; 0 without any."""
        return self._share_of(self.through)

    @property
    def default_share(self) -> float:
        """The same, of a gateway with default settings."""
        return self._share_of(self.default)

    def _share_of(self, outcomes: dict[str, str]) -> float:
        passed = [test for test, outcome in self.direct.items() if outcome == PASSED]
        passing = sum(outcomes.get(test) == PASSED for test in passed)
        return 100 * passing / len(passed) if passed else 0.0

    @property
    def lost(self) -> dict[str, str]:
        """Tests that fail only through the gateway, and their outcomes."""
        return {
            test: self.through.get(test, "did not run")
            for test, outcome in self.direct.items()
            if outcome == PASSED and self.through.get(test) != PASSED
        }

    def table(self) -> str:
        """The table that is printed: by group of resources, then what was lost."""
        groups = sorted({_group(test) for test in self.direct})
        lines = [f"{'':16}{'tests':>8}{'direct':>8}{'through':>8}{'lost':>6}"]
        for name in [*groups, "all"]:
            tests = [t for t in self.direct if name in {"all", _group(t)}]
            tests = [t for t in tests if self.direct[t] != SKIPPED]
            direct = sum(self.direct[t] == PASSED for t in tests)
            through = sum(self.through.get(t) == PASSED for t in tests)
            lost = sum(t in self.lost for t in tests)
            lines.append(f"{name:16}{len(tests):8}{direct:8}{through:8}{lost:6}")
        failed = {t: o for t, o in self.direct.items() if o not in {PASSED, SKIPPED}}
        lines += [
            "",
            (
                f"{self.share:.2f} % of what passes direct passes through the gateway,"
                f" {self.default_share:.2f} % under default settings."
            ),
        ]
        lines += _list_items("Fails only through the gateway:", self.lost)
        lines += _list_items("Fails direct, so it counts for neither:", failed)
        changes = {name: f"{count} requests" for name, count in self.changed.most_common()}
        lines += _list_items("Reached the upstream otherwise than it was sent:", changes)
        return "\n".join(lines)


def outcomes(report: Path) -> dict[str, str]:
    """The outcome of each test in a JUnit report."""
    by_test: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own file
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        kinds = {child.tag: child.get("message", "") for child in case}
        if "skipped" in kinds:
            by_test[name] = SKIPPED
        elif broken := kinds.get("failure", kinds.get("error")):
            by_test[name] = " ".join(broken.split())[:300]
        else:
            by_test[name] = "failed" if {"failure", "error"} & kinds.keys() else PASSED
    return by_test


def changed_requests(direct: Path, through: Path) -> Counter[str]:
    """Endpoints of requests that arrived only without the gateway, and how many."""
    sent, arrived = (_requests(log) for log in (direct, through))
    return Counter(f"{method} {path}" for method, path, *_ in sent - arrived)


def _requests(log: Path) -> set[tuple[str, ...]]:
    if not log.exists():
        return set()
    return {tuple(json.loads(line)) for line in log.read_text(encoding="utf8").splitlines()}


def _group(test: str) -> str:
    """The first folder or file below the suite's root."""
    steps = test.partition("::")[0].split(".")
    return steps[2].removeprefix("test_") if len(steps) > 2 else test


def _list_items(title: str, items: dict[str, str]) -> list[str]:
    if not items:
        return []
    shown = [f"  {name}: {text}" for name, text in list(items.items())[:SHOWN]]
    more = [f"  … and {len(items) - SHOWN} more"] if len(items) > SHOWN else []
    return ["", title, *shown, *more]
