"""``thriftgate engine advise``: which speculation pays on a profile, with the measurements."""

from pathlib import Path
from typing import Any, Final

from rich.text import Text

from proxy.catalog.engine_layer import replica_upstream
from proxy.cli.engines.technique_lines import technique_documents, technique_lines
from proxy.cli.terminal import Terminal, empty_table
from proxy.engines.metrics.decode_speed import EstimateInterval, SpeedSums, band_text
from proxy.engines.metrics.kv_pressure import describe_formats, kv_advice
from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.advice import (
    MIN_CALLS,
    BandSpeed,
    FeatureSpeculation,
    SpeculationAdvice,
    SpeculationOption,
    advise,
    advise_feature,
    describe_options,
    option_that_runs,
)
from proxy.engines.state.speculation_file import read_record
from proxy.engines.state.state_file import profile_folder
from proxy.store.store import Store

_UNKNOWN: Final = "unknown"


def print_advice(
    terminal: Terminal, profile: EngineProfile, folder: Path, *, days: int, as_json: bool
) -> None:
    """Print the advice by the profile's record and by its calls in the ledger."""
    record = read_record(profile_folder(folder, profile.name), profile)
    advice = advise(profile, record.evidence)
    chosen = "" if record.choice is None else record.choice.setting
    running = option_that_runs(profile, chosen, advice)
    with terminal.store() as store:
        speculations = speculation_by_feature(store, profile, terminal.days_ago(days))
    features = [
        (name, calls, advise_feature(calls, running))
        for name, calls in sorted(speculations.items())
    ]
    formats = list(describe_formats(record.kv_sums))
    remedy = kv_advice(profile, record.kv_sums)
    if as_json:
        terminal.print_json(
            {
                "profile": profile.name,
                "recommended": advice.recommended,
                "reason": advice.reason,
                "applied": record.choice,
                "kv_cache": {
                    "kv_dtype": profile.kv_dtype,
                    "advice": remedy,
                    "formats": formats,
                },
                "options": list(describe_options(advice)),
                "features": [_feature_document(*feature) for feature in features],
                "benchmarks": technique_documents(profile, only_benchmarks=True),
            }
        )
        return
    terminal.say(f"{profile.name}: {advice.reason}.")
    _show_rows(terminal, "Settings, at the load of late:", list(map(_option_row, advice.options)))
    bands = [(option.setting, band) for option in advice.options for band in option.bands]
    rows = [_band_row(*band) for band in bands]
    _show_rows(terminal, "Measured, by sequences at once:", rows)
    if remedy:
        terminal.say(remedy)
    if any(row["calls"] or row["readings"] for row in formats):
        _show_rows(terminal, "Number formats of the KV cache, the latest last:", formats)
    if record.choice is not None:
        terminal.say(f"Applied: {record.choice.setting}, because {record.choice.reason}.")
    rows = [_feature_row(*feature) for feature in features]
    _show_rows(terminal, "Calls in the ledger, by feature:", rows)
    for line in technique_lines(profile, only_benchmarks=True):
        terminal.out.print(line, soft_wrap=True)  # not wrapped: commands are to be copied


def speculation_by_feature(
    store: Store, profile: EngineProfile, since: float
) -> dict[str, FeatureSpeculation]:
    """The calls that a profile's replicas answered since a moment, by feature."""
    upstreams = [replica_upstream(profile.name, number) for number in range(profile.replica_count)]
    features: dict[str, FeatureSpeculation] = {}
    for row in store.reports.feature_speeds(upstreams, since):
        feature = features.setdefault(row.feature, FeatureSpeculation())
        speeds = SpeedSums(
            samples=row.samples,
            tokens=row.tokens,
            decode_s=row.decode_s,
            rate_squares=row.rate_squares,
        )
        if row.is_drafted:
            feature.calls, feature.drafted = row.calls, speeds
            feature.draft_tokens = row.draft_tokens
            feature.accepted_tokens = row.accepted_tokens
        else:
            feature.plain = speeds
    return features


def _feature_document(
    name: str, feature: FeatureSpeculation, advice: SpeculationAdvice
) -> dict[str, Any]:
    is_enough = feature.calls >= MIN_CALLS and feature.draft_tokens
    share = round(feature.accepted_tokens / feature.draft_tokens, 3) if is_enough else None
    return {
        "feature": name or "none",
        "calls": feature.calls,
        "calls_without_drafts": round(feature.plain.samples),
        "draft_tokens": feature.draft_tokens,
        "accepted_tokens": feature.accepted_tokens,
        "accepted_share": share,
        "recommended": advice.recommended,
        "reason": advice.reason,
        "options": list(describe_options(advice)),
    }


def _feature_row(
    name: str, feature: FeatureSpeculation, advice: SpeculationAdvice
) -> dict[str, Any]:
    option = next(iter(advice.options), SpeculationOption(setting=""))
    return {
        "feature": name or "none",
        "calls": feature.calls,
        "acceptance": _acceptance_text(option),
        "measured": _interval_text(option.measured, "x"),
        "recommended": advice.recommended or advice.reason,
    }


def _option_row(option: SpeculationOption) -> dict[str, Any]:
    return {
        "setting": option.setting,
        "drafts": f"{option.drafts:.0f}",
        "acceptance": _acceptance_text(option),
        "tokens/step": f"{option.tokens_per_step:.2f}",
        "measured": _interval_text(option.measured, "x"),
    }


def _acceptance_text(option: SpeculationOption) -> str:
    return _UNKNOWN if option.acceptance is None else f"{option.acceptance:.1%}"


def _band_row(setting: str, band: BandSpeed) -> dict[str, Any]:
    return {
        "setting": setting,
        "at once": band_text(band.sequences),
        "tokens of late": f"{band.share:.0%}",
        "tokens/s": _interval_text(band.tokens_per_s),
        "without": _interval_text(band.without),
        "speed-up": _interval_text(band.speed_up, "x"),
    }


def _show_rows(terminal: Terminal, title: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    terminal.say("", title)
    table = empty_table(*(key.replace("_", " ") for key in rows[0]))
    for row in rows:
        cells = (_UNKNOWN if value is None else str(value) for value in row.values())
        table.add_row(*map(Text, cells))
    terminal.show(table)


def _interval_text(interval: EstimateInterval | None, unit: str = "") -> str:
    if interval is None:
        return _UNKNOWN
    return f"{interval.value:.2f}{unit} ({interval.low:.2f} to {interval.high:.2f})"
