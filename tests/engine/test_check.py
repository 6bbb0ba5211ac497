from pathlib import Path

import pytest

from osmef.engine.check import check_study, warnings_from_facts, warnings_of
from osmef.engine.plan import make_plan
from osmef.errors import InputError
from osmef.providers.local.provider import LocalProvider
from osmef.scenario.fields import Family
from osmef.scenario.load import load_text

BESIDE = "measured beside a background of btc"
ZEROCOPY = "mode zerocopy: the sending end hands over its pages and copies nothing"
DISCARD = "mode discard: the receiving end throws the data away in the kernel"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workload: {kind: btc}", []),
        ("workload: {kind: btc, mode: discard}", [DISCARD]),
        ("sweep: {workload.mode: [copy, zerocopy, discard]}", [DISCARD, ZEROCOPY]),
        (
            "workload: {kind: udp}\nbackground: {kind: btc, mode: zerocopy}",
            [f"background: {ZEROCOPY}", BESIDE],
        ),
    ],
)
def test_settings_that_change_the_meaning_of_the_numbers_are_warned_of(
    text: str, expected: list[str]
) -> None:
    study = load_text(f"name: test\nprovider: local\n{text}", Path("test.yaml"))
    assert [one for one in warnings_of(study) if "CPUs" not in one] == expected


def test_warnings_from_facts_name_the_endpoints_concerned() -> None:
    text = """name: test
workload: {kind: fio, direct: false, size: 1GB}
background: {kind: dbench}
sweep: {placement: [same-host, different-host]}
"""
    plan = make_plan(load_text(text, Path("test.yaml")), seed=1)
    senders = sorted({end.name for cell in plan.cells for end in cell.senders})
    files = {"{dir}": {"type": "tmpfs"}}
    small, large = {"memory": {"total_bytes": 10**9}}, {"memory": {"total_bytes": 10**12}}
    assert warnings_from_facts(plan.cells, {}) == []
    cached = "fit into 1 GB of memory: the page cache is measured, and the disk only in part"
    assert warnings_from_facts(plan.cells, {senders[0]: small, "other": large}) == [
        f"{senders[0]}: 1 GB of files {cached}",
        f"{senders[0]}: background: 30 MB of files {cached}",
    ]
    in_memory = {name: {"file_systems": files} for name in senders}
    assert warnings_from_facts(plan.cells, in_memory)[0] == (
        f"{', '.join(senders)}: the directory of the run is in memory there (tmpfs):"
        " no disk is measured"
    )


@pytest.mark.parametrize(
    ("bundles", "problem", "cure"),
    [
        ("{iperf: /x}", "nothing here runs a program 'iperf'", "did you mean 'iperf3'?"),
        ("{stream: /x}", "nothing here runs a program 'stream'", "give one of: iperf3, stress-ng"),
    ],
)
def test_a_bundle_of_a_program_that_does_not_run_is_a_problem_of_the_file(
    bundles: str, problem: str, cure: str
) -> None:
    text = f"""name: test
workload: {{kind: iperf3, ways: [present], bundles: {bundles}}}
background: {{kind: stress-ng, ways: [present], bundles: {{stress-ng: /y}}}}
"""
    with pytest.raises(InputError) as caught:
        check_study(load_text(text, Path("test.yaml")))
    (found,) = caught.value.problems
    assert (found.message, found.cure, found.line) == (problem, cure, 2)


def test_a_bundle_of_one_of_several_cells_is_none() -> None:
    text = """name: test
sweep:
  workload.kind: [iperf3, iperf2]
workload: {kind: iperf3, ways: [present], bundles: {iperf3: /x, iperf: /y}}
"""
    check_study(load_text(text, Path("test.yaml")))


def test_a_family_that_the_cloud_lacks_is_a_problem_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = load_text("name: test\nsweep:\n  family: [ipv4, ipv6]\n", Path("test.yaml"))
    monkeypatch.setattr(LocalProvider, "families", frozenset({Family.IPV4}))
    with pytest.raises(InputError) as caught:
        check_study(study)
    (problem,) = caught.value.problems
    assert "no addresses of ipv6" in problem.message
    assert problem.cure == "use one of: ipv4"


INVENTORY = "hosts: {a: {ssh: a}, b: {ssh: b}, one: {ssh: one, kind: vm, location: {host: a}}}"
PLACES = """name: test
endpoints: {sender: {kind: host}, receiver: {kind: vm}}
sweep: {placement: [same-host, different-host]}
"""


@pytest.mark.parametrize(
    ("cloud", "lacking", "column"),
    [
        (f"{{kind: static, {INVENTORY}}}", "2 VMs are needed, and the inventory has 1", 33),
        (
            "{kind: openstack, boot: {image: i}, default_flavor: f, hosts: {a: {ssh: a}}}",
            "2 physical hosts are needed, and the inventory has 1",
            73,
        ),
    ],
)
def test_needs_of_all_cells_together_are_checked_like_those_of_each(
    cloud: str, lacking: str, column: int
) -> None:
    study = load_text(f"{PLACES}provider: {cloud}\n", Path("test.yaml"))
    for placement in ("same-host", "different-host"):
        alone = PLACES.replace("[same-host, different-host]", f"[{placement}]")
        check_study(load_text(f"{alone}provider: {cloud}\n", Path("test.yaml")))
    with pytest.raises(InputError) as caught:
        check_study(study)
    (problem,) = caught.value.problems
    assert problem.message == f"for all cells together {lacking}"
    assert (problem.line, problem.column) == (4, column)
    assert problem.cure
