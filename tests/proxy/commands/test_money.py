import pytest

from proxy.commands.money import money


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "$0"),
        (-13_557_500, "-$0.0136"),
        (1_500_000, "$0.0015"),
        (5_123, "$0.00000512"),
        (1, "$0.000000001"),
        (100_000_000_000, "$100"),
        (-1_234_567_891_234, "-$1234.5679"),
    ],
)
def test_an_amount_is_rounded_and_its_sign_stands_before_the_dollar(nanos: int, text: str) -> None:
    assert money(nanos) == text
