"""Tests of what Prometheus reads of a gateway, by Prometheus' own check."""

from tests.fakes.exported_metrics import gateway_page
from tests.fakes.promtool import promtool
from tests.fakes.virtual_clock import run_in_virtual_time


def test_promtool_has_no_warning_for_the_metrics_of_a_gateway(tmp_path):
    page = run_in_virtual_time(lambda: gateway_page(tmp_path))

    assert "thriftgate_ceiling_error_ratio{" in page
    ran = promtool("check", "metrics", text=page.encode())
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, b"")
