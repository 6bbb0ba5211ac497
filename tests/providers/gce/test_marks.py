from __future__ import annotations

import re
from typing import Any

import pytest
from google.cloud import compute_v1
from hypothesis import given
from hypothesis import strategies as st

from osmef.providers.base import Resource
from osmef.providers.gce.access import Project
from osmef.providers.gce.lookup import region_of
from osmef.providers.gce.network import subnet_of
from osmef.providers.gce.provider import GceProvider
from osmef.providers.gce.resource_types import TYPES, Mark

NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"[a-z0-9_-]{0,63}")
RUNS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,80}-20260101T000000Z-[0-9a-f]{4}", fullmatch=True)
LONGEST = "net-12-northamerica-northeast1"


@given(RUNS, st.sampled_from(["net-1", "vm-120", "northamerica-northeast1-a-12", LONGEST]))
def test_names_and_labels_are_valid_and_keep_the_unique_part_of_the_run_id(
    run: str, what: str
) -> None:
    mark = Mark(run, 1_700_000_000, 1_700_003_600)
    name = mark.name(what)
    assert NAME.fullmatch(name)
    assert len(name) <= 63
    assert name.startswith("osmef-")
    assert name.endswith(f"{run[-22:].lower()}-{what}")
    assert all(LABEL.fullmatch(value) for value in mark.labels.values())
    assert mark.labels["osmef_run"].endswith(run[-22:].lower())


@given(RUNS, st.integers(0, 2**33), st.integers(0, 2**33))
def test_a_mark_survives_as_a_description(run: str, made: int, deadline: int) -> None:
    mark = Mark(run, made, deadline)
    assert Mark.of_text(mark.text) == mark


class Listed(Project):
    """A project whose lists hold what a test says, as the library hands it out."""

    def __init__(self, *networks: compute_v1.Network) -> None:
        self.id, self.access, self.networks = "alpha-1", {}, networks

    def every(self, *_asked: Any, **_fields: Any) -> list[Any]:
        return list(self.networks)


@pytest.mark.parametrize("odd", ["²", "9" * 400, "soon"])
def test_an_unreadable_description_is_reported_and_hides_no_resource(odd: str) -> None:
    mark = Mark("a", 1, 2)
    theirs = compute_v1.Network(name="osmef-b", description=mark.text.replace("2", odd))
    ours = compute_v1.Network(name="osmef-a", description=mark.text)
    lines: list[str] = []
    found = TYPES["network"].owned(Listed(theirs, ours), None, lines.append)
    assert [one.resource.name for one in found] == ["osmef-a"]
    (line,) = lines
    assert "network osmef-b: its mark can't be read" in line


@pytest.mark.parametrize(
    ("kind", "id_", "known"),
    [
        ("instance", "europe-west3-a/osmef-a", True),
        ("instance", None, True),
        ("instance", "osmef-a", False),
        ("instance", "europe-west3-a/", False),
        ("network", "osmef-a", True),
        ("network", "europe-west3-a/osmef-a", False),
        ("instanse", None, False),
    ],
)
def test_resources_of_unknown_kinds_in_a_journal_are_not_accepted(
    kind: str, id_: str | None, known: bool
) -> None:
    assert GceProvider.recognises(Resource("gce", kind, "osmef-a", "a", id_)) is known


@given(st.text())
def test_other_descriptions_are_not_taken_for_marks(text: str) -> None:
    assert Mark.of_text(text) is None
    assert Mark.of_text(None) is None
    assert Mark.of_text(f"osmef run=a made=1 deadline=2{text or ' '}x") is None


def test_networks_of_tenants_and_regions_do_not_overlap() -> None:
    blocks = [subnet_of(tenant, region) for tenant in range(1, 9) for region in range(1, 17)]
    assert not any(a.overlaps(b) for n, a in enumerate(blocks) for b in blocks[:n])
    assert all(block.is_private for block in blocks)


def test_a_zone_s_name_begins_with_its_region() -> None:
    assert region_of("northamerica-northeast1-a") == "northamerica-northeast1"
