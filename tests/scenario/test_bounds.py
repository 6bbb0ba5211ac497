"""Reading files takes as long as they are long, whatever is in them: work is counted, not timed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest

from osmef.errors import MOST_PROBLEMS, InputError
from osmef.scenario.load import load, load_text
from osmef.scenario.study import Study
from tests.invoked import invoke

HEAD = "name: x\n"


def keys(n: int) -> str:
    return HEAD + "".join(f"k{number}: 1\n" for number in range(n))


def keys_in_settings(n: int) -> str:
    inner = "".join(f"  k{number}: 1\n" for number in range(n))
    return f"{HEAD}provider:\n{inner}"


def keys_twice(n: int) -> str:
    return HEAD + "seed: 1\n" * n


def tags(n: int) -> str:
    return HEAD + "".join(f"k{number}: !odd{number} 1\n" for number in range(n))


def keys_that_are_lists(n: int) -> str:
    return HEAD + "".join(f"? [{number}]\n: 1\n" for number in range(n))


def axes(n: int) -> str:
    return f"{HEAD}sweep:\n" + "".join(f"  axis{number}: [1]\n" for number in range(n))


def keys_in_many_cells(n: int) -> str:
    """Each cell has each unknown key: what is wrong with all of them is what is with one."""
    values = ", ".join(str(number + 1) for number in range(n // 4))
    return keys(n) + f"sweep: {{connections: [{values}]}}\n"


def exclude(n: int) -> str:
    values = ", ".join(str(number + 1) for number in range(n // 4))
    entries = "".join(
        f"  - {{connections: {number + 1}, duration: 1s}}\n" for number in range(n // 4)
    )
    sweep = f"  connections: [{values}]\n  duration: [1s, 2s]\n  exclude:\n{entries}"
    return f"{HEAD}sweep:\n{sweep}"


def exclude_nothing(n: int) -> str:
    values = ", ".join(str(number + 1) for number in range(n // 4))
    entries = "".join(f"  - {{connections: {number + 5000}}}\n" for number in range(n // 4))
    return f"{HEAD}sweep:\n  connections: [{values}]\n  exclude:\n{entries}"


def conflicts(n: int) -> str:
    """Every cell has one of its own."""
    values = ", ".join(str(number + 1) for number in range(n // 4))
    loop = "endpoints: {loopback: {}}\ntenancy: different-tenant\n"
    return f"{HEAD}{loop}sweep: {{connections: [{values}]}}\n"


def work(text: str) -> tuple[Counter[str], InputError | Study]:
    """Read a scenario, and return how often each function was called meanwhile, also C's."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, function: object) -> None:
        if event == "call":
            calls[frame.f_code.co_name] += 1
        elif event == "c_call":
            calls[getattr(function, "__name__", "?")] += 1

    result: InputError | Study
    sys.setprofile(count)
    try:
        result = load_text(text, Path("x.yaml"))
    except InputError as error:
        result = error
    finally:
        sys.setprofile(None)
    return calls, result


@pytest.mark.parametrize(
    "make",
    [
        keys,
        keys_in_settings,
        keys_twice,
        tags,
        keys_that_are_lists,
        axes,
        keys_in_many_cells,
        exclude,
        exclude_nothing,
        conflicts,
    ],
)
def test_twice_as_much_is_twice_the_work(make: Callable[[int], str]) -> None:
    work(make(8))  # what is looked up once only
    once, _ = work(make(400))
    twice, result = work(make(800))
    assert twice.total() < 2.3 * once.total()
    assert twice["get_close_matches"] <= 2 * MOST_PROBLEMS + 2
    if isinstance(result, InputError):
        assert len(result.problems) <= MOST_PROBLEMS
        assert len(str(result)) < 100_000


def test_the_position_of_a_problem_is_found_without_rescanning_the_file() -> None:
    """A text that is searched once for each problem: the newlines before it are counted."""
    text = HEAD + "\n" * 50_000 + "seed: 1\n" * 1000
    calls, result = work(text)
    assert isinstance(result, InputError)
    assert [one.line for one in result.problems[:2]] == [50_003, 50_004]
    assert calls["finditer"] < 10
    assert calls["rstrip"] < 10
    assert calls["rfind"] < 10


def test_many_problems_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(keys(5000))
    with pytest.raises(InputError) as caught:
        load(file)
    assert [one.line for one in caught.value.problems] == list(range(2, MOST_PROBLEMS + 2))
    assert caught.value.more == 5000 - MOST_PROBLEMS
    assert str(caught.value).endswith("and 4900 more problems")
    shown = invoke("validate", file)
    assert shown.exit_code == 2
    assert shown.output.endswith("and 4900 more\n5000 problems\n")
    excerpts = 5 * 2  # of the first ones only
    assert len(shown.output.splitlines()) == 2 * MOST_PROBLEMS + 2 + excerpts


def test_the_first_problems_of_the_file_are_reported_of_any_kind(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(keys(200) + "repeat: 0\n")
    with pytest.raises(InputError) as caught:
        load(file)
    assert [one.line for one in caught.value.problems] == list(range(2, MOST_PROBLEMS + 2))
    file.write_text("repeat: 0\n" + keys(200))
    with pytest.raises(InputError) as caught:
        load(file)
    assert caught.value.problems[0].message.startswith("repeat is 0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "a: " + "[" * 50_000, "more than 30 levels deep"),
        (HEAD + "a: " + "{a: " * 50_000, "more than 30 levels deep"),
        ("a: &a [*a]\n" + HEAD, "or a value contains itself"),
        (
            "a: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghi")),
            "more than 50000 values",
        ),
        (
            f"{HEAD}description: &a {'x' * 100_000}\ntags: {{"
            + ", ".join(f"k{number}: *a" for number in range(1000))
            + "}\n",
            "longer than 1048576 characters with all that its aliases",
        ),
        (
            f"{HEAD}tags: {{k: {'x' * 200_000}}}\nsweep: {{connections: ["
            + ", ".join(str(number + 1) for number in range(1000))
            + "], duration: [1s, 2s]}\n",
            "400000000 together is the limit",
        ),
    ],
)
def test_a_scenario_of_excessive_size_or_depth_is_rejected(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_text(text, Path("x.yaml"))


def test_sites_of_one_inventory_read_it_once(tmp_path: Path) -> None:
    hosts = "".join(f"h{number}: {{ssh: u@10.0.0.{number}}}\n" for number in range(100))
    (tmp_path / "hosts.yaml").write_text(hosts)
    sites = "".join(f"  s{n}: {{kind: static, inventory: hosts.yaml}}\n" for n in range(400))
    with pytest.raises(InputError, match="all inventories together hold more than 50000 values"):
        load_text(f"{HEAD}sites:\n{sites}", tmp_path / "x.yaml")


def test_a_unicode_digit_is_treated_as_an_ordinary_key() -> None:
    with pytest.raises(InputError, match="'²'"):
        load_text(f"{HEAD}tags: []\nsweep: {{'²': [1]}}\n'²': 1\n", Path("x.yaml"))
