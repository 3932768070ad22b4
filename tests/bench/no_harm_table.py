"""The do-no-harm table as Markdown and as JSON, and what of it is too dear."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from tests.bench.no_harm_replay import LIMIT, MANY_CALLS, WorkloadCell

_NOTHING: Final = "-"
#: Part of direct's cost by which a reported saving may be off.
CLAIM_LIMIT: Final = 0.05
#: What the tables of the cells with planning observe are named beyond those by default.
OBSERVE: Final = ", observe"


def dear(cells: Iterable[WorkloadCell]) -> list[WorkloadCell]:
    """The cells that lost more than they may, the dearest first, and those that failed."""
    dear_cells = [cell for cell in cells if cell.why or _is_dear(cell)]
    return sorted(dear_cells, key=lambda cell: -(cell.ratio or 0.0))


def _is_dear(cell: WorkloadCell) -> bool:
    """True if a cell, or many calls in a row, lost more than its stake or too large a part."""
    is_over = (cell.ratio or 0.0) > LIMIT and cell.calls >= MANY_CALLS
    return is_over or max(cell.extra_dollars or 0.0, cell.window_extra or 0.0) > cell.may_lose


def markdown(cells: Sequence[WorkloadCell], how: str) -> Iterator[str]:
    """The table of one part: a row a workload, a column a model, one ratio for each rate."""
    held = [cell for cell in cells if cell.how == how]
    if not held:
        return
    models = list(dict.fromkeys(cell.model for cell in held))
    rates = sorted({cell.rate for cell in held})
    by = {(cell.workload, cell.model, cell.rate): cell for cell in held}
    pace = " / ".join(f"{rate:g}" for rate in rates)
    yield f"### {how}: through the gateway ÷ directly, at {pace} calls a minute"
    yield ""
    yield "| workload | " + " | ".join(models) + " |"
    yield "|---|" + "--:|" * len(models)
    for workload in dict.fromkeys(cell.workload for cell in held):
        row = (
            " / ".join(_ratio(by.get((workload, name, rate))) for rate in rates) for name in models
        )
        yield f"| {workload} | " + " | ".join(row) + " |"
    yield ""


def modes(cells: Sequence[WorkloadCell], part: str) -> Iterator[str]:
    """Mode observe beside the default, each over direct, by workload and model; none without it."""
    ways = f"{part}{OBSERVE}", part
    observed = [cell for cell in cells if cell.how == ways[0]]
    if not observed:
        return
    models = list(dict.fromkeys(cell.model for cell in observed))
    yield f"### {part}: observe → default, each ÷ directly, all rates together"
    yield ""
    yield "| workload | " + " | ".join((*models, "all")) + " |"
    yield "|---|" + "--:|" * (len(models) + 1)
    workloads = list(dict.fromkeys(cell.workload for cell in observed))
    for name, chosen in (
        *((workload, {workload}) for workload in workloads),
        ("all", set(workloads)),
    ):
        columns = (*({model} for model in models), set(models))
        row = (
            [cell for cell in cells if cell.workload in chosen and cell.model in column]
            for column in columns
        )
        yield f"| {name} | " + " | ".join(_both_modes(row_cells, ways) for row_cells in row) + " |"
    yield ""


def _both_modes(cells: Sequence[WorkloadCell], ways: Sequence[str]) -> str:
    """The cost of these cells in both modes over direct, dearer ones in bold."""
    ratios = []
    for how in ways:
        sides = [
            (cell.gateway.dollars, cell.direct.dollars)
            for cell in cells
            if cell.how == how and cell.gateway is not None and cell.direct is not None
        ]
        direct = sum(dollars for _, dollars in sides)
        ratio = sum(dollars for dollars, _ in sides) / direct if direct else None
        text = _NOTHING if ratio is None else f"{ratio:.3f}"
        ratios.append(f"**{text}**" if ratio is not None and ratio > LIMIT else text)
    return " → ".join(ratios)


def claims(cells: Sequence[WorkloadCell]) -> Iterator[str]:
    """The saving that the gateway reports beside the real one; none where none was asked."""
    judged = [cell for cell in cells if cell.claim_error is not None]
    if not judged:
        return
    by = "the second accounting" if any(cell.judged for cell in judged) else "the bills"
    yield f"### what `savings` says was saved, and what was (direct - gateway) by {by}"
    yield ""
    yield (
        "| part | model | direct $ | saved $ | said $ | off, % of direct | cells off by > 5 %"
        " | farthest cell | calls accounted otherwise |"
    )
    yield "|---|---|--:|--:|--:|--:|--:|---|--:|"
    for how, model in dict.fromkeys((cell.how, cell.model) for cell in judged):
        row = [cell for cell in judged if (cell.how, cell.model) == (how, model)]
        truths = [_truth(cell) for cell in row]
        direct, saved = (sum(part) for part in zip(*truths, strict=True))
        claimed = sum(cell.claimed or 0.0 for cell in row)
        errors = {cell.workload: cell.claim_error or 0.0 for cell in row}
        most = max(errors, key=lambda name: abs(errors[name]))
        far = sum(abs(error) > CLAIM_LIMIT for error in errors.values())
        differing = sum(cell.judged.differing for cell in row if cell.judged is not None)
        yield (
            f"| {how} | {model} | {direct:.4f} | {saved:.4f} | {claimed:.4f} |"
            f" {(claimed - saved) / direct:+.1%} | {far} of {len(row)} | {errors[most]:+.1%} {most}"
            f" | {differing} |"
        )
    yield ""


def _truth(cell: WorkloadCell) -> tuple[float, float]:
    """Dollars of a cell's calls sent directly, and of them those that were saved."""
    if cell.judged is not None:
        return cell.judged.direct, cell.judged.saved
    return (cell.direct.dollars if cell.direct is not None else 0.0, -(cell.extra_dollars or 0.0))


