"""``thriftgate engine advise``: which speculation pays on a profile, and how that is known."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.text import Text

from proxy.cli.engine_auto import speculation_by_feature
from proxy.cli.technique_lines import benchmark_documents, benchmark_lines
from proxy.cli.terminal import Terminal, empty_table
from proxy.engines.decode_speed import EstimateInterval, band_text
from proxy.engines.kv_comparison import KVComparison, compare_formats
from proxy.engines.kv_pressure import KVPressure, KVSums, kv_advice
from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.advice import (
    BandSpeed,
    SpeculationAdvice,
    advise,
    describe_options,
    option_that_runs,
    unmeasured_reason,
)
from proxy.engines.speculation.feature_advice import (
    MIN_CALLS,
    FeatureSpeculation,
    advise_feature,
)
from proxy.engines.speculation.ngram_replay import NgramReplay, replay_ngrams
from proxy.engines.speculation_file import read_record
from proxy.engines.state_file import profile_folder
from proxy.tokens.vocabulary import Tokenizer

#: Depths that a replay compares.
_REPLAY_DEPTHS: Final = (1, 2, 3, 4, 6, 8)
_UNKNOWN: Final = "unknown"


class _ReplayedAnswer(msgspec.Struct, frozen=True):
    prompt: str
    answer: str


def print_advice(
    terminal: Terminal,
    profile: EngineProfile,
    folder: Path,
    replay: Path | None,
    *,
    days: int,
    as_json: bool,
) -> None:
    """Print the advice by the profile's record, its calls in the ledger, and answers to replay."""
    record = read_record(profile_folder(folder, profile.name), profile)
    advice = advise(profile, record.evidence)
    chosen = "" if record.choice is None else record.choice.setting
    runs = option_that_runs(profile, chosen, advice)
    with terminal.store() as store:
        speculations = speculation_by_feature(store, profile, terminal.days_ago(days))
    features = [
        (name, calls, advise_feature(calls, runs, advice))
        for name, calls in sorted(speculations.items())
    ]
    replayed = list(_replay(terminal, profile, replay)) if replay else []
    if as_json:
        terminal.print_json(
            {
                "profile": profile.name,
                "recommended": advice.recommended,
                "reason": advice.reason,
                "concurrency": round(advice.concurrency, 2),
                "saturation_tokens": advice.saturation,
                "applied": record.choice,
                "kv_cache": _kv_document(profile, record.kv),
                "options": list(describe_options(advice)),
                "features": [_feature_document(*each) for each in features],
                "replay": replayed,
                "benchmarks": benchmark_documents(profile),
            }
        )
        return
    _show_options(terminal, profile, advice)
    if advised := kv_advice(profile, record.kv):
        terminal.say(advised)
    if (compared := compare_formats(str(profile.kv_dtype), record.kv)) is not None:
        terminal.say(_comparison_text(compared))
    if record.choice is not None:
        terminal.say(f"Applied: {record.choice.setting}, because {record.choice.reason}.")
    _show_rows(terminal, "Calls in the ledger, by feature:", [_feature_row(*e) for e in features])
    _show_rows(terminal, "N-grams, if these answers were drafted with them:", replayed)
    for line in benchmark_lines(profile):
        terminal.out.print(line, soft_wrap=True)  # not wrapped: commands are to be copied


def _kv_document(profile: EngineProfile, pressure: KVPressure) -> dict[str, Any]:
    """The pressure on the KV cache as plain values, and the advice."""
    compared = compare_formats(str(profile.kv_dtype), pressure)
    return {
        "kv_dtype": str(profile.kv_dtype),
        "calls": round(pressure.calls),
        "preemptions": round(pressure.preemptions),
        "preempted_share": round(pressure.preempted_share, 4),
        "starved_share": round(pressure.starved_share, 4),
        "advice": kv_advice(profile, pressure),
        "comparison": None if compared is None else _comparison_document(compared),
    }


def _comparison_document(compared: KVComparison) -> dict[str, Any]:
    speed = compared.speed
    alike = None if speed is None else {"speculation": speed.setting, "sequences": speed.sequences}
    speeds = (None, None) if speed is None else (speed.before.value, speed.after.value)
    return {
        "before": _sums_document(compared.before, speeds[0]),
        "after": _sums_document(compared.after, speeds[1]),
        "speeds_with": alike,
        "verdict": str(compared.verdict),
        "reasons": list(compared.reasons),
    }


def _sums_document(sums: KVSums, tokens_per_s: float | None) -> dict[str, Any]:
    return {
        "kv_dtype": sums.kv_dtype,
        "last_at": round(sums.last_at),
        "calls": round(sums.calls),
        "preemptions": round(sums.preemptions),
        "preempted_share": round(sums.preempted_share, 4),
        "readings": round(sums.readings),
        "starved_share": round(sums.starved_share, 4),
        "tokens_per_s": None if tokens_per_s is None else round(tokens_per_s, 2),
    }


