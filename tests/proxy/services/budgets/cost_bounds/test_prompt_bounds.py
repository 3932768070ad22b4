import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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


def test_a_body_of_up_to_16_kib_without_tools_has_the_small_template():
    assert text_bound(b"1" * 16_384, route()) == 16_384 + 256
    assert text_bound(b"1" * 16_385, route()) == 16_385 + 2_048


class CountingExecutor(ThreadPoolExecutor):
    """A thread for a loop's work, which counts what it is given."""

    jobs = 0

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        self.jobs += 1
        return super().submit(*args, **kwargs)


@pytest.mark.parametrize(("size", "jobs"), [(65_536, 0), (65_537, 1)])
async def test_bodies_over_64_kib_are_looked_through_on_a_thread(size: int, jobs: int):
    with CountingExecutor(max_workers=1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)
        body = b'{"input":"' + b"1" * (size - 12) + b'"}'
        await prompt_bound(body, body, "responses", route())

        assert (len(body), executor.jobs) == (size, jobs)
