"""A log of trials that is shorter or longer than the summary of the run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from osmef.results.brief import trial_count_warning
from osmef.results.rundir import RunDirectory
from tests.invoked import invoke

SAMPLE = Path(__file__).parent / "data" / "quickstart-20261121T031500Z-3f9a"


@pytest.fixture
def copied(tmp_path: Path) -> RunDirectory:
    """A run of three trials."""
    return RunDirectory(shutil.copytree(SAMPLE, tmp_path / "results" / SAMPLE.name))


def lines_of(run: RunDirectory) -> list[str]:
    return run.trials.read_text().splitlines(keepends=True)


def test_a_truncated_log_is_noted_with_both_numbers_and_the_cure(copied: RunDirectory) -> None:
    assert trial_count_warning(copied) is None
    first, second, _third = lines_of(copied)
    copied.trials.write_text(first + second[:-9])
    note = trial_count_warning(copied)
    assert note is not None
    assert note.startswith("summary.json counts 3 trials, and trials.jsonl has 1: put ")
    assert note.endswith(f"osmef resume {copied.path}")


def test_a_trial_that_was_measured_again_counts_once(copied: RunDirectory) -> None:
    first, second, third = lines_of(copied)
    copied.trials.write_text(first + second + third + third)
    assert trial_count_warning(copied) is None
    copied.trials.write_text(first + second + second)
    assert "trials.jsonl has 2" in str(trial_count_warning(copied))


def test_more_trials_than_the_summary_counts_are_noted(copied: RunDirectory) -> None:
    """A controller that resumed the run was killed, or measures: the summary is the older one's."""
    more = json.dumps({**json.loads(lines_of(copied)[-1]), "index": 9}) + "\n"
    copied.trials.write_text("".join(lines_of(copied)) + more)
    note = str(trial_count_warning(copied))
    assert note.startswith("summary.json counts 3 trials, and trials.jsonl has 4: it goes on, or")
    assert f"osmef resume {copied.path} " in note


@pytest.mark.parametrize("file", ["summary.json", "trials.jsonl"])
def test_without_one_of_the_files_no_trial_is_missing(copied: RunDirectory, file: str) -> None:
    (copied.path / file).unlink()
    assert trial_count_warning(copied) is None


def test_an_imported_run_is_imported_again(copied: RunDirectory) -> None:
    copied.scenario.unlink()
    copied.trials.write_text("")
    assert str(trial_count_warning(copied)).endswith("or import it again")


@pytest.mark.parametrize(
    "command",
    [
        ("list", "{results}"),
        ("show", "{run}"),
        ("show", "{run}", "--json"),
        ("statistics", "{run}"),
        ("compare", "{run}", "{run}"),
        ("recommend", "{run}", "--btc", "1Mbit/s"),
        ("prices", "rank", "{run}"),
        ("export", "csv", "{run}"),
        ("report", "{run}", "-o", "{results}/report.html"),
        ("plot", "ecdf", "{run}", "-o", "{results}/ecdf.svg"),
    ],
)
def test_commands_that_read_a_run_note_its_missing_trials(
    copied: RunDirectory, command: tuple[str, ...]
) -> None:
    where = {"run": copied.path, "results": copied.path.parent}
    words = [word.format(**where) for word in command]
    note = f"{copied.id}: summary.json counts 3 trials, and trials.jsonl has 1"
    assert note not in invoke(*words).stderr
    copied.trials.write_text(lines_of(copied)[0])
    assert invoke(*words).stderr.count(note) == 1


def test_the_page_of_a_run_notes_its_missing_trials(copied: RunDirectory, tmp_path: Path) -> None:
    copied.trials.write_text(lines_of(copied)[0])
    page = tmp_path / "page.html"
    assert invoke("report", copied.path, "-o", page).exit_code == 0
    assert "summary.json counts 3 trials, and trials.jsonl has 1" in page.read_text()
