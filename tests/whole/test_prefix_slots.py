"""Slots that a caller names in a header or in metadata, through a gateway."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.records.feature_mode import PlanningMode
from tests.fakes.handbook import handbook
from tests.fakes.prefix_harness import MODELS, PrefixHarness, prefix_harness

RULES = handbook(40, "rules")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path) as running:
        running.plan("desk", PlanningMode.OBSERVE)
        yield running


def texts_and_notes(
    harness: PrefixHarness, header: str = "", **fields: Any
) -> tuple[list[str], str]:
    """The texts that the simulator got, in order, and what the gateway says it left as it was."""
    body = {
        "model": MODELS["openai-interval"],
        "messages": [
            {"role": "system", "content": "It is noon on the first day."},
            {"role": "system", "content": RULES},
            {"role": "user", "content": "So?"},
        ],
        **fields,
    }
    answer = harness.client.post(
        f"{harness.url}/chat/completions",
        content=orjson.dumps(body),
        headers={
            "authorization": f"Bearer {harness.key}",
            "content-type": "application/json",
            "x-thriftgate-feature": "desk",
            **({"x-thriftgate-slots": header} if header else {}),
        },
    )
    assert answer.status_code == 200, answer.text
    document = orjson.loads(harness.lab.exchanges[-1].body)
    return [_words(one["content"]) for one in document["messages"]], answer.headers.get(
        "x-thriftgate-notes", ""
    )


def _words(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_text_that_a_header_names_variable_comes_last(harness: PrefixHarness):
    texts, notes = texts_and_notes(harness, "0=variable")

    assert texts[:2] == [RULES, "So?"]
    assert texts[2].endswith("It is noon on the first day.")
    assert notes == ""


def test_metadata_says_the_same(harness: PrefixHarness):
    texts, _ = texts_and_notes(harness, metadata={"thriftgate_slots": "0=variable"})

    assert texts[:2] == [RULES, "So?"]


def test_a_slot_that_is_none_leaves_the_prompt_as_it_came_and_says_so(harness: PrefixHarness):
    texts, notes = texts_and_notes(harness, "0=fickle")

    assert texts == ["It is noon on the first day.", RULES, "So?"]
    assert "'0=fickle' is passed over" in notes
