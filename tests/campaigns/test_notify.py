"""Telling people, who may listen slowly or not at all."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest
from pydantic import SecretStr

from osmef.campaigns.schedule.model import Notify
from osmef.campaigns.watching.monitoring import Notifier, notify


def test_notifications_do_not_block_and_failures_meanwhile_are_combined(tmp_path: Path) -> None:
    gate, heard = tmp_path / "gate", tmp_path / "heard"
    os.mkfifo(gate)
    command = ["sh", "-c", f"read line < {gate}; cat >> {heard}"]
    messenger = Notifier(Notify(command=command))
    door = os.open(gate, os.O_RDWR)  # nobody who opens it waits
    try:
        messenger.notify({"kind": "failure", "text": "first"})
        os.write(door, b"\n")
        while not heard.exists():
            pass
        for number in range(12):
            messenger.notify({"kind": "failure", "text": f"failure {number}"})
        messenger.notify({"kind": "end", "text": "over"})
        os.write(door, b"\n" * 14)
        assert messenger.close() == []
    finally:
        os.close(door)
    lines = [json.loads(line) for line in heard.read_text().splitlines()]
    assert lines[0] == {"kind": "failure", "text": "first", "more": 0}
    failures = [line for line in lines if line["kind"] == "failure"]
    assert sum(1 + line["more"] for line in failures) == 13
    assert failures[-1]["text"] == "failure 11"
    assert len(failures) < 13
    assert [line["text"] for line in lines if line["kind"] == "end"] == ["over"]


def test_without_a_recipient_no_notification_is_sent() -> None:
    messenger = Notifier(Notify())
    messenger.notify({"kind": "end"})
    assert messenger.close() == []
    assert "notify" not in {thread.name for thread in threading.enumerate()}


def test_a_webhook_port_without_http_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-dropbear\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        webhook = f"http://127.0.0.1:{server.getsockname()[1]}/"
        (problem,) = notify(Notify(webhook=SecretStr(webhook)), {"kind": "end"})
        thread.join()
    assert problem.startswith("the webhook of notify: ")


@pytest.mark.parametrize("command", [["/no/such/program"], ["false"], ["a\0b"]])
def test_a_command_that_fails(command: list[str]) -> None:
    (problem,) = notify(Notify(command=command), {"kind": "end"})
    assert problem.startswith("the command of notify: ")
