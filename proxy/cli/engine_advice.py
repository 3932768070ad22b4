"""``thriftgate engine advise``: which speculation pays on a profile, and how that is known."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.text import Text

from proxy.cli.terminal import Terminal, empty_table
from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.advice import SpeculationAdvice, advise, describe_options
from proxy.engines.speculation.evidence import EstimateInterval, acceptance_by_rate
from proxy.engines.speculation.ngram_replay import NgramReplay, replay_ngrams
from proxy.engines.speculation_file import read_record
from proxy.engines.state_file import profile_folder
from proxy.records.receipt import Receipt
from proxy.tokens.vocabulary import Tokenizer

#: Depths that a replay compares.
_REPLAY_DEPTHS: Final = (1, 2, 3, 4, 6, 8)
_MIN_CALLS: Final = 20
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
    record = read_record(profile_folder(folder, profile.name))
    advice = advise(profile, record.evidence)
    with terminal.store() as store:
        receipts = store.ledger.receipts_since(terminal.days_ago(days))
        features = list(acceptance_by_feature(receipts, profile.name))
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
                "options": list(describe_options(advice)),
                "features": features,
                "replay": replayed,
            }
        )
        return
    _show_options(terminal, profile, advice)
    if record.choice is not None:
        terminal.say(f"Applied: {record.choice.setting}, because {record.choice.reason}.")
    _show_rows(terminal, "Calls in the ledger, by feature:", features)
    _show_rows(terminal, "N-grams, if these answers were drafted with them:", replayed)


def acceptance_by_feature(receipts: Iterator[Receipt], profile: str) -> Iterator[dict[str, Any]]:
    """Acceptance of the calls that a profile's replicas answered, by feature."""
    sums: dict[str, list[int]] = {}
    for receipt in receipts:
        if receipt.upstream.startswith(f"{profile}:") and receipt.draft_tokens is not None:
            found = sums.setdefault(receipt.feature, [0, 0, 0])
            found[0] += 1
            found[1] += receipt.draft_tokens
            found[2] += receipt.accepted_tokens or 0
    for feature, (calls, drafted, accepted) in sorted(sums.items()):
        # The depth is not in the receipt: the share of accepted tokens is given as it is.
        rate = acceptance_by_rate(accepted, drafted, 1) if calls >= _MIN_CALLS else None
        yield {
            "feature": feature or "none",
            "calls": calls,
            "draft_tokens": drafted,
            "accepted_tokens": accepted,
            "accepted_share": None if rate is None else round(rate.value, 3),
            "note": "" if rate else f"not enough data: {calls} of {_MIN_CALLS} calls",
        }


def _show_options(terminal: Terminal, profile: EngineProfile, advice: SpeculationAdvice) -> None:
    terminal.say(f"{profile.name}: {advice.reason}.")
    terminal.say(
        f"At {advice.concurrency:.1f} sequences at once, where most tokens were made; a step is"
        f" taken to slow down from {advice.saturation} tokens on."
    )
    if not advice.options:
        return
    table = empty_table(
        "setting", "drafts", "acceptance", "tokens/step", "expected", "measured", "pays below"
    )
    for each in advice.options:
        below = "never" if each.break_even is None else f"{each.break_even:.1f} sequences"
        cells = (
            each.setting,
            f"{each.drafts:.0f}",
            _interval_text(each.acceptance),
            f"{each.length:.2f}",
            _interval_text(each.expected, "x"),
            _interval_text(each.measured, "x"),
            "" if each.method is None else below if each.acceptance else _UNKNOWN,
        )
        table.add_row(*map(Text, cells))
    terminal.show(table)


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
