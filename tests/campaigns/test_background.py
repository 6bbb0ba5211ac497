from __future__ import annotations

from pathlib import Path

import pytest

from osmef.campaigns.conductor.service import start_in_background
from osmef.errors import StorageError


def test_no_link_leads_the_log_to_another_file(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.touch()
    (tmp_path / "campaign.log").symlink_to(victim)
    with pytest.raises(StorageError, match="can't write the log of the campaign"):
        start_in_background(["--version"], {}, tmp_path / "campaign.log", lambda _number: True)
    assert victim.read_text() == ""


def test_the_output_of_a_background_process_is_appended_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "campaign.log"
    log.write_text("before\n")
    with pytest.raises(StorageError, match="it ended at once"):
        start_in_background(["no-such-command"], {}, log, lambda _number: False)
    assert log.read_text().startswith("before\n")
    assert "no-such-command" in log.read_text()
