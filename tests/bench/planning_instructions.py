# ruff: noqa: T201 - a script prints its result
"""Instructions of a planned call, counted by callgrind, beside those of an older commit.

Each call is read, planned and settled as in ``tests.bench.planning``, from the body's bytes on. A
conversation's first call and the four that go on with it are counted; each adds 4 KB. Valgrind has
to be installed.
Usage: python -m tests.bench.planning_instructions [--beside COMMIT] [--sizes 32 128]
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from proxy.prefix.planned import PlanningRequest, PlanningTarget
from proxy.prefix.planner import Planner
from slo.usage import Usage
from tests.bench.planning import bodies, way

try:
    from proxy.records.body_reader import BodyReader
except ImportError:  # an older commit
    from proxy.records.request_fields import parse_request_fields
else:
    _reader = BodyReader()

CACHES: Final = {
    "Claude": "anthropic-breakpoint",
    "GPT": "openai-breakpoint",
    "vLLM": "block-chain",
}
_ROOT: Final = Path(__file__).parents[2]
#: Conversations whose calls are not counted: Python adapts its code in them.
_WARM_CONVERSATIONS: Final = 3
_COUNTED_CONVERSATIONS: Final = 3
_GOING_ON: Final = 4
#: CPython's part of ``dir()``, which no call needs: callgrind counts what an object does there.
_COUNTED: Final = "PyObject_Dir"


class CountedCall:
    """A call that is played, and counted, when it is asked for its names."""

    def __init__(self, *call: Any) -> None:
        self._call = call

    def __dir__(self) -> Iterable[str]:
        play_call(*self._call)
        return ()


def play_calls(regime: str, size: int) -> None:
    """Play conversations of this size; those counted are played within the counted function."""
    planner, target, calls = Planner(b"bench", share=0.0), way(regime), 1 + _GOING_ON
    for seed in range(_WARM_CONVERSATIONS + _COUNTED_CONVERSATIONS):
        for index, body in enumerate([*bodies(seed, size * 1024, calls, ticks=False)]):
            call = (planner, body, target, 1e6 + 20 * index)
            if seed < _WARM_CONVERSATIONS:
                play_call(*call)
            else:
                dir(CountedCall(*call))


def read_request(body: bytes) -> PlanningRequest:
    """The request of a body, read as the gateway reads it."""
    hints: dict[str, Any]
    if "messages_json" in PlanningRequest.__struct_fields__:
        hints = {"messages_json": parse_request_fields(body).messages}
    else:
        hints = {"split": _reader.read("team", body)[1]}
    return PlanningRequest(team="team", feature="feature", key="key", body=body, **hints)


def play_call(planner: Planner, body: bytes, target: PlanningTarget, now: float) -> None:
    """One call, from its bytes to what is learned of its answer."""
    draft = planner.read_call(read_request(body))
    plan = planner.known_plan(draft) or planner.begin_plan(draft, 0)
    planned = planner.plan_call(draft, target, plan, None, now)
    planner.adopt_plan(draft, planned.plan)
    tokens = len(planned.body) // 4
    planner.settle_call(planned, Usage(input=tokens // 10, cache_read=tokens - tokens // 10))


def count_instructions(tree: Path, regime: str, size: int) -> tuple[float, float]:
    """Thousand instructions of a first call and of one that goes on, by the code of this tree."""
    with tempfile.TemporaryDirectory() as folder:
        run_command(
            "env", f"PYTHONPATH={tree}", "PYTHONHASHSEED=0",
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/counts",
            f"--toggle-collect={_COUNTED}", f"--dump-after={_COUNTED}",
            sys.executable, __file__, "--play", regime, str(size), cwd=tree,
        )  # fmt: skip
        files = sorted(Path(folder).glob("counts.*"), key=lambda path: int(path.suffix[1:]))
        counts = [_total(path.read_text()) for path in files]
    counts = counts[-_COUNTED_CONVERSATIONS * (1 + _GOING_ON) :]
    firsts = counts[:: 1 + _GOING_ON]
    return sum(firsts) / len(firsts) / 1e3, (sum(counts) - sum(firsts)) / (
        len(counts) - len(firsts)
    ) / 1e3


def _total(profile: str) -> int:
    """The instructions that a profile counts."""
    match = re.search(r"^(?:totals|summary): (\d+)", profile, re.MULTILINE)
    return int(match[1]) if match else 0


def extract_commit(commit: str, folder: str) -> Path:
    """The tree of a commit, in this folder."""
    archive = f"{folder}/commit.tar"
    run_command("git", "archive", "--output", archive, commit, cwd=_ROOT)
    run_command("tar", "-x", "-f", archive, "-C", folder, cwd=_ROOT)
    return Path(folder)


def run_command(*command: str, cwd: Path) -> None:
    """Run a command in a folder; its output is dropped."""
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)  # noqa: S603 - our own


def show_table(trees: Mapping[str, Path], sizes: Sequence[int]) -> None:
    """Print a row for each size and cache, in thousand instructions; and their ratios."""
    heads = [f"{name} {call}" for call in ("first", "next") for name in trees]
    ratios = ["first", "next"] if len(trees) > 1 else []
    print("| prompt | cache | " + " | ".join([*heads, *ratios]) + " |")
    print("|---|---|" + "--:|" * (len(heads) + len(ratios)))
    for size in sizes:
        for cache, regime in CACHES.items():
            counts = [count_instructions(tree, regime, size) for tree in trees.values()]
            calls = [*zip(*counts, strict=True)]
            cells = [f"{count:,.0f}" for call in calls for count in call]
            cells += [f"{call[-1] / call[0]:.2f}" for call in calls if ratios]
            print(f"| {size} KB | {cache} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the table as markdown, or play what is counted."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--beside", metavar="COMMIT", help="count an older commit, too")
    options.add_argument("--sizes", nargs="+", type=int, default=[32, 128], help="KB")
    options.add_argument("--play", nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.play:
        play_calls(chosen.play[0], int(chosen.play[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        trees = {"here": _ROOT}
        if chosen.beside:
            trees = {chosen.beside: extract_commit(chosen.beside, folder), **trees}
        show_table(trees, chosen.sizes)


if __name__ == "__main__":
    main()
