"""The boards of service: cache health, latency and objectives, engines; pure."""

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
_ENGINE: Final = 'engine=~"$engine"'
_USD: Final = "currencyUSD"
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


def engines_board() -> Board:
    """Load, reuse and cost of self-hosted engines."""
    return Board(
        name="engines",
        description="Self-hosted engines: what they say of themselves, what this gateway sends "
        "them, and what they cost.",
        variables=(Variable("engine", "thriftgate_engine_healthy"),),
        panels=(
            *_engine_figures(),
            *_replica_series(),
            *_reuse_series(),
            *_phase_series(),
            *_engine_cost_series(),
        ),
    )


def _reuse_share(part: str, by: str) -> str:
    metric = "thriftgate_engine_prompt_tokens_total"
    reused, available = (rate(metric, f'part="{each}"', by) for each in (part, "available"))
    return f"{reused} / {available}"


def _engine_figures() -> tuple[Panel, ...]:
    healthy = f"thriftgate_engine_healthy{{{_ENGINE}}}"
    idle, paid = (
        increase("thriftgate_replica_gpu_seconds_total", where) for where in ('state="idle"', "")
    )
    prompt = "thriftgate_engine_prompt_tokens_total"
    delivered, available = (
        increase(prompt, f'part="{part}"') for part in ("delivered", "available")
    )
    accepted, drafted = (
        increase(f"thriftgate_engine_{kind}_tokens_total", _ENGINE)
        for kind in ("accepted", "draft")
    )
    return (
        stat(
            "Healthy replicas",
            "Part of the replicas that calls may go to.",
            _SHARE,
            f"avg(min by (engine, replica) ({healthy}))",
            0,
        ),
        stat("Idle", "GPU seconds without a call ÷ paid.", _SHARE, f"{idle} / {paid}", 1),
        stat(
            "Prefix reuse",
            "Tokens read from caches ÷ tokens that one cache with the room of all would have had.",
            _SHARE,
            f"{delivered} / {available}",
            1,
        ),
        stat(
            "Draft tokens accepted",
            "Of those that speculation proposed.",
            _SHARE,
            f"{accepted} / {drafted}",
            1,
        ),
    )


def _replica_series() -> tuple[Panel, ...]:
    def gauge(name: str) -> str:
        return f"max by (replica) (thriftgate_engine_{name}{{{_ENGINE}}})"

    in_flight = f"sum by (replica) (thriftgate_engine_calls_in_flight{{{_ENGINE}}})"
    return (
        series(
            "Running calls", "In the batch of each replica.", "short", _by_replica(gauge("running"))
        ),
        series("Waiting calls", "In each replica's queue.", "short", _by_replica(gauge("waiting"))),
        series("KV cache in use", "Of each replica.", _SHARE, _by_replica(gauge("kv_usage"))),
        series(
            "Calls of the gateways", "Sent and not yet answered.", "short", _by_replica(in_flight)
        ),
    )


def _by_replica(expr: str) -> Query:
    return Query(expr, "{{replica}}")


def _reuse_series() -> tuple[Panel, ...]:
    routed = rate("thriftgate_engine_routed_calls_total", by="reason")
    return (
        series(
            "Prefix reuse, by model",
            "Captured by routing, and delivered by engines, of what was available.",
            _SHARE,
            Query(_reuse_share("captured", "model"), "{{model}}: captured"),
            Query(_reuse_share("delivered", "model"), "{{model}}: delivered"),
        ),
        series(
            "Routed calls a second",
            "By the reason for their replica.",
            "reqps",
            Query(routed, "{{reason}}"),
            is_stacked=True,
        ),
    )


def _phase_series() -> tuple[Panel, ...]:
    def slow(where: str, legend: str) -> Query:
        return Query(quantile(0.95, "thriftgate_phase_seconds", where, "phase"), legend)

    warmed = rate("thriftgate_engine_warming_prompts_total", _ENGINE, "kind, result")
    return (
        series(
            "Phases, p95",
            "Gateway, queue, prefill, decode and transfer, as engines report them.",
            "s",
            slow("", "{{phase}}"),
        ),
        series(
            "Prompts read ahead, a second",
            "By kind and how it ended.",
            "short",
            Query(warmed, "{{kind}}: {{result}}"),
        ),
    )


def _engine_cost_series() -> tuple[Panel, ...]:
    money = rate("thriftgate_replica_cost_usd_total", by="upstream, state")
    price = "max by (upstream, tokens) (thriftgate_replica_usd_per_million_tokens)"
    return (
        series(
            "Cost an hour",
            "Of replicas that are paid by the hour, used and idle.",
            _USD,
            Query(f"3600 * {money}", "{{upstream}}: {{state}}"),
            is_stacked=True,
        ),
        series(
            "Cost of a million tokens",
            "Measured at the present load.",
            _USD,
            Query(price, "{{upstream}}: {{tokens}}"),
        ),
    )
