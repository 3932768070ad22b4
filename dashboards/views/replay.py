"""The report of a replayed log: what ``thriftgate replay`` prints and writes, and a page shows."""

import msgspec


class WayRow(msgspec.Struct, frozen=True, kw_only=True):
    """All calls, sent in one way.

    Attributes:
        nanos: Their cost in nano-dollars; None where a price is unknown.
        change: Share by which that is more (or, below 0, less) than sent unmodified; None likewise.
        hit_rate: Cache-read tokens ÷ input tokens.
        input_tokens: Prompt tokens.
        cache_write_tokens: Of these, stored at a price.
        output_tokens: Generated tokens that are known.
        refused: Calls the provider would have refused for their marks.
    """

    name: str
    nanos: int | None
    change: float | None
    hit_rate: float
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    refused: int


class FeatureRow(msgspec.Struct, frozen=True, kw_only=True):
    """One feature: its cost as sent, and the share by which each way changes that.

    Attributes:
        feature: Its name; "" for calls that name none.
        nanos: Their cost as sent; None where a price is unknown.
        changes: For each other way; None where unknown.
    """

    feature: str
    calls: int
    nanos: int | None
    changes: tuple[float | None, ...]


class ReusedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one feature, or of all, that the answer cache would have served.

    Attributes:
        feature: Its name; "" for calls that name none.
        calls: All calls.
        repeating: Calls whose answers may be given again, by request or declaration.
        hits: Calls that a kept answer would have served.
        nanos: Cost of these without it; None where a price is unknown.
        equal: Calls equal to any earlier one: no exact cache has more hits.
        equal_nanos: Cost of these; None likewise.
    """

    feature: str
    calls: int
    repeating: int
    hits: int
    nanos: int | None
    equal: int
    equal_nanos: int | None


class SavingStep(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do for savings.

    Attributes:
        what: The step, and the money it saves.
        commands: The commands that do it.
    """

    what: str
    commands: tuple[str, ...]


class CostCurve(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one way, call by call.

    Attributes:
        nanos: Cost of all calls up to each point, in nano-dollars.
    """

    name: str
    nanos: tuple[int, ...]


class CostCurves(msgspec.Struct, frozen=True, kw_only=True):
    """Cumulative costs over the calls.

    Attributes:
        calls: Calls up to each point; the last point has all.
        ways: A curve for each way, that of the unmodified one first.
    """

    calls: tuple[int, ...]
    ways: tuple[CostCurve, ...]


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report.

    Attributes:
        headline: The result in a sentence.
        features: By feature, the dearest first.
        actions: Steps to take, the most profitable first.
        ways: One row for each way, and one for the least that these prompts can cost.
        remarks: Facts besides the figures.
        curves: Cumulative costs; None where a price is unknown.
        reuse_summary: The calls that kept answers would have served, in a sentence; "" for none.
        reused: Calls that kept answers would have served, by feature, most hits first; features
            without an equal call are left out.
    """

    headline: str
    calls: int
    features: tuple[FeatureRow, ...]
    actions: tuple[SavingStep, ...]
    ways: tuple[WayRow, ...]
    remarks: tuple[str, ...]
    curves: CostCurves | None
    reuse_summary: str = ""
    reused: tuple[ReusedRow, ...] = ()
