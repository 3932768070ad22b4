import asyncio

import pytest

from proxy.services.budgets.cost_bounds.prompt_bounds import prompt_bound, text_bound
from tests.fakes.call_dependencies import route


def bound(body: bytes, endpoint: str = "responses", window: int | None = None) -> int | None:
    return asyncio.run(prompt_bound(body, body, endpoint, route(window=window)))


def test_no_text_is_more_tokens_than_it_has_bytes_and_its_template_adds():
    assert text_bound(b"1" * 1000, route()) == 1000 + 256
    assert text_bound(b'{"tools":[]}', route()) == 12 + 2048
    assert text_bound(b"1" * 1000, route(window=500)) == 500


@pytest.mark.parametrize(
    ("body", "endpoint"),
    [
        (b'{"messages":[{"type":"image_url"}]}', "chat/completions"),
        (b'{"input":[{"type":"input_file","file_id":"f"}]}', "responses"),
        (b'{"input":"x","previous_response_id":"r"}', "responses"),
        (b'{"input":"x","conversation":"c"}', "responses"),
        (b'{"prompt":{"id":"p"}}', "responses"),
        (b'{"tools":[{"type":"web_search"}]}', "responses"),
    ],
)
def test_a_prompt_of_which_a_part_lies_elsewhere_may_fill_the_window(body, endpoint):
    assert bound(body, endpoint, window=9_999) == 9_999
    assert bound(body, endpoint) is None


def test_a_prompt_that_is_all_text_has_at_most_its_bytes_in_tokens():
    assert bound(b'{"input":"x"}') == 13 + 256
    assert bound(b'{"input":"x"}', window=9_999) == 13 + 256


def test_a_large_prompt_is_looked_through_beside_the_loop_and_never_fills_more_than_the_window():
    large = b'{"input":"' + b"1" * 100_000 + b'"}'
    continued = large[:-1] + b',"conversation":"c"}'

    assert bound(large) == len(large) + 2_048
    assert bound(large, window=400_000) == len(large) + 2_048
    assert bound(large, window=100_000) == 100_000
    assert bound(continued) is None
    assert bound(continued, window=400_000) == 400_000
