"""The files in which gateways report their engines' traffic."""

import stat

from proxy.engines.state.traffic_file import (
    MAX_AGE_S,
    EngineTraffic,
    PrefixReuse,
    ReplicaTraffic,
    TrafficFile,
    read_traffic,
)

NOW = 1_790_000_000.0
REUSE = PrefixReuse(prompt_tokens=100, available=80, captured=70, delivered=60)
REPLICA = ReplicaTraffic(
    name="house:0",
    profile="house",
    model="m",
    base_url="http://a/v1",
    is_healthy=True,
    running=2.0,
    reuse=REUSE,
)


def traffic(pid=7, time=NOW):
    return EngineTraffic(pid=pid, at=time, models={"m": REUSE}, replicas=(REPLICA,))


def test_reports_of_several_gateways_are_read_as_they_were_written(tmp_path):
    for pid in (9, 7):
        TrafficFile(tmp_path, pid).write(traffic(pid))
    TrafficFile(tmp_path, 9).write(traffic(9, NOW + 5))

    assert read_traffic(tmp_path, NOW + 6) == [traffic(7), traffic(9, NOW + 5)]


def test_only_their_owner_can_read_traffic_files(tmp_path):
    TrafficFile(tmp_path, 7).write(traffic())
    (path,) = (tmp_path / "engines").iterdir()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_report_of_a_gateway_that_is_gone_is_none_and_is_removed(tmp_path):
    TrafficFile(tmp_path, 7).write(traffic())

    assert read_traffic(tmp_path, NOW + MAX_AGE_S) == [traffic()]
    assert read_traffic(tmp_path, NOW + MAX_AGE_S + 1) == []
    assert list((tmp_path / "engines").iterdir()) == []


def test_a_gateway_that_ends_removes_its_own(tmp_path):
    file = TrafficFile(tmp_path, 7)
    file.remove()
    file.write(traffic())
    file.remove()

    assert read_traffic(tmp_path, NOW) == []


def test_an_unreadable_traffic_file_is_left_out(tmp_path):
    TrafficFile(tmp_path, 7).write(traffic())
    (tmp_path / "engines/traffic-8.json").write_text("{")

    assert read_traffic(tmp_path, NOW) == [traffic()]
    assert read_traffic(tmp_path / "nowhere", NOW) == []


def test_a_folder_that_cannot_be_written_is_logged_once(tmp_path, caplog):
    (tmp_path / "engines").write_text("a file")
    file = TrafficFile(tmp_path, 7)
    file.write(traffic())
    file.write(traffic())

    assert len([record for record in caplog.records if "cannot be written" in record.message]) == 1
