"""The headline of savings in sentences, exact to the last digit, for pages, terminals and mails."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from dashboards.fast_path_savings import fast_path_sentence
from dashboards.savings_headline import SavingsHeadline, StepName, UncountedSaving
from slo.alert import format_amount, single_line
from slo.budgets.budget import BudgetUnit

_MAX_NAME_CHARS: Final = 80
_MAX_REASON_CHARS: Final = 300
_IN_SENTENCES: Final[Mapping[StepName, str]] = {
    "planning": "planning",
    "compaction": "compaction",
    "fast_path": "the fast path",
    "routing": "routing and lost attempts",
    "running": "running the gateway",
}


def headline_sentences(headline: SavingsHeadline) -> list[str]:
    """The headline for terminals and mails, exact to the last digit; [] where no step is its."""
    is_empty = not any(step.nanos for step in headline.steps if step.is_own)
    is_empty = is_empty and not headline.uncounted and not headline.fallback_nanos
    if headline.saved_share is None or is_empty:
        return []
    verb = "Saved" if headline.saved_nanos >= 0 else "Lost"
    share = f"{abs(headline.saved_share):.1%}"
    saved, paid, direct = map(
        _exact, (abs(headline.saved_nanos), headline.paid_nanos, headline.direct_nanos)
    )
    sureness = "" if headline.is_measured else ", by estimate"
    running = f" and {_exact(headline.running_nanos)} to run" if headline.running_nanos else ""
    amounts = f"{paid}{running} in place of {direct}{sureness}"
    lines = [f"{verb} {saved} ({share}) against sending directly: {amounts}."]
    parts = [
        f"{_IN_SENTENCES[step.name]} {_exact(-step.nanos)} ({step.sureness})"
        for step in headline.steps
        if step.is_own and step.nanos
    ]
    if parts:
        whole = "the sum of " if len(parts) > 1 else ""
        lines.append(f"It is {whole}{', '.join(parts)}.")
    if headline.fast_path:
        lines.append(f"{fast_path_sentence(headline.fast_path)}.")
    if headline.is_measured:
        low, high = _exact(headline.saved_low_nanos), _exact(headline.saved_high_nanos)
        measured = datetime.fromtimestamp(headline.measured_at or 0.0, UTC)
        compared = f" compared at {measured:%Y-%m-%d %H:%M} UTC" if headline.measured_at else ""
        lines.append(f"By control arms{compared}, 95 % sure to lie between {low} and {high}.")
    if headline.fallback_nanos:
        lines.append(fallback_sentence(headline.fallback_nanos))
    return [*lines, *map(uncounted_sentence, headline.uncounted)]


def fallback_sentence(nanos: int) -> str:
    """The amount that fallbacks cost less, or more, which counts as no saving."""
    if nanos < 0:
        return f"Fallbacks to dearer models: cost {_exact(-nanos)} more by estimate, not counted."
    amount = f"cost {_exact(nanos)} less by estimate"
    return f"Fallbacks to cheaper models: {amount}, not counted as saved."


def quality_sentence(headline: SavingsHeadline, lost: float | None, wrong: float | None) -> str:
    """The quality of answers that were cheaper than what was asked for; "" where none was.

    Args:
        lost: The share of answers that small models lost at most; None where none were compared.
        wrong: The share of answers to similar questions that were wrong at most; None if none were
            given.
    """
    parts = {saving.part for saving in headline.fast_path}
    ceilings = sum(step.nanos for step in headline.steps if step.name == "routing") < 0
    bounds = []
    if "small" in parts:
        bounds.append(f"small models {_bound('of answers lost', lost)}")
    if "cache" in parts:
        bounds.append("equal calls got an answer given before")
        bounds += (
            [f"answers to similar questions {_bound('wrong', wrong)}"] if wrong is not None else []
        )
    if ceilings:
        bounds.append(f"cheaper models that ceilings chose {_bound('', None)}")
    if headline.fallback_nanos > 0:
        bounds.append(f"fallbacks {_bound('', None)}")
    return f"Quality of cheaper answers: {'; '.join(bounds)}." if bounds else ""


def _bound(fault: str, share: float | None) -> str:
    return "not measured" if share is None else f"at most {share:.2%} {fault}".replace("%", " %")


def uncounted_sentence(saving: UncountedSaving) -> str:
    """A feature that counts 0, and the reason, in a sentence."""
    feature, team, why = (
        single_line(text, most)
        for text, most in (
            (saving.feature or "(none)", _MAX_NAME_CHARS),
            (saving.team_name, _MAX_NAME_CHARS),
            (saving.why, _MAX_REASON_CHARS),
        )
    )
    nanos = _exact(saving.nanos)
    return f"Not counted: {saving.part} of {feature} ({team}), {nanos} by estimate; {why}."


def _exact(nanos: int) -> str:
    return format_amount(BudgetUnit.USD, nanos)
