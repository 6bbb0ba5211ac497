from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.providers.marks import name_in_text
from osmef.providers.openstack.resource_types import Mark

some_marks = st.builds(
    Mark,
    st.from_regex(
        r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}", fullmatch=True
    ),
    st.integers(0, 2**33),
    st.integers(0, 2**33),
)


@given(some_marks, st.integers(1, 999))
def test_a_mark_is_read_back_from_wherever_it_is_put(mark: Mark, number: int) -> None:
    assert Mark.of_text(mark.text) == mark
    assert Mark.of_tags(mark.tags) == mark
    for what in ("key", "group"):
        assert Mark.of_name(mark.whole_name(f"{what}-{number}")) == mark
    text = mark.text_with(mark.name("ip-1"))
    assert (Mark.of_text(text), name_in_text(text)) == (mark, mark.name("ip-1"))


@given(some_marks)
def test_sites_have_names_of_their_own_and_one_mark(mark: Mark) -> None:
    everywhere = [mark, *(replace(mark, site=site) for site in (1, 2, 12))]
    names = [one.whole_name(f"key-{number}") for one in everywhere for number in (1, 2, 11)]
    assert len(set(names)) == len(names)
    assert [Mark.of_name(name) for name in names] == [mark] * len(names)


@given(some_marks)
def test_a_mark_fits_where_the_cloud_has_room_for_255_letters(mark: Mark) -> None:
    assert len(mark.text_with(mark.name(f"ip-256-{'x' * 80}"))) <= 255 + 60


@pytest.mark.parametrize(
    "text",
    [
        "",
        None,
        "osmef",
        "osmef run=a",
        "my osmef run=a made=1 deadline=2",
        "osmef run=a made=x deadline=2",
    ],
)
def test_foreign_texts_are_not_taken_for_marks(text: str | None) -> None:
    assert Mark.of_text(text) is None
    assert Mark.of_name(text) is None


@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"osmef_run": "a"}, {"osmef_run": "a", "osmef_made": "x", "osmef_deadline": "1"}],
)
def test_other_metadata_is_not_taken_for_a_mark(metadata: dict[str, str] | None) -> None:
    assert Mark.of_tags(metadata) is None


@pytest.mark.parametrize(
    "name", ["osmef-key", "osmef-a-key-1", "osmef-a-key-1-2", "xosmef-a-key-1-2-3"]
)
def test_a_similar_name_is_not_taken_for_a_mark(name: str) -> None:
    assert Mark.of_name(name) is None
