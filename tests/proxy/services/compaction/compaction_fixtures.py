"""Calls to compact, and compactions that keep to a script."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from compaction.compact import CompactedChat, ConversationContext
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy
from compaction.quality_evidence import QualityEvidence
from proxy.records.call import Call
from proxy.records.compaction_settings import CompactionDefaults
from proxy.services.compaction.chat_body import CompactionTask
from proxy.services.compaction.compactor import Compactor
from proxy.store.store import Store
from slo.alert import Alert
from tests.fakes.call_dependencies import LoopTasks, call, route
from tests.fakes.databases import migrated_sqlite

NOW = 1_790_000_000.0
SECRET = b"the installation's secret"
ROUTE = route("openai", regime="openai-interval", window=128_000)
Json = dict[str, Any]


def chat_message(role: str, content: object, **more: object) -> Json:
    return {"role": role, "content": content, **more}


def talk(turns: int = 6) -> list[Json]:
    """A conversation of so many turns, and a question."""
    messages = [chat_message("system", "You help."), chat_message("user", "Where is my parcel?")]
    for turn in range(turns):
        messages.append(chat_message("assistant", f"Case {turn} is open. Which number has it?"))
        messages.append(
            chat_message("user", f"It has number {turn}{turn}7. " + "Please look. " * 30)
        )
    return messages


def chat(*messages: Json, **fields: Any) -> Call:
    body = orjson.dumps({"model": "m", "messages": messages or talk(), "seed": 7})
    return call(fields.pop("body", body), **fields)


class Shorter:
    """Puts one message in the place of all that stand between the first and the last.

    Attributes:
        asked: By which policies.
    """

    def __init__(self, error: Exception | None = None, **fields: Any) -> None:
        self._error = error
        self._fields = fields
        self.asked: list[CompactionPolicy] = []

    def __call__(
        self,
        raws: Sequence[bytes],
        policy: CompactionPolicy,
        *,
        memory: CompactionMemory,
        context: ConversationContext,
    ) -> CompactedChat:
        self.asked.append(policy)
        if self._error is not None:
            raise self._error
        defaults = {
            "messages": (
                raws[0],
                orjson.dumps(chat_message("user", "In short: parcels.")),
                raws[-1],
            ),
            "changed": True,
            "reason": "pays",
            "tokens_before": 900,
            "tokens_after": 100,
            "compacted_messages": len(raws) - 2,
            "reset": True,
            "break_even": 2.5,
            "evidence": QualityEvidence(needed=3, lost=1),
        }
        return CompactedChat(**{**defaults, **self._fields})


def task(request: Call | None = None, **fields: Any) -> CompactionTask:
    defaults = {
        "policy": CompactionPolicy(),
        "is_dry": False,
        "control_share": 0.0,
        "secret": SECRET,
    }
    return CompactionTask(call=request or chat(), **{**defaults, **fields})


def open_store(folder: Path) -> Store:
    return Store.open(migrated_sqlite(folder / "thriftgate.db"), folder / "journal")


@contextmanager
def room(
    folder: Path, compaction: Callable[..., CompactedChat] | None = None, **fields: Any
) -> Iterator[tuple[Compactor, list[Alert]]]:
    """A compactor of everything, and the alerts it sends."""
    store, alerts = open_store(folder), list[Alert]()

    def send_alert(alert: Alert) -> bool:
        alerts.append(alert)
        return True

    now = fields.pop("now", lambda: NOW)
    defaults: dict[str, Any] = {"mode": CompactionMode.FACTS, "share": 0.0}
    usual = CompactionDefaults(**(defaults | fields))
    compactor = Compactor(store, LoopTasks(), now=now, send_alert=send_alert, defaults=usual)
    compactor.compact_chat = compaction or Shorter()
    try:
        yield compactor, alerts
    finally:
        compactor.close()
        store.close(5)