def _comparison_text(compared: KVComparison) -> str:
    """The figures before and after as a sentence, and the verdict."""
    before, after, speed = compared.before, compared.after, compared.speed
    preempted = (
        f"preempted {before.preempted_share:.1%} → {after.preempted_share:.1%} of calls"
        f" ({before.calls:.0f} → {after.calls:.0f})"
    )
    waited = (
        f"calls waited for room in {before.starved_share:.0%} → {after.starved_share:.0%}"
        f" of readings ({before.readings:.0f} → {after.readings:.0f})"
    )
    figures = [preempted, waited]
    if speed is not None:
        figures.append(
            f"tokens/s of a sequence {speed.before.value:.1f} → {speed.after.value:.1f}"
            f" (speculation {speed.setting}, up to {speed.sequences} at once)"
        )
    why = f": {', '.join(compared.reasons)}" if compared.reasons else ""
    said = f"{compared.verdict}{why}."
    return (
        f"KV cache {before.kv_dtype} → {after.kv_dtype}: {'; '.join(figures)}."
        f" {said[0].upper()}{said[1:]}"
    )


def _feature_document(
    name: str, found: FeatureSpeculation, advice: SpeculationAdvice
) -> dict[str, Any]:
    is_enough = found.calls >= MIN_CALLS
    share = round(found.accepted_tokens / found.draft_tokens, 3) if is_enough else None
    return {
        "feature": name or "none",
        "calls": found.calls,
        "calls_without_drafts": round(found.plain.samples),
        "draft_tokens": found.draft_tokens,
        "accepted_tokens": found.accepted_tokens,
        "accepted_share": share,
        "recommended": advice.recommended,
        "reason": advice.reason,
        "options": list(describe_options(advice)),
    }


def _feature_row(name: str, found: FeatureSpeculation, advice: SpeculationAdvice) -> dict[str, Any]:
    """A feature's line in the table: the setting that ran, and what is recommended."""
    tried = [each for each in advice.options if each.method is not None]
    ran = next((each for each in tried if each.measured is not None), tried[0] if tried else None)
    return {
        "feature": name or "none",
        "calls": found.calls,
        "acceptance": _interval_text(None if ran is None else ran.acceptance),
        "measured": _interval_text(None if ran is None else ran.measured, "x"),
        "formula": _interval_text(None if ran is None else ran.expected, "x"),
        "recommended": advice.recommended or advice.reason,
    }


def _show_options(terminal: Terminal, profile: EngineProfile, advice: SpeculationAdvice) -> None:
    terminal.say(f"{profile.name}: {advice.reason}.")
    if unmeasured_reason(profile):
        return
    terminal.say(
        f"At {advice.concurrency:.1f} sequences at once, where most tokens were made of late;"
        f" a step is taken to slow down from {advice.saturation} tokens on."
    )
    if not advice.options:
        return
    table = empty_table(
        "setting", "drafts", "acceptance", "tokens/step", "measured", "formula", "formula's limit"
    )
    for each in advice.options:
        below = "never" if each.break_even is None else f"{each.break_even:.1f} sequences"
        cells = (
            each.setting,
            f"{each.drafts:.0f}",
            _interval_text(each.acceptance),
            f"{each.length:.2f}",
            _interval_text(each.measured, "x"),
            _interval_text(each.expected, "x"),
            "" if each.method is None else below if each.acceptance else _UNKNOWN,
        )
        table.add_row(*map(Text, cells))
    terminal.show(table)
    rows = [_band_row(option.setting, band) for option in advice.options for band in option.bands]
    _show_rows(terminal, "Measured, by sequences at once:", rows)


def _band_row(setting: str, band: BandSpeed) -> dict[str, Any]:
    return {
        "setting": setting,
        "at once": band_text(band.sequences),
        "tokens of late": f"{band.share:.0%}",
        "tokens/s": _interval_text(band.tokens_per_s),
        "without": _interval_text(band.without),
        "speed-up": _interval_text(band.speed_up, "x"),
    }


def _show_rows(terminal: Terminal, title: str, found: list[dict[str, Any]]) -> None:
    if not found:
        return
    terminal.say("", title)
    table = empty_table(*(key.replace("_", " ") for key in found[0]))
    for each in found:
        cells = (_UNKNOWN if value is None else str(value) for value in each.values())
        table.add_row(*map(Text, cells))
    terminal.show(table)


def _replay(terminal: Terminal, profile: EngineProfile, file: Path) -> Iterator[dict[str, Any]]:
    """The drafts that n-grams of some depths would have made for the answers of a file."""
    try:
        lines = file.read_bytes().splitlines()
        answers = [msgspec.json.decode(line, type=_ReplayedAnswer) for line in lines if line]
    except OSError as error:
        terminal.fail(f"{file} cannot be read: {error.strerror}.")
    except msgspec.DecodeError as error:
        terminal.fail(f'{file}: each line has to be {{"prompt": …, "answer": …}}: {error}.')
    bounds = profile.auto_speculation or profile.speculation
    shortest, longest = (bounds.ngram_min, bounds.ngram_max) if bounds else (2, 4)
    # The engine's own tokens differ a little; repeats are found in these as well.
    encode = Tokenizer("o200k_base").encode
    encoded = [(encode(each.prompt), encode(each.answer)) for each in answers]
    for depth in _REPLAY_DEPTHS:
        sums = NgramReplay()
        for prompt, answer in encoded:
            replay_ngrams(prompt, answer, depth, shortest, longest, into=sums)
        yield {
            "tokens": depth,
            "answers": len(encoded),
            "drafts": sums.drafts,
            "draft_tokens": sums.draft_tokens,
            "accepted_tokens": sums.accepted,
            "tokens_per_step": round(sums.tokens_per_step, 3),
        }


def _interval_text(interval: EstimateInterval | None, unit: str = "") -> str:
    if interval is None:
        return _UNKNOWN
    return f"{interval.value:.2f}{unit} ({interval.low:.2f} to {interval.high:.2f})"
