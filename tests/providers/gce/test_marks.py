from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from osmef.providers.gce.marks import Mark, of_text
from osmef.providers.gce.names import region_of
from osmef.providers.gce.networks import subnet_of

NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"[a-z0-9_-]{0,63}")
RUNS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,80}-20260101T000000Z-[0-9a-f]{4}", fullmatch=True)
LONGEST = "net-12-northamerica-northeast1"


@given(RUNS, st.sampled_from(["net-1", "vm-120", "northamerica-northeast1-a-12", LONGEST]))
def test_names_and_labels_fit_the_rules_and_keep_what_tells_runs_apart(run: str, what: str) -> None:
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
    assert of_text(mark.text) == mark


@given(st.text())
def test_other_descriptions_are_no_marks(text: str) -> None:
    assert of_text(text) is None
    assert of_text(None) is None
    assert of_text(f"osmef run=a made=1 deadline=2{text or ' '}x") is None


def test_networks_of_tenants_and_regions_do_not_overlap() -> None:
    blocks = [subnet_of(tenant, region) for tenant in range(1, 9) for region in range(1, 17)]
    assert not any(a.overlaps(b) for n, a in enumerate(blocks) for b in blocks[:n])
    assert all(block.is_private for block in blocks)


def test_region_of_a_zone() -> None:
    assert region_of("northamerica-northeast1-a") == "northamerica-northeast1"
