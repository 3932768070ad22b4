from proxy.engines.adapters.launch_command import LaunchCommand, LaunchFlag


def test_the_command_line_is_the_program_and_its_flags_in_order():
    command = LaunchCommand(
        program=("vllm", "serve", "m"),
        flags=(
            LaunchFlag(argv=("--port", "8000"), reason="It listens there."),
            LaunchFlag(argv=("--enable-prefix-caching",), reason="Prompts are read once."),
        ),
        base_url="http://127.0.0.1:8000/v1",
        health_url="http://127.0.0.1:8000/health",
    )

    assert command.argv == ("vllm", "serve", "m", "--port", "8000", "--enable-prefix-caching")
