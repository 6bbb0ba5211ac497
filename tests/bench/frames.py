"""Loading results: many runs, and many requests by size and drawn, beside plain pandas and json."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from osmef.results.rundir import RunDirectory
from osmef.results.tables import TABLES
from tests.bench.contest import Spread
from tests.bench.report import Bench, Section, Table

SAMPLE = Path("tests/results/data/quickstart-20261121T031500Z-3f9a")
RUNS = 1000
TRIALS = 1_000_000
REQUESTS = 1_000_000

# Each runs in a process of its own, which tells its seconds and its largest memory.
_MEASURED = """
import json, sys, time
{imports}
began = time.perf_counter()
{work}
took = time.perf_counter() - began
# What getrusage tells would be of the process that started this one, if that is larger.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(took, status["VmHWM"].split()[0])
"""
_LOAD = ("import osmef, osmef.results.frame", "osmef.load(sys.argv[1])")
_JSON = (
    "import pandas as pd; from pathlib import Path",
    """
rows = []
for path in Path(sys.argv[1]).glob("*"):
    run = json.loads((path / "summary.json").read_text())["run"]
    for line in (path / "trials.jsonl").open():
        rows.append({"run": run["id"], **json.loads(line)})
pd.json_normalize(rows)
""",
)
_JSON_BY_RUN = (
    "import pandas as pd; from pathlib import Path",
    """
frames = []
for path in Path(sys.argv[1]).glob("*"):
    run = json.loads((path / "summary.json").read_text())["run"]
    told = map(json.loads, (path / "trials.jsonl").open())
    frames.append(pd.DataFrame(
        [{"run": run["id"], "cell": t["cell"], "status": t["status"], **t["values"], **t["metrics"]}
         for t in told]
    ))
pd.concat(frames, ignore_index=True)
""",
)
_LOAD_REQUESTS = (
    """
import numpy as np, osmef, osmef.results.frame
from osmef.analysis.pingpong import by_bin, message_times
""",
    """
rows = message_times(osmef.load_requests(sys.argv[1]))
by_bin(rows, "transfer_rate_bytes_per_s", np.linspace(1, 500_001, 51))
""",
)
_PANDAS = (
    "import numpy as np, pandas as pd",
    """
rows = pd.read_parquet(sys.argv[1] + "/requests.parquet")
rows["rate"] = rows["length"] / rows["relay_s"].fillna(rows["duration_s"])
bins = np.digitize(rows["size"], np.linspace(1, 500_001, 51))
rows.groupby(bins)["rate"].quantile([0.05, 0.25, 0.5, 0.75, 0.95])
""",
)
_DRAW = (
    """
import matplotlib.backends.backend_agg, osmef.results.frame
from pathlib import Path
from osmef.report.figures import figure
from osmef.report.style import write
""",
    """
write(figure("pingpong-transfer", sys.argv[1]), Path(sys.argv[1]) / "osmef.png")
""",
)
_DRAW_PANDAS = (
    """
import numpy as np, pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
""",
    _PANDAS[1].replace("\nrows.groupby", "\nfound = rows.groupby")
    + """
