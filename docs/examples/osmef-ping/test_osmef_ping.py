"""What ping really prints, and the numbers that are read of it."""

from __future__ import annotations

import pytest
from osmef.errors import OutputError
from osmef_ping import Ping, PingSettings, read

ANSWERED = """\
PING 10.0.64.3 (10.0.64.3) 1400(1428) bytes of data.

--- 10.0.64.3 ping statistics ---
10 packets transmitted, 10 received, 0% packet loss, time 956ms
rtt min/avg/max/mdev = 0.107/0.131/0.217/0.029 ms
"""
UNANSWERED = """\
PING 192.0.2.7 (192.0.2.7) 56(84) bytes of data.

--- 192.0.2.7 ping statistics ---
3 packets transmitted, 0 received, 100% packet loss, time 408ms

"""


@pytest.mark.parametrize(
    ("text", "numbers"), [(ANSWERED, (131, 217, 0)), (UNANSWERED, (None, None, 100))]
)
def test_numbers_are_read_of_what_it_prints(text: str, numbers: tuple[float | None, ...]) -> None:
    assert read(text) == dict(zip([one.name for one in Ping.output_measures], numbers, strict=True))


@pytest.mark.parametrize("text", ["", "ping: x: Name or service not known", ANSWERED[:-50]])
def test_what_is_no_output_is_an_error(text: str) -> None:
    with pytest.raises(OutputError):
        read(text)


def test_settings_are_its_options() -> None:
    written = {"duration": "1s", "interval": "100ms", "size": "1400 B"}
    (run,) = Ping(PingSettings.model_validate(written)).runs()
    assert " ".join(run.argv) == "ping -n -q -c 10 -i 0.1 -s 1400 {peer}"
