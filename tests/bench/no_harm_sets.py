"""The workloads of the do-no-harm table: recorded sets, and shapes that are made up."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Final

import orjson

from tests.bench import no_harm_readers as readers
from tests.fakes import agent_workloads, chat_workloads, odd_workloads
from tests.fakes.workloads import OVERLAPPING, Pace, Session, Workload

_ROOT = Path(__file__).resolve().parents[2]
#: Where sets lie, the first that is there.
FOLDERS: Final = (_ROOT / "../shared/data", _ROOT / "../../shared/data")
#: Bytes of a prompt above which a recorded call is left out: longer ones take too long.
_LONGEST: Final = 240_000
_SHAPES: Final = (
    agent_workloads.coding_agents,
    agent_workloads.tailed_agents,
    agent_workloads.keyed_agents,
    chat_workloads.alike_sessions,
    chat_workloads.few_shot,
    chat_workloads.repeated_calls,
    chat_workloads.one_shots,
    chat_workloads.retrieval,
    odd_workloads.paced_workloads,
    odd_workloads.marked_by_caller,
    odd_workloads.small_workloads,
    odd_workloads.unstable_workloads,
    odd_workloads.changing_workloads,
)
_AGENTDOJO: Final = "A/sequrity-ai+agentdojo"
_TAU: Final = "A/sierra-research+tau-bench/historical_trajectories/gpt-4o-airline.json"
_LMCACHE: Final = "A/LMCache+lmcache-agent-trace"
#: Sets that hold no prompts.
WORDLESS: Final = ("Azure 2023 (arrivals and lengths only)",)


def folder() -> Path | None:
    """Return where the sets lie; None where they do not."""
    return next((name.resolve() for name in FOLDERS if name.is_dir()), None)


def shapes() -> Iterator[Workload]:
    """Those that are made up."""
    yield from chain.from_iterable(make() for make in _SHAPES)


def sets(data: Path) -> Iterator[tuple[str, bool]]:
    """Each recorded set by name, and whether it is there."""
    yield from ((name, (data / path).exists()) for name, (path, _, _) in _SETS.items())


def recorded_workload(data: Path, name: str, conversations: int) -> Workload:
    """The first conversations of a recorded set."""
    path, read, pace = _SETS[name]
    held = tuple(islice(_short_enough(read(data / path)), conversations))
    return Workload(name=name, sessions=held, pace=pace)


def _short_enough(sessions: Iterable[Session]) -> Iterator[Session]:
    """Sessions whose calls are short enough, each as far as they are."""
    for session in sessions:
        turns = tuple(turn for turn in session.turns if len(orjson.dumps(turn.body)) <= _LONGEST)
        if turns:
            yield Session(name=session.name, feature=session.feature, turns=turns)


_Set = tuple[str, Callable[[Path], Iterator[Session]], Pace]
_SETS: Final[Mapping[str, _Set]] = {
    "tau-bench": (_TAU, readers.conversations("tau"), OVERLAPPING),
    "tau-bench, badly built": (_TAU, readers.badly_built("tau"), OVERLAPPING),
    "tau-bench, time at the end": (_TAU, readers.badly_built("tau", mend=True), OVERLAPPING),
    "AgentDojo": (_AGENTDOJO, readers.conversations("agentdojo"), OVERLAPPING),
    "AgentDojo, badly built": (_AGENTDOJO, readers.badly_built("agentdojo"), OVERLAPPING),
    "mini-swe-agent": (f"{_LMCACHE}/miniswe", readers.conversations("lmcache"), OVERLAPPING),
    "mini-swe-agent, flat": (f"{_LMCACHE}/miniswe", readers.flat, OVERLAPPING),
    "tau-bench, flat": (f"{_LMCACHE}/taubench", readers.flat, OVERLAPPING),
    "SWE-agent": ("A/SWE-agent+SWE-agent", readers.session_reader("swe-agent"), OVERLAPPING),
    "OpenHands": ("A/All-Hands-AI+OpenHands", readers.session_reader("openhands"), OVERLAPPING),
    "OpenHands SDK": (
        "A/OpenHands+software-agent-sdk",
        readers.session_reader("openhands-sdk"),
        OVERLAPPING,
    ),
    "BFCL multi-turn": ("A/ShishirPatil+gorilla", readers.session_reader("gorilla"), OVERLAPPING),
    "pi": ("A/badlogic+pi-mono", readers.session_reader("pi-mono"), OVERLAPPING),
    "crewAI": ("A/crewAIInc+crewAI", readers.cassettes, OVERLAPPING),
    "Claude Code": ("B/callanjfox+kv-cache-tester/traces", readers.traces, OVERLAPPING),
    "Mooncake": ("B/kvcache-ai+Mooncake", readers.blocks, OVERLAPPING),
    "MultiWOZ": ("C/ConvLab+ConvLab-2/data/multiwoz/val.json.zip", readers.multiwoz, OVERLAPPING),
    "GoodAI": ("C/GoodAI+goodai-ltm-benchmark", readers.memory, OVERLAPPING),
    "MMLU": ("R/lm-sys+RouteLLM/mmlu", readers.subjects, OVERLAPPING),
    "SGD": (
        "C/google-research-datasets+dstc8-schema-guided-dialogue/dev",
        readers.dialogues,
        OVERLAPPING,
    ),
    "GPTCache": ("S/zilliztech+GPTCache/mock_data.json", readers.questions, OVERLAPPING),
}
