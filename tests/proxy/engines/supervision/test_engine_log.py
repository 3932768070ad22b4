import logging

from proxy.engines.supervision.engine_log import MAX_LINES, EngineLog, harmless_line


def test_lines_are_kept_across_pieces_and_characters_across_bytes(tmp_path):
    log = EngineLog(tmp_path / "a.log")

    for byte in "one\ntwö\nthree".encode():
        log.feed(bytes([byte]))

    assert log.tail() == ("one", "twö")
    log.finish()
    assert log.tail() == ("one", "twö", "three")
    assert log.path.read_text(encoding="utf8") == "one\ntwö\nthree\n"


def test_only_the_last_lines_stay_in_memory(tmp_path):
    log = EngineLog(tmp_path / "a.log")

    log.feed(b"".join(b"%d\n" % n for n in range(1000)))

    assert len(log.tail()) == MAX_LINES
    assert log.tail(2) == ("998", "999")


def test_the_last_exception_is_the_last_line_of_a_traceback_of_this_run(tmp_path):
    log = EngineLog(tmp_path / "a.log")

    log.feed(b"WARNING ImportError: no extra kernels\n    raise ValueError(\n")
    assert not log.last_exception()
    log.feed(b"torch.OutOfMemoryError: CUDA out of memory.\nbye\n")
    assert log.last_exception() == "torch.OutOfMemoryError: CUDA out of memory"
    log.begin_run()
    assert not log.last_exception()
    assert log.tail() == ()
    assert log.path.read_text().endswith("bye\n")


def test_a_long_exception_is_cut(tmp_path):
    log = EngineLog(tmp_path / "a.log")

    log.feed(b"ValueError: " + b"x" * 500 + b"\n")

    assert log.last_exception() == f"ValueError: {'x' * 388}…"


def test_control_characters_are_escaped_and_colours_left_out():
    line = harmless_line("\x1b[31mred\x1b[0m \x07bell \x1b]0;title\x07 \u202eback")

    assert line == r"red \x07bell \x1b]0;title\x07 \u202eback"


def test_bytes_that_are_not_utf8_are_escaped(tmp_path):
    log = EngineLog(tmp_path / "a.log")

    log.feed(b"\xff\xfe\x00\n")

    assert log.tail() == (r"\xff\xfe\x00",)


def test_a_progress_bar_is_one_line_of_the_log():
    assert harmless_line("10%\r50%\r100%\r") == "100%"


def test_output_without_line_ends_does_not_grow_in_memory(tmp_path):
    log = EngineLog(tmp_path / "a.log")

    for _ in range(100):
        log.feed(b"x" * 10_000)

    log.finish()
    assert len(log.tail()[0]) <= 2_001


def test_the_engine_log_is_private_and_rotated(tmp_path):
    log = EngineLog(tmp_path / "logs" / "a.log", max_bytes=100)

    for n in range(100):
        log.feed(b"line %04d\n" % n)
    log.close()

    files = sorted(log.path.parent.iterdir())
    assert [file.name for file in files] == ["a.log", "a.log.1", "a.log.2"]
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert all(file.stat().st_size <= 100 for file in files)
    assert log.path.read_text().endswith("line 0099\n")


def test_a_log_that_cannot_be_written_warns_once_and_keeps_its_lines(tmp_path, caplog):
    (tmp_path / "logs").write_text("a file where the folder should be")
    log = EngineLog(tmp_path / "logs" / "a.log")

    with caplog.at_level(logging.WARNING):
        log.feed(b"one\n")
        log.feed(b"two\n")

    assert log.tail() == ("one", "two")
    assert len(caplog.records) == 1
