# ruff: noqa: T201 - a script prints its result
"""Streams that are cut at random points: how many end whole, and what they are booked at.

``python -m tests.bench.unbroken`` cuts 200 over chat completions, Responses and Messages, between
words or letters. Each is compared with the same stream uncut, and its receipts with the simulator's
own account. The row beside it is the same without a policy.
"""

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from proxy.records.receipt import dollars
from tests.fakes.unbroken_streams import (
    APIS,
    POLICY,
    StreamedAnswer,
    UnbrokenGateway,
    account,
    booked_tokens,
    unbroken_gateway,
)

#: Faults that cut a stream; ``stall``, which takes a deadline each, has a test of its own.
CUTS = ("death", "short", "error-event")
_TOPICS = ("refunds", "parcels", "invoices", "holidays", "warranties", "deliveries", "discounts")


@dataclass
class CutStreams:
    """The streams of one run.

    Attributes:
        continued: Those that went on at least once after their first content.
        repeated: Those whose text is another than that of the uncut stream.
        unbalanced: Those whose receipts are other than the simulator's account.
        faults: Everything amiss, in words.
    """

    streams: int = 0
    continued: int = 0
    whole: int = 0
    repeated: int = 0
    unbalanced: int = 0
    by_api: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def cut_streams(gateway: UnbrokenGateway, count: int, seed: int = 1) -> CutStreams:
    """Streams that are cut at random points, up to three times each."""
    random, result = Random(seed), CutStreams()  # noqa: S311 - repeatable, not secret
    for number in range(count):
        endpoint, model = APIS[number % len(APIS)]
        prompt = f"Tell me about {random.choice(_TOPICS)}, number {random.randrange(10**6)}."
        whole = gateway.ask(endpoint, model, prompt)
        cues = tuple(_cue(random) for _ in range(random.choice((1, 1, 2))))
        answer = gateway.ask(endpoint, model, prompt, cues)
        _compare(result, gateway, (whole, answer), f"{endpoint} {model} {prompt!r} {cues}")
        result.by_api[endpoint] += 1
    return result


def _cue(random: Random) -> str:
    """A cut at a random point, between words or letters."""
    cut = random.choice(CUTS)
    if random.random() < 0.5:
        return f"{cut}={random.randrange(1, 28)}"
    return f"letters={random.randrange(100)},{cut}={random.randrange(1, 120)}"


def _compare(
    result: CutStreams,
    gateway: UnbrokenGateway,
    answers: tuple[StreamedAnswer, StreamedAnswer],
    named: str,
) -> None:
    whole, answer = answers
    receipts = gateway.receipts(answer.call_id)
    accounts = (account(gateway.lab, exchange) for exchange in gateway.exchanges())
    simulated = [one for one in accounts if one is not None]
    is_whole = answer.has_ended and not answer.error and len(answer.names) == 1
    is_same = answer.text == whole.text and all(t == whole.text for t in answer.whole_texts)
    nanos = sum(receipt.cost_nanos or 0 for receipt in receipts)
    is_told = answer.trailer.get("x-thriftgate-cost-usd") == dollars(nanos) or not is_whole
    is_exact = booked_tokens(receipts) == simulated and is_told
    is_exact = is_exact and [receipt.final for receipt in receipts].count(True) == 1
    result.streams += 1
    result.continued += len(receipts) > 1
    result.whole += is_whole and is_same
    result.repeated += is_whole and not is_same
    result.unbalanced += not is_exact
    if not (is_whole and is_same):
        result.faults.append(f"{named}: {answer.error or 'another text'} {answer.text[-80:]!r}")
    if not is_exact:
        result.faults.append(f"{named}: booked {booked_tokens(receipts)}, simulated {simulated}")


def main() -> None:
    """Print a row with continuation and one without."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    chosen = parser.parse_args()
    print("| | streams | went on | whole | other text | booked otherwise |")
    print("|---|---|---|---|---|---|")
    for name, policies in (("continued", POLICY), ("no policy", "")):
        with (
            tempfile.TemporaryDirectory() as folder,
            unbroken_gateway(Path(folder), policies) as gateway,
        ):
            run = cut_streams(gateway, chosen.streams)
        counts = (run.streams, run.continued, run.whole, run.repeated, run.unbalanced)
        print(f"| {name} | " + " | ".join(map(str, counts)) + " |")
        if policies:
            print("\n".join(run.faults))


if __name__ == "__main__":
    main()
