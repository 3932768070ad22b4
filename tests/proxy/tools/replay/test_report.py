"""A replay's outcome, told."""

from pathlib import Path

import msgspec
import orjson
from rich.console import Console

from proxy.prefix.explain.reasons import MissReason
from proxy.tools.replay.compaction import ReplayedCompaction
from proxy.tools.replay.report import ReportDetails, remarks, report_json, table
from proxy.tools.replay.run import ReplayOutcome, replay
from proxy.tools.replay.source import RecordedSource, UnreplayableLine
from proxy.tools.replay.unmoved_text import UnmovedFeature
from proxy.tools.replay.variant_totals import MissesByReason, VariantRow
from tests.proxy.tools.replay.scene import RULES, dialogue, prompt_reader, system, with_times

ROW = VariantRow(
    name="as sent",
    hit_rate=0.125,
    input_tokens=1_600,
    cache_read_tokens=200,
    cache_write_tokens=100,
    fresh_tokens=1_300,
    output_tokens=10,
    cost_usd_per_1k=12.5,
)


def source(*bad: UnreplayableLine) -> RecordedSource:
    found = RecordedSource([Path("unread")])
    found.bad, found.bad_count = list(bad), len(bad)
    return found


def output_of(*rows: VariantRow) -> str:
    console = Console(width=200)
    with console.capture() as text:
        console.print(table(rows))
    return text.get()


def test_a_row_shows_its_figures():
    shown = output_of(ROW, msgspec.structs.replace(ROW, name="ceiling", closed=1.0))

    assert "12.5%" in shown
    assert "1,300" in shown
    assert "12.5000" in shown
    assert "100%" in shown


def test_an_unknown_cost_is_said_to_be_unknown():
    assert "unknown" in output_of(msgspec.structs.replace(ROW, cost_usd_per_1k=None))


def test_the_json_has_the_same_fields_for_every_variant(vocabulary):
    outcome = replay(with_times(dialogue(system(*RULES), 2)), prompt_reader("marks", vocabulary))

    why = UnmovedFeature(feature="mail", calls=2, why="because")

    found = orjson.loads(
        report_json(
            outcome,
            source(UnreplayableLine("a", 3, "no")),
            prompt_reader("marks", vocabulary),
            ReportDetails(unmoved=(why,)),
        )
    )

    assert found["arranged_why"] == [{"feature": "mail", "calls": 2, "why": "because"}]

    assert found["bad"] == [{"file": "a", "line": 3, "why": "no"}]
    assert found["calls"] == 2
    assert found["sent_before_tokens"] == found["variants"][1]["cache_read_tokens"] > 0
    assert {"name", "hit_rate", "input_tokens", "cache_read_tokens"} <= found["variants"][0].keys()
    assert {"cache_write_tokens", "cost_usd_per_1k", "misses"} <= found["variants"][0].keys()
    assert found["variants"][0].keys() == found["variants"][1].keys()


def test_everything_that_was_not_replayed_is_said():
    misses = (
        MissesByReason(MissReason.FIRST_SEEN, "", 70, 2),
        MissesByReason(MissReason.EXPIRED, "", 9, 1),
    )
    row = msgspec.structs.replace(ROW, misses=misses, refused=3)
    outcome = ReplayOutcome(
        calls=5,
        unanswered=1,
        left_out={"no wizard": 2, "no witch": 1},
        left_out_first={"no wizard": "a:7"},
        variants=(row, ROW),
    )

    said = list(remarks(outcome, source(UnreplayableLine("a", 3, "no call"))))

    assert said == [
        (
            "Not read, as sent: 70 tokens seen for the first time (2 calls);"
            " 9 tokens expired (1 call)."
        ),
        "3 calls of as sent would have been refused for their marks.",
        "Without a recorded answer: 1 call; the output of such calls costs nothing here.",
        "2 calls left out, first a:7: no wizard.",
        "1 call left out: no witch.",
        "1 line is no call:",
        "  a:3: no call",
    ]