size = rows.groupby(bins)["size"].mean()
band = found.unstack()
figure = Figure()
axes = figure.subplots()
some = rows.sample(20_000, random_state=0)
axes.plot(some["size"], some["rate"], ".", alpha=0.15)
axes.fill_between(size, band[0.05], band[0.95], alpha=0.15)
axes.fill_between(size, band[0.25], band[0.75], alpha=0.3)
axes.plot(size, band[0.5])
figure.savefig(sys.argv[1] + "/pandas.png", dpi=200)
""",
)
_PROGRAMS = {
    "runs": {"osmef.load": _LOAD, "json and pandas": _JSON},
    "trials": {"osmef.load": _LOAD, "json and pandas, fewer columns": _JSON_BY_RUN},
    "requests": {"osmef.load_requests": _LOAD_REQUESTS, "pandas": _PANDAS},
    "figure": {"osmef plot": _DRAW, "pandas and matplotlib": _DRAW_PANDAS},
}
WANTED_S = {"runs": 2.0, "trials": 60.0, "requests": 3.0, "figure": 3.0}
WANTED_MIB = 1024


def bench(bench: Bench) -> Section:
    """Measure both in turns."""
    with tempfile.TemporaryDirectory(prefix="osmef-bench-") as directory:
        requests = _requests(Path(directory))
        places = {
            "runs": _runs(Path(directory)),
            "trials": _trials(Path(directory)),
            "requests": requests,
            "figure": requests,
        }
        rows = [
            row for what, place in places.items() for row in _compare(what, place, bench.repeat)
        ]
    return Section(
        "Loading and drawing results",
        f"{RUNS} runs of 3 trials each with their summaries, into one row a trial; the same with"
        f" {TRIALS:,} trials in all; {REQUESTS:,}"
        " requests, into quantiles of the transfer rate over 50 bins of the size, by OSMeF with the"
        " interval of the median; and the same drawn as a PNG file, with points, median and bands."
        " Imports do not count, and the files are in the page cache."
        f" n = {bench.repeat}.",
        [Table("Times", ("", "s, median (min-max)", "MiB", "time / other's", "wanted"), rows)],
        repeated=False,
    )


def _compare(what: str, place: Path, repeat: int) -> list[tuple[str, ...]]:
    """Return a row of OSMeF, and one of what it is compared with."""
    told: dict[str, list[tuple[float, float]]] = {name: [] for name in _PROGRAMS[what]}
    for _ in range(repeat):
        for name, (imports, work) in _PROGRAMS[what].items():
            told[name].append(_run(_MEASURED.format(imports=imports, work=work), place))
    spreads = {name: Spread(tuple(took for took, _ in pairs)) for name, pairs in told.items()}
    ours, other = spreads
    memory = {name: max(mib for _, mib in pairs) for name, pairs in told.items()}
    wanted = f"< {WANTED_S[what]:g} s, < {WANTED_MIB} MiB"
    ratio = spreads[ours].median / spreads[other].median
    return [
        (f"{what}, {ours}", str(spreads[ours]), f"{memory[ours]:.0f}", f"{ratio:.2f}", wanted),
        (f"{what}, {other}", str(spreads[other]), f"{memory[other]:.0f}", "", ""),
    ]


def _run(program: str, place: Path) -> tuple[float, float]:
    """Return the seconds that a program told, and its largest memory in MiB."""
    argv = [sys.executable, "-c", program, str(place)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    took, kib = done.stdout.split()
    return float(took), float(kib) / 1024


def _runs(directory: Path) -> Path:
    """Make runs of this version out of the sample."""
    first = RunDirectory(shutil.copytree(SAMPLE, directory / "first"))
    summary, trials = first.read_summary(), first.read_trials().trials
    first.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in trials))
    first.write_summary(summary)
    for number in range(RUNS):
        shutil.copytree(first.path, directory / "runs" / f"quickstart-{number:04d}-3f9a")
    return directory / "runs"


def _trials(directory: Path) -> Path:
    """Make runs of many trials each: all are the first one's files."""
    first = RunDirectory(shutil.copytree(SAMPLE, directory / "many" / "quickstart-0000-3f9a"))
    summary, trial = first.read_summary(), first.read_trials().trials[0]
    lines = (
        trial.model_copy(update={"index": number + 1, "repetition": number + 1, "transfers": []})
        for number in range(TRIALS // RUNS)
    )
    first.trials.write_text("".join(f"{line.model_dump_json()}\n" for line in lines))
    first.write_summary(summary)
    for number in range(1, RUNS):
        run = directory / "many" / f"quickstart-{number:04d}-3f9a"
        run.mkdir()
        for file in (first.trials, first.summary):
            (run / file.name).hardlink_to(file)
    return directory / "many"


def _requests(directory: Path) -> Path:
    """Make a run of requests of all sizes."""
    import numpy as np  # noqa: PLC0415 - the others need none of these
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    run = shutil.copytree(SAMPLE, directory / "pingpong-0000-3f9a")
    first = RunDirectory(run).read_trials().trials[0]
    trial = first.model_copy(update={"index": 1, "workload": "pingpong"})
    (run / "trials.jsonl").write_text(f"{trial.model_dump_json()}\n")
    random = np.random.default_rng(1)
    size = random.integers(1, 500_000, REQUESTS)
    time_s = random.lognormal(-6, 0.3, REQUESTS) + size / 1e8
    same = {"trial": 1, "purpose": "measured", "sender": "vm-1", "receiver": "vm-2"}
    columns = {
        **{name: [value] * REQUESTS for name, value in same.items()},
        "size": size,
        "intended_start_s": np.cumsum(time_s),
        "duration_s": time_s,
        "relay_s": time_s * 0.9,
        "code": np.full(REQUESTS, 200),
        "length": size,
        "retries": np.zeros(REQUESTS),
        "error": [None] * REQUESTS,
    }
    schema = TABLES["requests"]
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in schema]
    parquet.write_table(pa.table(arrays, schema=schema), run / "requests.parquet")
    return run
