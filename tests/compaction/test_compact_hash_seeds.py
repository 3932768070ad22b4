"""Equal conversations are compacted to equal bytes in every process, whatever its hash seed."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

import orjson

from compaction.compact import compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionPolicy
from tests.fakes.marked_conversations import twins, work

_ROOT: Final = Path(__file__).resolve().parents[2]
_SCRIPT: Final = (
    "from tests.compaction import test_compact_hash_seeds as t; print(*t.digests(), sep='\\n')"
)
_POLICIES: Final = (
    CompactionPolicy(force=True, once=True),
    CompactionPolicy(force=True, once=True, target=600),
    CompactionPolicy(force=True, least=256),
)


def digests() -> list[str]:
    """The digest of each conversation as each policy sends it, with what it says is lost."""
    talks = [twins()["en"], twins()["de"], twins()["zh"], *work().values()]
    return [_digest([*talk.messages] * 3, policy) for talk in talks for policy in _POLICIES]


def _digest(messages, policy):
    raws = [orjson.dumps(message) for message in messages]
    sent = compact(raws, policy, memory=CompactionMemory(), names_lost=True)
    return sha256(b"\n".join([*sent.messages, *map(str.encode, sent.lost)])).hexdigest()


def test_no_byte_depends_on_the_order_of_a_set():
    printed = []
    for seed in ("1", "2"):
        ran = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-c", _SCRIPT],
            cwd=_ROOT,
            env={"PYTHONHASHSEED": seed},
            timeout=100,
            capture_output=True,
            text=True,
            check=True,
        )
        printed.append(ran.stdout.split())

    assert printed[0] == printed[1] == digests()
    assert len(set(printed[0])) > 2 * len(_POLICIES)
