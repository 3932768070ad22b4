from sqlalchemy import Engine

from proxy.store.sql.engine_usage import UpstreamUsage, upstream_usage
from proxy.store.sql.inserts import inserter
from tests.fakes.receipts import START, a_receipt, an_engine_receipt

SINCE = int(START) // 900 * 900


def test_the_use_of_each_upstream_is_summed_and_others_are_left_out(engine: Engine) -> None:
    inserter(engine)(
        [
            an_engine_receipt(1, upstream="house:0", cost_nanos=7),
            an_engine_receipt(2, upstream="house:0", cost_nanos=None),
            an_engine_receipt(3, upstream="house:0", started=SINCE - 10.0),
            a_receipt(4, upstream="openai"),
        ]
    )

    assert upstream_usage(engine, ["house:0", "house:1"], SINCE) == [
        UpstreamUsage(
            upstream="house:0",
            calls=2,
            prompt_tokens=101 + 102 + 2 * (1024 + 7),
            output_tokens=46,
            gpu_micros=1_000_000,
            cost_nanos=7,
            draft_tokens=83,
            accepted_tokens=60,
        )
    ]
