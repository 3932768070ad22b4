"""The boards of money: cost, budgets and compaction; pure."""

from typing import Final

from dashboards.grafana.panels import (
    Board,
    Panel,
    Query,
    Variable,
    increase,
    rate,
    series,
    stat,
    top,
)

_TEAM: Final = 'team=~"$team"'
_USD: Final = "currencyUSD"
_SHARE: Final = "percentunit"
_HOUR: Final = "3600 * "
_SPEND: Final = "thriftgate_cost_usd_total"
_CALLS: Final = "thriftgate_calls_total"
_TOKENS: Final = "thriftgate_tokens_total"


def cost_board() -> Board:
    """Spend, by team, feature, model and route."""
    return Board(
        name="cost",
        description="What calls cost after the discounts of their routes, from the gateway's "
        "/metrics. The ledger is exact; this follows it within a scrape.",
        variables=(Variable("team", _SPEND),),
        panels=(*_cost_figures(), *_cost_series(), *_token_series()),
    )


def _cost_figures() -> tuple[Panel, ...]:
    spend, calls = increase(_SPEND, _TEAM), increase(_CALLS, _TEAM)
    attempts = increase("thriftgate_attempts_total", _TEAM)
    unpriced = increase("thriftgate_unpriced_total", _TEAM)
    return (
        stat("Spent", "Effective cost in the time shown.", _USD, spend, 2),
        stat("Calls", "Calls in the time shown, however they ended.", "short", calls, 0),
        stat("Cost of a thousand calls", "Spent ÷ calls.", _USD, f"1000 * {spend} / {calls}", 4),
        stat(
            "Attempts of unknown price",
            "Their cost is in no figure here; `thriftgate check` names models without a price.",
            _SHARE,
            f"{unpriced} / {attempts}",
            2,
        ),
    )


def _cost_series() -> tuple[Panel, ...]:
    def hourly(by: str) -> Query:
        return Query(top(10, _HOUR + rate(_SPEND, _TEAM, by)), f"{{{{{by}}}}}")

    return (
        series("Spent an hour, by team", "The ten largest.", _USD, hourly("team"), is_stacked=True),
        series(
            "Spent an hour, by feature",
            "The ten largest; calls that name no feature have an empty one.",
            _USD,
            hourly("feature"),
            is_stacked=True,
        ),
        series(
            "Spent an hour, by model", "The ten largest.", _USD, hourly("model"), is_stacked=True
        ),
        series(
            "Spent an hour, by route", "The ten largest.", _USD, hourly("route"), is_stacked=True
        ),
    )


def _token_series() -> tuple[Panel, ...]:
    return (
        series(
            "Tokens a second",
            "Each token stands in one bucket: plain input, read from or written to a cache, "
            "output, reasoning.",
            "short",
            Query(rate(_TOKENS, _TEAM, "bucket"), "{{bucket}}"),
            is_stacked=True,
        ),
        series(
            "Cost of a million tokens",
            "Of all buckets together, by model.",
            _USD,
            Query(
                f"1e6 * {rate(_SPEND, _TEAM, 'model')} / {rate(_TOKENS, _TEAM, 'model')}",
                "{{model}}",
            ),
        ),
        series(
            "Calls a second, by outcome",
            "Answered, failed, refused and cut short.",
            "reqps",
            Query(rate(_CALLS, _TEAM, "outcome"), "{{outcome}}"),
        ),
        series(
            "Attempts with estimated usage",
            "Share of attempts whose tokens were counted here, as their upstream said none.",
            _SHARE,
            Query(
                f"{rate('thriftgate_estimated_total', _TEAM, 'route')} / "
                f"{rate('thriftgate_attempts_total', _TEAM, 'route')}",
                "{{route}}",
            ),
        ),
    )


def budgets_board() -> Board:
    """Spent parts of budgets, and decisions of ceilings."""
    return Board(
        name="budgets",
        description="Budgets as they were last compared with the ledger, once a minute; and cost "
        "ceilings. Budgets by a label have no figures here.",
        variables=(Variable("budget", "thriftgate_budget_limit"),),
        panels=(*_budget_figures(), *_budget_series(), *_ceiling_series()),
    )


def _budget_figures() -> tuple[Panel, ...]:
    fullest = 'thriftgate_budget_fullest_ratio{budget=~"$budget"}'
    over = f"count(max by (budget) ({fullest}) >= 0.8) or vector(0)"
    refused = increase(_CALLS, 'outcome="refused"')
    forgotten = increase("thriftgate_budget_counters_forgotten_total")
    return (
        stat(
            "Fullest budget",
            "Share of its limit that the fullest counter of any budget has spent.",
            _SHARE,
            f"max({fullest})",
            1,
        ),
        stat("Budgets over 80 %", "Those with a counter over it.", "short", over, 0),
        stat("Refused calls", "By budgets, ceilings, limits and rules.", "short", refused, 0),
        stat(
            "Forgotten counters",
            "Counters that began again at 0 for want of room; a shared Redis has no such bound.",
            "short",
            forgotten,
            0,
        ),
    )


