"""The boards of service: cache health, latency and objectives; pure."""

from typing import Final

from dashboards.grafana.panels import (
    Board,
    Panel,
    Query,
    Variable,
    heatmap,
    increase,
    quantile,
    quantile_of_range,
    quantiles,
    rate,
    series,
    stat,
    top,
)

_TEAM: Final = 'team=~"$team"'
_SHARE: Final = "percentunit"
_TOKENS: Final = "thriftgate_tokens_total"
_PROMPT: Final = f'{_TEAM},bucket=~"input|cache_read|cache_write"'
_READ: Final = f'{_TEAM},bucket="cache_read"'
_WRITTEN: Final = f'{_TEAM},bucket="cache_write"'
_MISSED: Final = "thriftgate_missed_tokens_total"
_TTFT: Final = "thriftgate_ttft_seconds"
_DURATION: Final = "thriftgate_duration_seconds"


def cache_board() -> Board:
    """Tokens read from caches, and reasons for not more."""
    return Board(
        name="cache-health",
        description="Hit rate is the part of prompt tokens that providers read from a cache, as "
        "they say themselves.",
        variables=(Variable("team", _TOKENS),),
        panels=(*_cache_figures(), *_cache_series()),
    )


def _cache_figures() -> tuple[Panel, ...]:
    prompt, missed = increase(_TOKENS, _PROMPT), increase(_MISSED, _TEAM)
    read, written = increase(_TOKENS, _READ), increase(_TOKENS, _WRITTEN)
    return (
        stat("Hit rate", "Cache-read tokens ÷ prompt tokens.", _SHARE, f"{read} / {prompt}", 1),
        stat(
            "Missed",
            "Prompt tokens that a cache should have known and did not ÷ prompt tokens.",
            _SHARE,
            f"{missed} / {prompt}",
            1,
        ),
        stat("Written", "Cache-write tokens ÷ prompt tokens.", _SHARE, f"{written} / {prompt}", 1),
        stat(
            "Reads of a written token",
            "Below the surcharge's share of the discount, writing costs more than it saves.",
            "short",
            f"{read} / {written}",
            2,
        ),
    )


def _cache_series() -> tuple[Panel, ...]:
    def hit_rate(by: str) -> Query:
        share = f"{rate(_TOKENS, _READ, by)} / {rate(_TOKENS, _PROMPT, by)}"
        return Query(share, f"{{{{{by}}}}}")

    return (
        series("Hit rate, by team", "Tokens read ÷ prompt tokens.", _SHARE, hit_rate("team")),
        series("Hit rate, by feature", "Tokens read ÷ prompt tokens.", _SHARE, hit_rate("feature")),
        series("Hit rate, by model", "Tokens read ÷ prompt tokens.", _SHARE, hit_rate("model")),
        series(
            "Prompt tokens a second",
            "Read from a cache, written to one, neither.",
            "short",
            Query(rate(_TOKENS, _PROMPT, "bucket"), "{{bucket}}"),
            is_stacked=True,
        ),
        series(
            "Missed tokens a second, by reason",
            "`thriftgate misses` prices them, and names features.",
            "short",
            Query(top(8, rate(_MISSED, _TEAM, "reason")), "{{reason}}"),
            is_stacked=True,
        ),
        series(
            "Missed tokens a second, by route",
            "The eight with most.",
            "short",
            Query(top(8, rate(_MISSED, _TEAM, "route")), "{{route}}"),
        ),
    )


def latency_board() -> Board:
    """Times of calls, and objectives that are met or missed."""
    return Board(
        name="latency-and-objectives",
        description="Times are of attempts, from the call's arrival. Objectives, routes and the "
        "gateway's own time are of all teams.",
        variables=(Variable("team", "thriftgate_calls_total"),),
        panels=(*_latency_figures(), *_latency_series(), *_objective_series(), *_route_series()),
    )


