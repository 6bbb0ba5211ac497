"""Marks are read from what anybody may write: arguments of processes, tags, descriptions, names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.providers.libvirt import connection as libvirt
from osmef.providers.local import sandbox
from osmef.providers.local.wire import MODULE
from osmef.providers.marks import Mark
from osmef.providers.openstack.resource_types import Mark as OpenStackMark

ODD = ["²", "٣", "1_0", "+1", " 1", "1 ", "-1", "1.5", "", "9" * 12, "9" * 400, "9" * 5000, "1\n"]
TIMES = st.one_of(st.text(), st.sampled_from(ODD), st.integers(0, 10**11 - 1).map(str))
ANYTHING = st.one_of(
    st.text(), st.none(), st.integers(), st.floats(), st.lists(st.text()), st.binary()
)


def whole(mark: Mark | None, run: str, made: str, deadline: str) -> None:
    """See that a mark is none at all, or what was written, to the letter."""
    if mark is None:
        return
    assert (mark.run, mark.made, mark.deadline) == (run, int(made), int(deadline))
    assert all(time.isascii() and time.isdigit() for time in (made, deadline))
    resource = mark.resource("kind", "thing", "name", {})
    assert 0 <= (resource.deadline or 0) < 10**11


@given(st.text(), TIMES, TIMES)
def test_a_mark_is_read_as_it_was_written_or_not_at_all(run: str, made: str, deadline: str) -> None:
    whole(Mark.read(run, made, deadline), run, made, deadline)
    tags = {"osmef_run": run, "osmef_made": made, "osmef_deadline": deadline}
    whole(Mark.of_tags(tags), run, made, deadline)
    text = f"osmef run={run} made={made} deadline={deadline}"
    whole(Mark.of_text(text), run, made, deadline)
    whole(Mark.of_text(text), run, made, deadline)
    whole(OpenStackMark.of_name(f"osmef-{run}-key-1-{made}-{deadline}"), run, made, deadline)
    whole(libvirt.mark_of_name(f"osmef-{run}-pool-{made}-{deadline}", "pool"), run, made, deadline)


@given(st.dictionaries(st.sampled_from([*Mark("a", 1, 2).tags, "Name"]), ANYTHING), ANYTHING)
def test_a_mark_is_read_from_text_only(tags: dict[str, Any], text: Any) -> None:
    mark = Mark.of_tags(tags)
    assert mark is None or all(isinstance(tags[key], str) for key in mark.tags)
    for read in (Mark.of_text, OpenStackMark.of_name):
        assert read(text) is None


@pytest.mark.parametrize("odd", ODD)
def test_marks_with_invalid_times_are_rejected(odd: str) -> None:
    tags = Mark("a", 1, 2).tags
    for key in ("osmef_made", "osmef_deadline"):
        assert Mark.of_tags({**tags, key: odd}) is None
    assert Mark.of_text(f"osmef run=a made=1 deadline={odd}") is None
    assert Mark.of_text(f"osmef run=a made=1 deadline={odd}") is None
    assert OpenStackMark.of_name(f"osmef-a-key-1-1-{odd}") is None
    assert libvirt.mark_of_name(f"osmef-a-pool-1-{odd}", "pool") is None
    assert sandbox._marked(["-m", MODULE, "--run", "a", "--deadline", odd]) is None


@pytest.mark.parametrize("run", ["", "a/b", "a\0b", "a\nb", "a\x1b[2J", "\ud800", "x" * 256])
def test_a_mark_with_an_invalid_run_name_is_rejected(run: str) -> None:
    assert Mark.read(run, "1", "2") is None
    assert sandbox._marked(["-m", MODULE, "--run", run, "--deadline", "1"]) is None


@given(st.lists(st.one_of(st.text(), st.just(MODULE), st.just("--run"), st.just("--deadline"))))
def test_any_arguments_of_a_process_can_be_read(argv: list[str]) -> None:
    found = sandbox._marked(argv)
    assert found is None or (found[0] == argv[-3] and str(int(found[1])) == str(int(argv[-1])))


XML = (
    "<domain><name>x</name><metadata><osmef:run xmlns:osmef='urn:osmef:libvirt:1' {}/></metadata>"
    "</domain>"
)


@pytest.mark.parametrize(
    "description",
    [
        "",
        "<domain",
        "<domain/>",
        XML.format("name='x' id='a' made='²' deadline='2'"),
        XML.format("name='x' id='a' made='1'"),
        XML.format(f"name='x' id='a' made='1' deadline='{'9' * 400}'"),
    ],
)
def test_any_description_of_a_guest_can_be_read(description: str) -> None:
    assert libvirt.mark_of_xml(description) is None
    assert libvirt.address_of_xml(description) is None


def test_a_copied_guest_is_not_ours_and_its_address_is_in_use() -> None:
    text = XML.format("name='y' id='a' made='1' deadline='2' address='10.0.0.1'")
    assert libvirt.mark_of_xml(text) is None
    assert libvirt.address_of_xml(text) == "10.0.0.1"


def test_a_guest_s_mark_is_read() -> None:
    found = libvirt.mark_of_xml(XML.format("name='x' id='a' made='1' deadline='2'"))
    assert found == libvirt.Mark("a", 1, 2)
