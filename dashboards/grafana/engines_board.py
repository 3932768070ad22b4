"""The board of self-hosted engines: load, reuse, phases, speculation, warming, cost; pure."""

from typing import Final

from dashboards.grafana.panels import (
    Board,
    Panel,
    Query,
    Variable,
    increase,
    quantile,
    rate,
    series,
    stat,
)

_ENGINE: Final = 'engine=~"$engine"'
_USD: Final = "currencyUSD"
_SHARE: Final = "percentunit"


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
            *_speculation_series(),
            *_warming_series(),
            *_engine_cost_series(),
        ),
    )


def _reuse_share(part: str, by: str) -> str:
    metric = "thriftgate_engine_prompt_tokens_total"
    reused, available = (rate(metric, f'part="{label}"', by) for label in (part, "available"))
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

    return (
        series(
            "Phases, p95",
            "Gateway, queue, prefill, decode and transfer, as engines report them.",
            "s",
            slow("", "{{phase}}"),
        ),
    )


def _speculation_series() -> tuple[Panel, ...]:
    def advice(name: str, by: str) -> str:
        return f"max by ({by}) (thriftgate_engine_speculation_{name}{{{_ENGINE}}})"

    setting = "{{engine}}, {{setting}}"
    return (
        series(
            "Speed-up of speculation",
            "Decode with the setting ÷ without, as measured.",
            "short",
            Query(advice("speed_up", "engine, setting"), setting),
        ),
        series(
            "Acceptance",
            "Accepted ÷ draft tokens.",
            _SHARE,
            Query(advice("acceptance", "engine, setting"), setting),
        ),
        series(
            "Tokens a step",
            "Tokens that a step of the model gave; 1 without speculation.",
            "short",
            Query(advice("tokens_per_step", "engine, setting"), setting),
        ),
        Panel(
            kind="state-timeline",
            title="Recommended speculation",
            description="Method and draft length that the advisor recommends.",
            unit="short",
            queries=(
                Query(
                    advice("recommended", "engine, method, tokens"),
                    "{{engine}}: {{method}} {{tokens}}",
                ),
            ),
        ),
    )


def _warming_series() -> tuple[Panel, ...]:
    def warming(name: str, by: str = "kind") -> str:
        return rate(f"thriftgate_engine_warming_{name}_total", _ENGINE, by)

    return (
        series(
            "Prompts read ahead, a second",
            "By kind and how it ended.",
            "short",
            Query(warming("prompts", "kind, result"), "{{kind}}: {{result}}"),
        ),
        series(
            "Calls that found their beginning warmed, a second",
            "Each prompt that was read ahead counts once.",
            "reqps",
            Query(warming("used_calls"), "{{kind}}"),
        ),
        series(
            "Tokens read ahead, a second",
            "Computed to warm, and read of that by calls.",
            "short",
            Query(warming("tokens"), "{{kind}}: computed"),
            Query(warming("used_tokens"), "{{kind}}: used"),
        ),
        series(
            "Prefill saved by warming, an hour",
            "Seconds that calls were spared, by the measured rate of their replica.",
            "s",
            Query(f"3600 * {warming('saved_seconds')}", "{{kind}}"),
        ),
        series(
            "Cost of warming, an hour",
            "As far as it is known.",
            _USD,
            Query(f"3600 * {warming('cost_usd')}", "{{kind}}"),
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
