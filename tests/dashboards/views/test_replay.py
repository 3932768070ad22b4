"""The report of a replay as a document."""

import msgspec

from dashboards.views.replay import (
    CostCurve,
    CostCurves,
    FeatureRow,
    ReplayReport,
    SavingStep,
    WayRow,
)

WAY = WayRow(
    name="as sent",
    nanos=None,
    change=None,
    hit_rate=0.5,
    input_tokens=10,
    cache_read_tokens=5,
    cache_write_tokens=0,
    output_tokens=1,
    refused=0,
)


def test_a_report_is_the_same_after_it_was_written_and_read() -> None:
    report = ReplayReport(
        headline="1 call cost $1.",
        calls=1,
        features=(FeatureRow(feature="<b>", calls=1, nanos=7, changes=(None, -0.5)),),
        actions=(SavingStep(what="Go.", commands=("thriftgate serve",)),),
        ways=(WAY,),
        remarks=("One.",),
        curves=CostCurves(calls=(1,), ways=(CostCurve(name="as sent", nanos=(7,)),)),
    )

    assert msgspec.json.decode(msgspec.json.encode(report), type=ReplayReport) == report