def test_rows_of_which_the_same_is_to_be_said_share_a_line():
    same = (MissesByReason(MissReason.BELOW_MINIMUM, "", 70, 2),)
    other = (MissesByReason(MissReason.DIVERGED, "in the system text", 9, 1),)
    rows = [
        msgspec.structs.replace(ROW, name=name, misses=misses)
        for name, misses in (("as sent", same), ("marked", other), ("arranged", same))
    ]
    outcome = ReplayOutcome(calls=2, unanswered=0, left_out={}, variants=tuple(rows))

    assert list(remarks(outcome, source())) == [
        "Not read, as sent, arranged: 70 tokens in prompts below the cache's minimum (2 calls).",
        (
            "Not read, marked: 9 tokens behind what parted from earlier calls in the system text"
            " (1 call)."
        ),
    ]


def test_text_that_was_not_moved_is_reported_with_its_reason_on_one_short_line():
    unmoved = (
        UnmovedFeature(feature="mail", calls=1_200, why="its calls have no instructions"),
        UnmovedFeature(feature="", calls=3, why="no call could be planned: " + "a\nb " * 100),
    )
    outcome = ReplayOutcome(calls=1, unanswered=0, left_out={}, variants=(ROW,))

    known, long = remarks(outcome, source(), ReportDetails(unmoved=unmoved))

    assert known == (
        "Nothing arranged, feature mail (1,200 calls): its calls have no instructions."
    )
    assert long.startswith("Nothing arranged, calls without a feature (3 calls): no call could")
    assert long.endswith("….")
    assert "\n" not in long
    assert len(long) < 200


def test_compactions_are_reported_with_the_lengths_of_all_prompts(vocabulary):
    compacted = ReplayedCompaction(
        calls=3,
        resets=1,
        trimmed=2,
        uncompacted={"too_few_calls": 4, "signed": 5, "below_least": 1, "x": 1},
    )
    rows = (ROW, msgspec.structs.replace(ROW, name="compacted", input_tokens=800))
    outcome = ReplayOutcome(calls=14, unanswered=0, left_out={}, variants=rows)

    assert list(remarks(outcome, source(), ReportDetails(compaction=compacted))) == [
        (
            "Compacted: 3 of 14 calls, with 1 reset; in 2 others only tool results were"
            " shortened. All prompts: 1,600 → 800 tokens (-50.0%)."
        ),
        (
            "Not compacted, 11 calls: thinking is signed together with what stood before it (5);"
            " too few calls (4); too short to be worth it (1)."
        ),
    ]
    found = orjson.loads(
        report_json(
            outcome,
            source(),
            prompt_reader("marks", vocabulary),
            ReportDetails(compaction=compacted),
        )
    )
    assert found["compacted"] == {
        "calls": 3,
        "resets": 1,
        "trimmed": 2,
        "uncompacted": dict(compacted.uncompacted),
        "tokens_before": 1_600,
        "tokens_after": 800,
    }


def test_where_compaction_was_not_tried_nothing_is_said_of_it():
    outcome = ReplayOutcome(calls=1, unanswered=0, left_out={}, variants=(ROW,))

    assert (
        list(remarks(outcome, source(), ReportDetails(compaction=ReplayedCompaction(calls=1))))
        == []
    )


def test_tokens_that_a_caches_rules_keep_unread_are_reported_where_there_are_any():
    ceiling = msgspec.structs.replace(ROW, name="ceiling", cache_read_tokens=1_080)
    outcome = ReplayOutcome(
        calls=1, unanswered=0, left_out={}, variants=(ROW, ceiling), sent_before=1_200
    )

    (said,) = remarks(outcome, source())
    assert said == (
        "This cache keeps whole units alone: of 1,200 tokens that earlier calls had sent, it lets"
        " 1,080 be read, whatever the order."
    )
    assert list(remarks(msgspec.structs.replace(outcome, sent_before=1_080), source())) == []


def test_where_all_is_well_nothing_is_said():
    assert (
        list(remarks(ReplayOutcome(calls=1, unanswered=0, left_out={}, variants=(ROW,)), source()))
        == []
    )