def _budget_series() -> tuple[Panel, ...]:
    of = 'budget=~"$budget"'

    def gauge(metric: str, unit: str = "") -> str:
        where = f'{of},unit="{unit}"' if unit else of
        return f"max by (budget) ({metric}{{{where}}})"

    return (
        series(
            "Spent of the limit",
            "Share of its limit that the fullest counter of each budget has spent.",
            _SHARE,
            Query(gauge("thriftgate_budget_fullest_ratio"), "{{budget}}"),
        ),
        series(
            "Spent in the window, US dollars",
            "Sum of all counters of each budget in dollars.",
            _USD,
            Query(gauge("thriftgate_budget_spent", "usd"), "{{budget}}"),
        ),
        series(
            "Spent in the window, tokens and requests",
            "Sum of all counters of each such budget.",
            "short",
            Query(gauge("thriftgate_budget_spent", "tokens"), "{{budget}}, tokens"),
            Query(gauge("thriftgate_budget_spent", "requests"), "{{budget}}, requests"),
        ),
        series(
            "What counters lack against the ledger",
            "Above 0 the counters lack something, below 0 the ledger is behind.",
            "short",
            Query(
                f"max by (budget, unit) (thriftgate_budget_drift{{{of}}})", "{{budget}}, {{unit}}"
            ),
        ),
    )


def _ceiling_series() -> tuple[Panel, ...]:
    decisions = rate("thriftgate_ceiling_decisions_total", by="ceiling, decision")
    settled = rate("thriftgate_ceiling_calls_total", by="ceiling")
    over = rate("thriftgate_ceiling_calls_total", 'within="no"', "ceiling")
    return (
        series(
            "What ceilings did, a second",
            "Before calls were sent.",
            "reqps",
            Query(decisions, "{{ceiling}}: {{decision}}"),
        ),
        series(
            "Calls above their ceiling",
            "Share of settled calls that cost more than it.",
            _SHARE,
            Query(f"{over} / {settled}", "{{ceiling}}"),
        ),
    )


def compaction_board() -> Board:
    """Savings and costs of compaction."""
    return Board(
        name="compaction",
        description="What compaction saves and costs, from the gateway's /metrics.",
        variables=(Variable("team", "thriftgate_attempts_total"),),
        panels=(*_compaction_figures(), *_compaction_series()),
    )


def _compaction_figures() -> tuple[Panel, ...]:
    gained, paid, notes = (
        increase(f"thriftgate_compaction_{part}_usd_total", _TEAM)
        for part in ("gained", "paid", "notes")
    )
    lost, needed = (
        increase(f"thriftgate_compaction_{part}_values_total", _TEAM) for part in ("lost", "needed")
    )
    features = "thriftgate_compacted_features"
    return (
        stat(
            "Saved by compaction, net",
            "Against the same prompts unmodified; resets and notes are paid for.",
            _USD,
            f"{gained} - {paid} - {notes}",
            4,
        ),
        stat("Its small model", "What the notes of mode facts+model cost.", _USD, notes, 4),
        stat(
            "Features stepped back",
            "Part of the features with a mode of their own that live quality evidence found to "
            "lose too much.",
            _SHARE,
            f'max({features}{{state="stepped_back"}}) / sum(max by (state) ({features}))',
            0,
        ),
        stat(
            "Values lost",
            "Part of the values that tool calls needed of what was compacted and that were not "
            "sent.",
            _SHARE,
            f"{lost} / {needed}",
            2,
        ),
    )


def _compaction_series() -> tuple[Panel, ...]:
    gained, paid, notes = (
        f"thriftgate_compaction_{part}_usd_total" for part in ("gained", "paid", "notes")
    )
    net = " - ".join(rate(metric, _TEAM, "team") for metric in (gained, paid, notes))
    unmodified = rate("thriftgate_uncompacted_attempts_total", _TEAM, "reason")
    return (
        series(
            "Net savings an hour, by team",
            "Below 0 while compactions are being paid back.",
            _USD,
            Query(f"{_HOUR}({net})", "{{team}}"),
        ),
        series(
            "What an hour saved and cost",
            "Gained on calls that became cheaper; paid for resets; paid for notes.",
            _USD,
            Query(_HOUR + rate(gained, _TEAM), "gained"),
            Query(_HOUR + rate(paid, _TEAM), "paid for resets"),
            Query(_HOUR + rate(notes, _TEAM), "paid for notes"),
        ),
        series(
            "Tokens not sent, a second",
            "By estimate, by team.",
            "short",
            Query(rate("thriftgate_compaction_removed_tokens_total", _TEAM, "team"), "{{team}}"),
        ),
        series(
            "Unmodified calls, a second",
            "Of features with a compaction mode, by reason.",
            "reqps",
            Query(top(8, unmodified), "{{reason}}"),
        ),
    )
