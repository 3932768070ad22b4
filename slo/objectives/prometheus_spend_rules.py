"""Rules for Prometheus on budgets and prefix caches, beside those of objectives.

Budgets alert at the percents that they name, as the gateway does itself. Caches alert where a
feature's hit rate falls to half of the day before, and where what is written is hardly read.
"""

from collections.abc import Iterable
from typing import Any, Final

from slo.alert import RULE_NAMES, budget_severity
from slo.budgets.budget import LABEL_PREFIX, Budget

BUDGET_ALERT_NAME: Final = RULE_NAMES["budget"]
DRIFT_ALERT_NAME: Final = RULE_NAMES["drift"]
FORGOTTEN_ALERT_NAME: Final = "ThriftgateBudgetCountersForgotten"
HIT_RATE_ALERT_NAME: Final = "ThriftgateHitRateFell"
WRITES_ALERT_NAME: Final = "ThriftgateCacheWritesUnread"
HIT_RATE_RECORD: Final = "thriftgate:cache_hit:ratio"
PROMPT_RECORD: Final = "thriftgate:prompt_tokens:increase"
#: Part of a budget's limit that its counters may lack against the ledger.
_MAX_DRIFT: Final = 0.05
#: Prompt tokens of a feature in an hour below which its hit rate says nothing.
_MIN_PROMPT_TOKENS: Final = 100_000
#: Hit rate of the day before from which half of it is worth an alert.
_MIN_HIT_RATE: Final = 0.2
#: Reads of a written token below which writing costs more than it saves: a write for five minutes
#: costs 0.25 of the input price more, and a read saves 0.9 of it (Anthropic's prices, 2026-01).
_MIN_READS: Final = 0.25 / 0.9
_BY: Final = "by (team, feature)"

Rule = dict[str, Any]


def spend_groups(budgets: Iterable[Budget]) -> list[dict[str, Any]]:
    """The groups of a rules file: one for budgets where there are any, and one for caches.

    Budgets by a label have no rule: they are not compared with the ledger, so no metric shows them.
    """
    shown = [budget for budget in budgets if not budget.scope.startswith(LABEL_PREFIX)]
    groups = [{"name": "thriftgate-caches", "rules": _cache_rules()}]
    if shown:
        groups.insert(0, {"name": "thriftgate-budgets", "rules": _budget_rules(shown)})
    return groups


def _budget_rules(budgets: Iterable[Budget]) -> list[Rule]:
    spent = [
        _spent_rule(budget, percent) for budget in budgets for percent in sorted(budget.alerts)
    ]
    return [*spent, _drift_rule(), _forgotten_rule()]


def _spent_rule(budget: Budget, percent: int) -> Rule:
    """An alert at a percent, which ends where the next one begins or the window does."""
    of = f"{{budget={quoted_text(budget.name)}}}"
    ratio = f"max by (budget, unit) (thriftgate_budget_fullest_ratio{of})"
    higher = [threshold for threshold in sorted(budget.alerts) if threshold > percent]
    below = f" < {higher[0] / 100:g}" if higher else ""
    return {
        "alert": BUDGET_ALERT_NAME,
        "expr": f"{ratio} >= {percent / 100:g}{below}",
        "labels": {
            "severity": str(budget_severity(budget, percent)),
            "percent": str(percent),
            # Rules of two budgets with equal percents would else be duplicates.
            "budget": escape_text(budget.name),
        },
        "annotations": {
            "summary": escape_text(
                f"{percent} % of the budget {budget.name} is spent by one counter"
            ),
            "description": "Spent: {{ $value | humanizePercentage }}. See thriftgate budgets.",
        },
    }


def _drift_rule() -> Rule:
    drift, limit = (
        f"max by (budget, unit) (thriftgate_budget_{gauge})" for gauge in ("drift", "limit")
    )
    return {
        "alert": DRIFT_ALERT_NAME,
        "expr": f"{drift} / {limit} > {_MAX_DRIFT:g}",
        "for": "15m",
        "labels": {"severity": "ticket"},
        "annotations": {
            "summary": "{{ $labels.budget }}: its counters lack what the ledger knows",
            "description": "Missing: {{ $value | humanizePercentage }} of the limit.",
        },
    }


def _forgotten_rule() -> Rule:
    return {
        "alert": FORGOTTEN_ALERT_NAME,
        "expr": "sum(increase(thriftgate_budget_counters_forgotten_total[1h])) > 0",
        "labels": {"severity": "ticket"},
        "annotations": {
            "summary": "Budget counters began again at 0 before their windows had ended",
            "description": "Name a shared Redis by THRIFTGATE_REDIS_URL: it has no such bound.",
        },
    }


def _cache_rules() -> list[Rule]:
    return [*_cache_records("1h"), *_cache_records("1d"), _hit_rate_rule(), _writes_rule()]


def _cache_records(window: str) -> list[Rule]:
    """Prompt tokens, and the part of them read from caches, by team and feature."""
    prompt = _tokens("input|cache_read|cache_write", window)
    read = _tokens("cache_read", window)
    return [
        {"record": f"{PROMPT_RECORD}{window}", "expr": prompt},
        {"record": f"{HIT_RATE_RECORD}{window}", "expr": f"{read} / {PROMPT_RECORD}{window}"},
    ]


def _hit_rate_rule() -> Rule:
    day_before = f"{HIT_RATE_RECORD}1d offset 1h"
    return {
        "alert": HIT_RATE_ALERT_NAME,
        "expr": (
            f"{HIT_RATE_RECORD}1h < 0.5 * ({day_before})\n"
            f"and ({day_before}) >= {_MIN_HIT_RATE:g}\n"
            f"and {PROMPT_RECORD}1h >= {_MIN_PROMPT_TOKENS}"
        ),
        "for": "15m",
        "labels": {"severity": "ticket"},
        "annotations": {
            "summary": "{{ $labels.team }}, {{ $labels.feature }}: the hit rate fell to under half",
            "description": (
                "Now: {{ $value | humanizePercentage }}. thriftgate misses names the reasons."
            ),
        },
    }


def _writes_rule() -> Rule:
    read, written = _tokens("cache_read", "6h"), _tokens("cache_write", "6h")
    return {
        "alert": WRITES_ALERT_NAME,
        "expr": (f"{read} / {written} < {_MIN_READS:.3g}\nand {written} >= {_MIN_PROMPT_TOKENS}"),
        "for": "30m",
        "labels": {"severity": "ticket"},
        "annotations": {
            "summary": "{{ $labels.team }}, {{ $labels.feature }}: cache writes are hardly read",
            "description": "Reads of a written token: {{ $value | humanize }}.",
        },
    }


def _tokens(buckets: str, window: str) -> str:
    matcher = f'bucket=~"{buckets}"' if "|" in buckets else f'bucket="{buckets}"'
    return f"sum {_BY} (increase(thriftgate_tokens_total{{{matcher}}}[{window}]))"


def escape_text(text: str) -> str:
    """The text as it stands in an annotation or a label of an alert, which are templates."""
    return text.replace("{{", '{{ "{{" }}')


def quoted_text(name: str) -> str:
    """A name as a quoted value of a label."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