def _latency_figures() -> tuple[Panel, ...]:
    failed = increase("thriftgate_calls_total", f'{_TEAM},outcome="failed"')
    calls = increase("thriftgate_calls_total", _TEAM)
    overhead = "thriftgate_overhead_seconds"
    return (
        stat(
            "First byte, p95",
            "95 of 100 attempts begin to answer within it.",
            "s",
            quantile_of_range(0.95, _TTFT, _TEAM),
        ),
        stat(
            "Whole answer, p95",
            "95 of 100 attempts end within it.",
            "s",
            quantile_of_range(0.95, _DURATION, _TEAM),
        ),
        stat("Failed", "Share of calls that failed.", _SHARE, f"{failed} / {calls}", 2),
        stat(
            "Gateway's own time, p99",
            "Time that waits neither for the upstream nor for the caller.",
            "s",
            quantile_of_range(0.99, overhead),
        ),
    )


def _latency_series() -> tuple[Panel, ...]:
    def slowest(histogram: str, by: str) -> Query:
        return Query(top(8, quantile(0.95, histogram, _TEAM, by)), f"{{{{{by}}}}}")

    return (
        series("First byte", "Arrival to the first content byte.", "s", *quantiles(_TTFT, _TEAM)),
        series("Whole answer", "Arrival to the end.", "s", *quantiles(_DURATION, _TEAM)),
        heatmap("First byte, spread", "Attempts by bucket.", _TTFT, _TEAM),
        heatmap("Whole answer, spread", "Attempts by bucket.", _DURATION, _TEAM),
        series("First byte, p95 by route", "The eight slowest.", "s", slowest(_TTFT, "route")),
        series("First byte, p95 by feature", "The eight slowest.", "s", slowest(_TTFT, "feature")),
    )


def _objective_series() -> tuple[Panel, ...]:
    good, bad = (
        rate(f"thriftgate_objective_{kind}_total", by="objective") for kind in ("good", "bad")
    )
    level = "max by (objective) (thriftgate_objective_level)"
    fell_back = rate("thriftgate_fallback_calls_total", by="objective, level")
    would = rate("thriftgate_unenforced_fallback_calls_total", by="objective, level")
    missed = 'max by (objective) (thriftgate_objective_state{state="missed"})'
    late = rate("thriftgate_objective_late_stage_total", by="objective, stage")
    return (
        series(
            "Bad events",
            "Share of the events of each objective; a cache's are tokens.",
            _SHARE,
            Query(f"{bad} / ({good} + {bad})", "{{objective}}"),
        ),
        Panel(
            kind="state-timeline",
            title="Fallback level",
            description="Level that new conversations get; 0 is the model that was asked for.",
            unit="short",
            queries=(Query(level, "{{objective}}"),),
        ),
        Panel(
            kind="state-timeline",
            title="Missed, and nothing acts",
            description="1 while an objective is missed and all calls get the model they ask for.",
            unit="short",
            queries=(Query(missed, "{{objective}}"),),
        ),
        series(
            "Calls that fell back, a second",
            "By objective and level; under `observe` they only would have.",
            "reqps",
            Query(fell_back, "{{objective}}: {{level}}"),
            Query(would, "{{objective}}: {{level}}, observed"),
        ),
        series(
            "Late calls a second, by stage",
            "The stage that took the time.",
            "reqps",
            Query(late, "{{objective}}: {{stage}}"),
        ),
    )


def _route_series() -> tuple[Panel, ...]:
    routes = "by (route) (thriftgate_route"
    return (
        series(
            "Calls of a route, of its limit",
            "Under way ÷ taken at once, in the fullest process; of upstreams with `adapts`.",
            _SHARE,
            Query(f"max {routes}_in_flight / thriftgate_route_limit)", "{{route}}"),
        ),
        series(
            "Open circuit breakers",
            "Number of processes in which the route gets no calls.",
            "short",
            Query(f"sum {routes}_open) > 0", "{{route}}"),
        ),
    )
