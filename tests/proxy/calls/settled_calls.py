"""A route, a tariff and ended attempts that are settled."""

from fractions import Fraction

from proxy.calls.metering.settlement import (
    AttemptOutcome,
)
from proxy.catalog.entries import Route, Upstream
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.records.receipt import Outcome
from slo.price import (
    PricePeriod,
    PriceSheet,
    Tariff,
    TokenRates,
)
from slo.usage import Usage
from tests.fakes.call_dependencies import RATES, route

DEAR = TokenRates(input=2_000_000_000, cache_read=200_000_000, output=8_000_000_000)
TARIFF = Tariff(
    periods=(
        PricePeriod(
            sheets={"": PriceSheet(rates=RATES), "priority": PriceSheet(rates=DEAR)},
            regions={"eu": Fraction(11, 10)},
        ),
    ),
    discount=Fraction(1, 10),
)
USAGE = Usage(input=100, cache_read=50, output=10)
SEAL = Pseudonymizer(b"secret")
BODY = b'{"model":"m","user":"ann","service_tier":"priority"}'


def there(kind: str = "openai", region: str = "") -> Route:
    upstream = Upstream(
        name="up",
        kind="anthropic" if kind == "anthropic" else "openai",
        base_url="http://up/v1",
        region=region,
    )
    return route("up", upstream=upstream, tariff=TARIFF)


def attempt_outcome(**fields: object) -> AttemptOutcome:
    return AttemptOutcome(**{"outcome": Outcome.ANSWERED, "status": 200, "usage": USAGE, **fields})  # type: ignore[arg-type]
