from __future__ import annotations

from pathlib import Path

from tests.bench.report import NOTES, Table, write


def test_a_section_replaces_its_previous_version_and_keeps_the_others(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    write(page, ["## One\n\nold\n", "## Two\n\nkept\n"])
    write(page, ["## One\n\nnew\n", "## Three\n\nadded\n"])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Benchmarks\n")
    notes = NOTES.read_text(encoding="utf-8")
    sections = "\n## One\n\nnew\n\n## Two\n\nkept\n\n## Three\n\nadded\n\n"
    assert text.endswith(sections + notes)
    assert text.count(notes.split("\n", 1)[0]) == 1


def test_a_table_reads_well_in_a_terminal_too() -> None:
    table = Table("Title", ("", "figure"), [("a", "1"), ("long", "2")])
    lines = ["|      | figure |", "|------|--------|", "| a    | 1      |", "| long | 2      |"]
    assert str(table) == "**Title**\n\n" + "\n".join(lines) + "\n"
