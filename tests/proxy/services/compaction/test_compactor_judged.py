"""A feature judged by the receipts of its calls: it steps back, or somebody is told."""

import asyncio
from typing import Any

import pytest

from compaction.policy import CompactionMode
from proxy.records.receipt import Receipt
from proxy.store.errors import StoreError
from tests.fakes.receipts import a_receipt
from tests.proxy.services.compaction.compaction_fixtures import NOW, ROUTE, chat, room


def receipt(**fields: Any) -> Receipt:
    defaults: dict[str, Any] = {
        "team": "team_1",
        "feature": "chat",
        "started": NOW,
        "compaction": "facts",
    }
    return a_receipt(
        **defaults | {"compacted": True, "tokens_before": 90, "tokens_after": 9} | fields
    )


UNTREATED: Any = {"compacted": False, "compaction_why": "control"}


def record_outcomes(compactor, *receipts):
    async def work():
        for outcome in receipts:
            compactor.record_outcome(outcome)
        await asyncio.gather(*[task for task in compactor._tasks._tasks if not task.done()])

    asyncio.run(work())


@pytest.mark.parametrize("arm", [{}, UNTREATED])
def test_a_feature_that_loses_what_is_needed_steps_back_everywhere_and_people_are_told(
    tmp_path, arm
):
    with room(tmp_path) as (compactor, alerts):
        record_outcomes(compactor, *[receipt(needed=10, lost=4, **arm) for _ in range(5)])
        setting = compactor._store.compaction_settings.current.of("team_1", "chat")
        result = asyncio.run(compactor.compact(chat(), ROUTE))

    assert (setting.stepped, setting.mode, setting.stepped_at) == (CompactionMode.TRIM, None, NOW)
    assert "values that tool calls needed were compacted away" in setting.why
    (alert,) = alerts
    assert alert.title.endswith("was reduced from facts to trim")
    assert result.mode == "trim"


@pytest.mark.parametrize(("endless", "mode"), [(1, None), (3, CompactionMode.FACTS)])
def test_a_feature_whose_model_often_recalls_without_end_steps_back_to_facts(
    tmp_path, endless, mode
):
    recalls: Any = {"compaction": "facts+recall"}
    with room(tmp_path) as (compactor, alerts):
        place = ("team_1", "chat")
        compactor._store.compactions.choose(place, CompactionMode.FACTS_RECALL, "mei", NOW - 1)
        compactor._store.compaction_settings.refresh()
        record_outcomes(
            compactor,
            *[receipt(needed=5, lost=5, **recalls) for _ in range(20 - endless)],
            *[
                receipt(**recalls, compacted=False, compaction_why="recall_failed")
                for _ in range(endless)
            ],
        )
        setting = compactor._store.compaction_settings.current.of(*place)

    assert setting.stepped is mode
    assert len(alerts) == (mode is not None)
    assert setting.why == (
        f"the model recalled without end in {endless} of 20 compacted calls" if mode else ""
    )


def test_losses_of_the_control_arm_are_judged_apart_from_treated_calls(tmp_path):
    with room(tmp_path) as (compactor, alerts):
        record_outcomes(
            compactor,
            *[receipt(needed=100) for _ in range(190)],
            *[receipt(needed=100, lost=5, **UNTREATED) for _ in range(10)],
        )

    assert len(alerts) == 1
    ((_, why),) = alerts[0].facts
    assert why.endswith(" values that tool calls needed were compacted away")


def test_a_feature_steps_back_once_and_receipts_of_other_modes_do_not_count(tmp_path):
    with room(tmp_path) as (compactor, alerts):
        record_outcomes(
            compactor,
            *[receipt(needed=100, lost=90, compaction="trim") for _ in range(5)],
            *[receipt(needed=100, lost=90, final=False) for _ in range(5)],
            *[receipt(needed=0, compacted=False) for _ in range(5)],
        )
        assert alerts == []
        record_outcomes(compactor, *[receipt(needed=100, lost=90) for _ in range(5)])
        record_outcomes(compactor, *[receipt(needed=100, lost=90) for _ in range(5)])

    assert len(alerts) == 1


def test_a_store_that_is_away_is_asked_again_later(tmp_path, monkeypatch):
    with room(tmp_path) as (compactor, alerts):

        async def away(*_args, **_kwargs):
            raise StoreError("away")

        monkeypatch.setattr(compactor._store, "ask", away)
        record_outcomes(compactor, *[receipt(needed=100, lost=90)])
        assert alerts == []
        monkeypatch.undo()
        record_outcomes(compactor, *[receipt(needed=100, lost=90)])

    assert len(alerts) == 1


def test_smaller_prompts_that_cost_more_send_an_alert(tmp_path):
    with room(tmp_path) as (compactor, alerts):
        record_outcomes(
            compactor, *[receipt(compaction_nanos=-5, cost_nanos=100) for _ in range(50)]
        )

    assert {alert.title for alert in alerts} == {
        "Compaction of feature chat of team team_1 cost $0.000000250 more than it saved"
    }


def test_calls_right_after_a_mode_was_set_are_judged(tmp_path):
    with room(tmp_path) as (compactor, alerts):
        compactor._store.compactions.choose(
            ("team_1", "chat"), CompactionMode.FACTS, "mei", NOW - 1
        )
        compactor._store.compaction_settings.refresh()
        record_outcomes(
            compactor, *[receipt(started=NOW - 2, needed=100, lost=90) for _ in range(5)]
        )
        assert alerts == []
        record_outcomes(compactor, *[receipt(needed=10, lost=4) for _ in range(5)])

    assert len(alerts) == 1
