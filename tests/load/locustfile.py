"""Locust's side of the load: a user for each mix, and figures that HTTP alone does not show.

Beside each call's duration, events of the types TTFT (ms), TOKENS (a call's) and COST (millionths
of a dollar) are booked on its mix.
"""

import json
import os
import time
from pathlib import Path
from random import Random
from typing import Any

from locust import HttpUser, between, events, task

from tests.load.answers import AnswerOutcome, read_stream, read_whole
from tests.load.mixes import MIXES, Scene, Step
from tests.load.report import COST, TOKENS, TTFT, ReportRow

#: Where figures go at the end, and the key of the calls; the runner sets them.
FIGURES, KEY = "LOAD_FIGURES", "LOAD_KEY"
_TIMEOUT = 60.0


class SceneUser(HttpUser):
    """Somebody who goes through scenes of one mix for as long as the load lasts."""

    abstract = True
    wait_time = between(0.2, 1.0)
    scene: Any

    def on_start(self) -> None:
        """Take the key."""
        self.random = Random(id(self))  # noqa: S311 - variety, no secret
        self.client.headers["authorization"] = f"Bearer {os.environ[KEY]}"  # noqa: TID251 - locust starts us
        self.client.trust_env = False

    @task
    def play(self) -> None:
        """One scene, from its first call to its last."""
        scene: Scene = type(self).scene(self.random)
        step = next(scene)
        while True:
            outcome = self.call(step)
            if outcome.error:
                return
            try:
                step = scene.send(outcome.text)
            except StopIteration:
                return
            self.wait()

    def call(self, step: Step) -> AnswerOutcome:
        """Make a call and book its figures."""
        headers = {
            "content-type": "application/json",
            "x-thriftgate-feature": step.mix,
            "x-thriftgate-trailer": "1",
        }
        began = time.perf_counter()
        sent = self.client.post(
            step.path,
            data=step.data,
            headers=headers,
            name=step.mix,
            stream=step.is_stream,
            catch_response=True,
            timeout=_TIMEOUT,
        )
        with sent as answer:
            outcome = _outcome(step, answer, began)
            # Of a stream, Locust's own clock stops at the head.
            answer.request_meta["response_time"] = (time.perf_counter() - began) * 1000
            if outcome.error:
                answer.failure(outcome.error)
            else:
                answer.success()
            answer.close()
        self._book(step.mix, outcome)
        return outcome

    def _book(self, mix: str, outcome: AnswerOutcome) -> None:
        figures = {
            TTFT: None if outcome.ttft is None else outcome.ttft * 1000,
            TOKENS: outcome.tokens or None,
            COST: None if outcome.cost is None else outcome.cost * 1e6,
        }
        for kind, figure in figures.items():
            if figure is not None:
                self.environment.events.request.fire(
                    request_type=kind,
                    name=mix,
                    response_time=figure,
                    response_length=0,
                    exception=None,
                    context={},
                )


def _outcome(step: Step, answer: Any, began: float) -> AnswerOutcome:
    if answer.status_code != step.expects:
        detail = answer.text[:200] if answer.status_code else answer.error
        return AnswerOutcome(error=f"{answer.status_code} in place of {step.expects}: {detail}")
    if step.expects != 200:
        return AnswerOutcome()
    if step.is_stream:
        lines = answer.iter_lines(chunk_size=None)
        return read_stream(lines, lambda: time.perf_counter() - began, step.leaves_after)
    return read_whole(answer.content, answer.headers.get("x-thriftgate-cost-usd", ""))


def _user(scene: Any, weight: int) -> type[SceneUser]:
    name = "".join(word.title() for word in scene.__name__.split("_"))
    return type(name, (SceneUser,), {"scene": staticmethod(scene), "weight": weight})


for _scene, _weight in MIXES.items():
    globals()[_scene.__name__.title().replace("_", "")] = _user(_scene, _weight)


@events.quitting.add_listener
def write_figures(environment: Any, **_: Any) -> None:
    """Write every entry of the statistics where the runner reads them."""
    if FIGURES not in os.environ:  # noqa: TID251 - locust starts us
        return
    rows = [
        ReportRow(
            kind=entry.method,
            mix=entry.name,
            calls=entry.num_requests,
            failures=entry.num_failures,
            total=entry.total_response_time,
            p50=entry.get_response_time_percentile(0.5) or 0,
            p95=entry.get_response_time_percentile(0.95) or 0,
            p99=entry.get_response_time_percentile(0.99) or 0,
        )._asdict()
        for entry in environment.stats.entries.values()
    ]
    errors = [f"{e.name}: {e.error} ({e.occurrences})" for e in environment.stats.errors.values()]
    figures = json.dumps({"rows": rows, "errors": errors})
    Path(os.environ[FIGURES]).write_text(figures, encoding="utf8")  # noqa: TID251 - see above