def summary(cells: Sequence[WorkloadCell]) -> Iterator[str]:
    """Number of cells there are, the dear ones, the dearest first, and the dearest cell."""
    dear_cells = dear(cells)
    above = sum((cell.ratio or 0.0) > LIMIT for cell in cells)
    yield (
        f"{len(cells)} cells, {above} above {LIMIT} times direct; {len(dear_cells)} lost more than"
        f" their stake, or are above it after {MANY_CALLS:,} calls."
    )
    yield ""
    if dear_cells:
        yield (
            "| ratio | part | workload | model | calls/min | hit rate, direct | gateway"
            " | written, direct | gateway |"
        )
        yield "|--:|---|---|---|--:|--:|--:|--:|--:|"
        yield from (_row(cell) for cell in dear_cells)
        yield ""
    measured = [cell for cell in cells if cell.ratio is not None]
    if measured:
        most = max(measured, key=lambda cell: cell.ratio or 0.0)
        ratio = f"{most.ratio:.4f} times direct"
        yield (
            f"dearest cell: {ratio}, {most.workload}, {most.model}, {most.rate:g} a minute,"
            f" {most.how}"
        )
    for how in dict.fromkeys(cell.how for cell in measured):
        yield _dollar_line(how, [cell for cell in measured if cell.how == how])


def _dollar_line(how: str, cells: Sequence[WorkloadCell]) -> str:
    """The dearest difference in dollars beside the stake, and the ratio of long cells."""
    most = max(cells, key=lambda cell: cell.extra_dollars or 0.0)
    long = [cell.ratio or 0.0 for cell in cells if cell.calls >= MANY_CALLS]
    ratio = f"{max(long):.4f} at most in {len(long)} cells" if long else "no such cell"
    return (
        f"{how}: dearest by ${most.extra_dollars or 0.0:.4f} of the ${most.may_lose:.4f} allowed"
        f" ({most.workload}, {most.model}, {most.rate:g} a minute);"
        f" from {MANY_CALLS:,} calls on: {ratio}; {_window_text(cells)}"
    )


def _window_text(cells: Sequence[WorkloadCell]) -> str:
    """The many calls in a row that cost most beyond the limit."""
    windows = [cell for cell in cells if cell.window_extra is not None]
    if not windows:
        return "none in a row"
    most = max(windows, key=lambda cell: (cell.window_extra or 0.0) - cell.may_lose)
    return (
        f"any {MANY_CALLS:,} in a row: ${most.window_extra:.4f} beyond {LIMIT} times direct"
        f" of the ${most.may_lose:.4f} allowed ({most.workload}, {most.model})"
    )


def cells_as_json(cells: Iterable[WorkloadCell]) -> list[dict[str, Any]]:
    """Each cell with its ratio, as JSON."""
    return [{"ratio": cell.ratio, **_fields(cell)} for cell in cells]


def _fields(cell: WorkloadCell) -> dict[str, Any]:
    fields = {name: getattr(cell, name) for name in WorkloadCell.__dataclass_fields__}
    for name in ("direct", "gateway", "judged"):
        fields[name] = None if fields[name] is None else asdict(fields[name])
    return fields


def _ratio(cell: WorkloadCell | None) -> str:
    if cell is None or cell.ratio is None:
        return "failed" if cell is not None and cell.why else _NOTHING
    ratio = f"{cell.ratio:.3f}" if cell.ratio <= 1 or cell.ratio > 1.01 else f"{cell.ratio:.4f}"
    return f"**{ratio}**" if _is_dear(cell) else ratio


def _row(cell: WorkloadCell) -> str:
    where = f"{cell.how} | {cell.workload} | {cell.model} | {cell.rate:g}"
    if cell.why or cell.direct is None or cell.gateway is None or cell.ratio is None:
        return f"| {cell.why or _NOTHING} | {where} | | | | |"
    direct, gateway = cell.direct, cell.gateway
    hits = (f"{side.read / max(1, side.prompt):.3f}" for side in (direct, gateway))
    written = (f"{side.written:,}" for side in (direct, gateway))
    return f"| {cell.ratio:.4f} | {where} | " + " | ".join((*hits, *written)) + " |"
