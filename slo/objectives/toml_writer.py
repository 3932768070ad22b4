"""Objectives as the text of a policies file, which reads as the same objectives again."""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from slo.decimals import NANOS_PER_DOLLAR
from slo.duration import format_duration
from slo.objectives.objective import EVERY, BurnAlert, Enforce, Metric, Objective, RequestKind
from slo.objectives.objective_validation import target_key
from slo.toml.values import toml_value


def objectives_toml(objectives: Iterable[Objective]) -> str:
    """The tables of these objectives, without what goes without saying; "" of none."""
    return "\n".join(_table(objective) for objective in objectives)


def target_text(objective: Objective) -> str:
    """The target as policies files say it: ``95``, ``"1%"`` or ``0.7``."""
    share = Decimal(repr(objective.target))
    key = target_key(objective.metric)
    if key == "floor":
        return f"{share.normalize():f}"
    percents = f"{(1 - share if key == 'at_most' else share).normalize() * 100:f}"
    percents = percents.rstrip("0").rstrip(".") if "." in percents else percents
    return percents if key == "p" else f'"{percents}%"'


def dollars_text(nanos: int) -> str:
    """Nano-dollars as dollars, in full: ``0.05``."""
    whole, part = divmod(nanos, NANOS_PER_DOLLAR)
    return f"{whole}.{part:09d}".rstrip("0").rstrip(".")


def _table(objective: Objective) -> str:
    lines = [
        f"{key} = {value}" for key, value in _toml_fields(objective).items() if value is not None
    ]
    return "\n".join(["[[objectives]]", *lines, ""])


def _toml_fields(objective: Objective) -> dict[str, str | None]:
    is_ttft = objective.metric is Metric.TTFT
    return {
        "name": toml_value(objective.name),
        "team": _text_unless_default(objective.team, EVERY),
        "feature": _text_unless_default(objective.feature, EVERY),
        "metric": toml_value(objective.metric),
        target_key(objective.metric): target_text(objective),
        "under": _under(objective),
        "clear": None if objective.clear is None else repr(objective.clear),
        "min_prompt": None if objective.min_prompt == 1024 else str(objective.min_prompt),
        "calls": _text_unless_default(
            objective.calls, RequestKind.STREAMS if is_ttft else RequestKind.ALL
        ),
        "enforce": _text_unless_default(objective.enforce, Enforce.ALERT),
        "ladder": _array(objective.ladder),
        "alert_at": _array([_alert(alert) for alert in objective.alerts]),
        "stages": _stages(objective),
    }


def _under(objective: Objective) -> str | None:
    if objective.under_nanos is not None:
        return toml_value(dollars_text(objective.under_nanos))
    return None if objective.under is None else toml_value(format_duration(objective.under))


def _stages(objective: Objective) -> str | None:
    durations = {str(stage.stage): format_duration(stage.under) for stage in objective.stages}
    return toml_value(durations) if durations else None


def _alert(alert: BurnAlert) -> dict[str, object]:
    over = format_duration(alert.over)
    return {"burn": alert.burn, "over": over, "severity": str(alert.severity)}


def _array(items: Sequence[object]) -> str | None:
    return toml_value(items) if items else None


def _text_unless_default(text: str, default: str) -> str | None:
    return None if text == default else toml_value(text)
