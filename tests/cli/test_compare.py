from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Osmef

SAMPLE = Path(__file__).parents[1] / "results/data/quickstart-20261121T031500Z-3f9a"
BTC = "aggregate_btc_bps"
MakeRun = Callable[[str, float], str]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Return a function that makes a run of six trials around a rate, and gives its path."""

    def make(name: str, rate: float) -> str:
        run = tmp_path / name
        shutil.copytree(SAMPLE, run)
        trial = json.loads((run / "trials.jsonl").read_text().splitlines()[0])
        lines = []
        for index in range(6):
            metrics = {**trial["metrics"], BTC: rate * (1 + index / 1000)}
            lines.append(json.dumps({**trial, "index": index, "metrics": metrics}))
        (run / "trials.jsonl").write_text("\n".join(lines) + "\n")
        return str(run)

    return make


@pytest.mark.parametrize(
    ("rate", "verdict", "code"), [(1e9, "same", 0), (0.5e9, "worse", 1), (2e9, "better", 0)]
)
def test_a_regression_fails(
    osmef: Osmef, make_run: MakeRun, rate: float, verdict: str, code: int
) -> None:
    ended = osmef(
        "compare", make_run("a", 1e9), make_run("b", rate), "--metric", BTC, "--fail-on",
        "regression", "--json",
    )  # fmt: skip
    assert ended.code == code, ended.err
    (row,) = ended.json()["rows"]
    assert (row["metric"], row["verdict"]) == (BTC, verdict)
    assert (row["n_a"], row["n_b"], row["reason"]) == (6, 6, None)


def test_what_is_unknown_of_a_killed_run_is_no_difference(osmef: Osmef, make_run: MakeRun) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    (Path(b) / "summary.json").unlink()
    for first, second in ((a, b), (b, a)):
        ended = osmef("compare", first, second, "--metric", BTC, "--json").json()
        assert ended["differs"] == []
        assert not [note for note in ended["notes"] if "none" in note]
        assert any("its hosts and settings are not known" in note for note in ended["notes"])


def test_flavors_that_only_one_side_has_are_a_difference(osmef: Osmef, make_run: MakeRun) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    path = Path(b) / "summary.json"
    summary = json.loads(path.read_text())
    ends = [one | {"flavor": None} for one in summary["endpoints"]]
    path.write_text(json.dumps(summary | {"endpoints": ends}))
    assert "sender_flavors is small in A and none in B" in osmef("compare", a, b).err


def test_a_cell_that_b_lost_is_a_regression(osmef: Osmef, make_run: MakeRun) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    path = Path(a) / "trials.jsonl"
    known = [json.loads(line) for line in path.read_text().splitlines()]
    more = [{**one, "index": one["index"] + 1000, "cell": "other"} for one in known]
    path.write_text(path.read_text() + "".join(json.dumps(one) + "\n" for one in more))
    ended = osmef("compare", a, b, "--metric", BTC, "--fail-on", "regression", "--json")
    assert ended.code == 1, ended.err
    assert [row["verdict"] for row in ended.json()["rows"]] == ["same"]
    assert osmef("compare", b, a, "--metric", BTC, "--fail-on", "regression").code == 0


def test_the_comparison_shows_a_table_and_differences_of_the_hosts(
    osmef: Osmef, make_run: MakeRun
) -> None:
    a, b = make_run("a", 1e9), make_run("b", 0.5e9)
    path = Path(b) / "summary.json"
    summary = json.loads(path.read_text())
    summary["endpoints"][0]["facts"]["before"]["kernel"] = {"release": "6.9"}
    path.write_text(json.dumps(summary))
    ended = osmef("compare", a, b, "--metric", BTC)
    assert ended.code == 0
    assert "-50.0" in ended.out
    assert "worse" in ended.out
    assert "kernel.release was unknown, is 6.9" in ended.err


def test_a_smaller_path_mtu_than_before_is_reported(osmef: Osmef, make_run: MakeRun) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    for run, mtu in ((a, 1500), (b, 1450)):
        path = Path(run) / "summary.json"
        summary = json.loads(path.read_text())
        summary["endpoints"][0]["facts"]["path_mtu_bytes"] = {"far": mtu}
        path.write_text(json.dumps(summary))
    assert "path_mtu_bytes to far was 1500, is 1450" in osmef("compare", a, b).err


def test_a_path_to_an_endpoint_of_one_run_alone_is_no_change_of_the_host(
    osmef: Osmef, make_run: MakeRun
) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    path = Path(a) / "summary.json"
    summary = json.loads(path.read_text())
    summary["endpoints"][0]["facts"]["path_mtu_bytes"] = {"far-1": 1500, "far-2": 1500}
    path.write_text(json.dumps(summary))
    assert osmef("compare", a, b, "--json").json()["hosts"] == {}


def test_nothing_of_long_names_is_cut_off(osmef: Osmef, make_run: MakeRun) -> None:
    shared = "protocol=tcp,block_bytes=131072,sender_congestion_control=bbr,mss_bytes=1448"
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    for run in (a, b):
        path = Path(run) / "trials.jsonl"
        known = [json.loads(line) for line in path.read_text().splitlines()]
        more = [
            {**one, "index": 1000 * n + one["index"], "cell": f"{shared},block={n}"}
            for n in (1, 8)
            for one in known
        ]
        path.write_text("".join(json.dumps(one) + "\n" for one in more))
    ended = osmef("compare", a, b, "--metric", BTC)
    lines = ended.out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("block=")] == [
        "block=1",
        "block=8",
    ]
    assert f"All cells: {shared.replace(',', ', ')}." in lines


def test_the_verdicts_are_added_up(osmef: Osmef, make_run: MakeRun) -> None:
    ended = osmef("compare", make_run("a", 1e9), make_run("b", 0.5e9), "--metric", BTC)
    lines = ended.out.splitlines()
    assert any("1 → 0.501 Gbit/s" in line and "worse" in line for line in lines), ended.out
    assert "1 comparison: 1 worse." in lines


def test_correlated_trials_are_reported_in_one_note(osmef: Osmef, make_run: MakeRun) -> None:
    """Not one for each of a dozen metrics."""
    runs = [Path(make_run(name, 1e9)) for name in "ab"]
    for run in runs:
        trials = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
        lines = []
        for index in range(24):
            metrics = dict.fromkeys(trials[0]["metrics"], 100.0 + index // 6)
            lines.append(json.dumps({**trials[0], "index": index, "metrics": metrics}))
        (run / "trials.jsonl").write_text("\n".join(lines) + "\n")
    told = osmef("compare", *map(str, runs)).err
    assert told.count("allow for it") == 1
    assert "allow for it: aggregate BTC 0." in told
    assert "other metrics less" in told


def test_hosts_in_one_run_only_are_reported(osmef: Osmef, make_run: MakeRun) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    assert "not compared" not in osmef("compare", a, b, "--metric", BTC).err
    path = Path(b) / "summary.json"
    summary = json.loads(path.read_text())
    old = [one["name"] for one in summary["endpoints"]]
    for number, one in enumerate(summary["endpoints"]):
        one["name"] = f"other-{number}"
    path.write_text(json.dumps(summary))
    notes = osmef("compare", a, b, "--metric", BTC, "--json").json()["notes"]
    told = f"only A has {', '.join(sorted(old))}, only B has other-0, other-1"
    assert [told in note for note in notes].count(True) == 1


def test_several_runs_a_side_are_taken_together(
    osmef: Osmef, make_run: MakeRun, tmp_path: Path
) -> None:
    for number in range(4):
        make_run(f"old-{number}", 1e9)
        make_run(f"new-{number}", 0.5e9)
    (tmp_path / "campaign").mkdir()
    for run in tmp_path.glob("new-*"):
        run.rename(tmp_path / "campaign" / run.name)
    ended = osmef("compare", "old-*", "campaign", "--metric", BTC, "--json")
    (row,) = ended.json()["rows"]
    assert (row["n_a"], row["n_b"], row["unit"], row["verdict"]) == (4, 4, "runs", "worse")
    for path in tmp_path.glob("*/scenario.yaml"):
        if path.parent.name == "old-1":
            path.write_text(path.read_text().replace("workload: {", "workload: {warmup: 1s, "))
    refused = osmef("compare", "old-*", "campaign")
    assert refused.code == 2
    assert "warmup" in refused.err


def test_cells_of_two_scenarios_are_not_mixed(osmef: Osmef, make_run: MakeRun) -> None:
    for name, rate in (("a-1", 1e9), ("a-2", 3e9), ("b-1", 1e9), ("b-2", 1e9)):
        path = Path(make_run(name, rate)) / "summary.json"
        told = json.loads(path.read_text())
        told["run"]["scenario"] = f"scenario-{name[-1]}"
        path.write_text(json.dumps(told))
    rows = osmef("compare", "a-*", "b-*", "--metric", BTC, "--json").json()["rows"]
    verdicts = {row["cell"]: (row["n_a"], row["verdict"]) for row in rows}
    assert verdicts == {
        "scenario-1: connections=1": (6, "same"),
        "scenario-2: connections=1": (6, "worse"),
    }


def test_the_where_option_compares_only_the_selected_cells(osmef: Osmef, make_run: MakeRun) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    for run, rates in ((a, (1e9, 1e9)), (b, (1e9, 0.5e9))):
        path = Path(run) / "trials.jsonl"
        made = [json.loads(line) for line in path.read_text().splitlines()]
        told = [
            {**one, "cell": f"n={n}", "metrics": {BTC: rate}, "index": 100 * n + one["index"]}
            for n, rate in enumerate(rates, 1)
            for one in made
        ]
        path.write_text("".join(json.dumps(one) + "\n" for one in told))
    options = ("--metric", BTC, "--fail-on", "regression", "--json")
    whole = osmef("compare", a, b, *options)
    assert (whole.code, len(whole.json()["rows"])) == (1, 2), whole.err
    one = osmef("compare", a, b, "--where", "cell=n=1", *options)
    assert one.code == 0, one.err
    assert [(row["cell"], row["verdict"]) for row in one.json()["rows"]] == [("n=1", "same")]
    none = osmef("compare", a, b, "--where", "cell=n=3", *options)
    assert none.code == 2
    assert f"no trial of {a} is left" in none.json()["error"]["message"]


def test_too_few_trials_are_inconclusive(osmef: Osmef) -> None:
    ended = osmef("compare", str(SAMPLE), str(SAMPLE), "--fail-on", "inconclusive")
    assert ended.code == 1
    assert "are too few" in " ".join(ended.out.split())


def test_a_comparison_of_different_definitions_is_rejected(osmef: Osmef, make_run: MakeRun) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    scenario = Path(b) / "scenario.yaml"
    scenario.write_text(scenario.read_text().replace("duration: 1s", "duration: 60s"))
    ended = osmef("compare", a, b)
    assert ended.code == 2
    assert "workload.duration is 1.0 and 60.0, in cell all" in ended.err


def test_settings_that_differ_are_named_as_the_scenario_names_them(
    osmef: Osmef, make_run: MakeRun
) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    program = "{{kind: program, run: [{{on: sender, argv: [echo]}}], metrics: {{x: {{{}}}}}}}"
    for run, how in ((a, "json: a"), (b, "pattern: '(.)'")):
        path = Path(run) / "scenario.yaml"
        (line,) = (one for one in path.read_text().splitlines() if one.startswith("workload:"))
        path.write_text(path.read_text().replace(line, f"workload: {program.format(how)}"))
    ended = osmef("compare", a, b)
    assert ended.code == 2
    assert "workload.metrics.x.json is a and not set, in cell all" in ended.err


def test_an_unknown_metric_is_refused(osmef: Osmef) -> None:
    ended = osmef("compare", str(SAMPLE), str(SAMPLE), "--metric", "speed")
    assert ended.code == 2
    assert "neither run has a metric 'speed'" in ended.err
    assert "aggregate_btc_bps" in ended.err


def test_a_metric_without_a_way_needs_one_to_fail(osmef: Osmef, make_run: MakeRun) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    for run, mean in ((a, 1000), (b, 10)):
        path = Path(run) / "trials.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        told = [{**one, "metrics": {"frames": mean + one["index"]}} for one in lines]
        path.write_text("".join(json.dumps(one) + "\n" for one in told))
    nothing = osmef("compare", a, b)
    assert nothing.code == 2
    assert "better direction" in nothing.err
    refused = osmef("compare", a, b, "--metric", "frames", "--fail-on", "regression")
    assert refused.code == 2
    assert "whether frames should be higher or lower is not known" in refused.err
    alone = osmef("compare", a, b, "--better", "higher")
    assert (alone.code, "add --metric" in alone.err) == (2, True)
    for better, verdict, code in (("higher", "worse", 1), ("lower", "better", 0)):
        ended = osmef("compare", a, b, "--metric", "frames", "--better", better, "--fail-on",
                      "regression", "--json")  # fmt: skip
        assert (ended.code, ended.json()["rows"][0]["verdict"]) == (code, verdict)
    assert osmef("compare", a, b, "--metric", "frames").code == 0


def test_more_failed_trials_are_a_regression_and_differing_flavors_are_reported(
    osmef: Osmef, make_run: MakeRun
) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    path = Path(b) / "trials.jsonl"
    first = json.loads(path.read_text().splitlines()[0])
    failure = {"kind": "transport", "message": "gone", "where": None, "cure": None}
    lost = {**first, "status": "failed", "failure": failure, "metrics": {}}
    more = [json.dumps({**lost, "index": index}) for index in range(6, 20)]
    path.write_text(path.read_text() + "\n".join(more) + "\n")
    summary = json.loads((Path(b) / "summary.json").read_text())
    for end in summary["endpoints"]:
        end["flavor"] = "large"
    (Path(b) / "summary.json").write_text(json.dumps(summary))
    ended = osmef("compare", a, b, "--metric", BTC, "--fail-on", "regression")
    assert ended.code == 1, ended.err
    told = " ".join(ended.err.split())
    assert "failed 0 of 6, 14 of 20: worse (p = 0.004)" in told
    assert "sender_flavors is small in A and large in B" in told


def test_metrics_that_are_not_judged_are_listed(osmef: Osmef, make_run: MakeRun) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    for run, frames in ((a, 1000), (b, 10)):
        path = Path(run) / "trials.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        told = [{**one, "metrics": {**one["metrics"], "frames": frames}} for one in lines]
        path.write_text("".join(json.dumps(one) + "\n" for one in told))
    found = osmef("compare", a, b, "--json").json()
    assert found["not_judged"] == ["frames"]
    assert (
        "not judged, since neither direction is clearly better (use --better): frames"
        in found["notes"]
    )
    assert osmef("compare", a, b, "--metric", BTC, "--json").json()["not_judged"] == []


def test_a_placement_missing_in_b_is_no_regression(osmef: Osmef, make_run: MakeRun) -> None:
    sides = {
        make_run("a", 1e9): ("same-host", "different-host"),
        make_run("b", 1e9): ("same-host",),
    }
    for run, places in sides.items():
        path = Path(run) / "trials.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        told = [
            {**line, "achieved_placement": place, "index": 100 * n + line["index"]}
            for n, place in enumerate(places)
            for line in lines
        ]
        path.write_text("".join(json.dumps(one) + "\n" for one in told))
    ended = osmef("compare", *sides, "--metric", BTC, "--fail-on", "regression")
    assert ended.code == 0
    assert "which B has at another place" in " ".join(ended.err.split())


@pytest.mark.parametrize(("failed_a", "failed_b", "code"), [(0, 3, 1), (3, 3, 0), (3, 0, 0)])
def test_trials_that_fail_in_b_only_are_a_regression(
    osmef: Osmef, make_run: MakeRun, failed_a: int, failed_b: int, code: int
) -> None:
    sides = {make_run("a", 1e9): failed_a, make_run("b", 1e9): failed_b}
    failure = {"kind": "timeout", "message": "it did not end"}
    for run, count in sides.items():
        path = Path(run) / "trials.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines[:count]:
            line |= {"status": "failed", "failure": failure, "metrics": {}}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert osmef("compare", *sides, "--metric", BTC, "--fail-on", "regression").code == code


def test_comparing_a_campaign_with_a_plain_run_notes_that_a_run_counts_as_a_session(
    osmef: Osmef, make_run: MakeRun
) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    path = Path(a) / "trials.jsonl"
    told = [{**json.loads(line), "session": "monday"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(one) + "\n" for one in told))
    note = "B has no sessions, and the other side has: each run of B counts as one session"
    assert note in osmef("compare", a, b, "--metric", BTC, "--json").json()["notes"]
    assert note not in osmef("compare", b, b, "--metric", BTC, "--json").json()["notes"]


def test_a_correlation_is_claimed_only_where_it_is_proved(osmef: Osmef, tmp_path: Path) -> None:
    steady = [1 + rank / 1000 for rank in (2, 5, 1, 3, 6, 4)]
    creeping = [1 + index / 1000 for index in range(12)]
    for name, rates in (("steady", steady), ("creeping", creeping)):
        run = tmp_path / name
        shutil.copytree(SAMPLE, run)
        trial = json.loads((run / "trials.jsonl").read_text().splitlines()[0])
        lines = [
            json.dumps({**trial, "index": index, "metrics": {BTC: 1e9 * rate}})
            for index, rate in enumerate(rates)
        ]
        (run / "trials.jsonl").write_text("\n".join(lines) + "\n")
    few, proved = (osmef("compare", name, name, "--metric", BTC) for name in ("steady", "creeping"))
    assert "values are autocorrelated" not in few.err
    assert "too few values to rule out" in " ".join(few.err.split())
    assert "values are autocorrelated" in " ".join(proved.err.split())
    assert "too few" not in proved.err


def test_a_comparison_page_lists_failed_trials_and_cells_of_one_side_only(
    osmef: Osmef, make_run: MakeRun, tmp_path: Path
) -> None:
    a, b = make_run("a", 1e9), make_run("b", 1e9)
    for run, name in ((a, "gone"), (b, "new")):
        path = Path(run) / "trials.jsonl"
        known = [json.loads(line) for line in path.read_text().splitlines()]
        if run == b:
            known[0] |= {"status": "failed", "metrics": {}}
        more = [{**one, "index": one["index"] + 1000, "cell": name} for one in known]
        path.write_text("".join(json.dumps(one) + "\n" for one in (*known, *more)))
    page = tmp_path / "page.html"
    ended = osmef("compare", a, b, "-o", str(page))
    words = page.read_text(encoding="utf-8")
    for told in ("failed 0 of 6, 1 of 6", "only A has the cell gone", "only B has the cell new"):
        assert told in ended.err
        assert told in words
