"""Data of figures: the frames of runs, each read at its first use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd

from osmef.analysis.similarity import COMPONENTS
from osmef.analysis.throughput import shortest_times, total_rates
from osmef.errors import InputError, NothingToDrawError
from osmef.files import exists, is_file, open_file
from osmef.report.summary import written
from osmef.results.frame import load, load_intervals, load_requests, measures_of
from osmef.results.measure import BIT_RATE, Measure
from osmef.results.observations import BucketFound, Purpose
from osmef.results.rundir import RunDirectory, find_runs
from osmef.results.summary import Summary
from osmef.results.trial import Bottleneck, Trial
from osmef.scenario.names import nearest_or_all

_REQUESTS = (
    "run", "cell", "trial", "purpose", "size", "length", "relay_s", "duration_s", "error",
)  # fmt: skip
_INTERVALS = (
    "run", "cell", "trial", "purpose", "endpoint", "peer", "role", "flow", "start_s", "length_s",
    "warmup", "bytes", "began_s", "exchanges", "protocol", "lost", "rtt_us", "rtt_p99_us",
)  # fmt: skip
_LOOKED_FOR = "burst_bps"
"""Measure of trials that searched for a token bucket."""
_MOST_BYTES = 1 << 30
_UNKNOWN = {"na", "n/a", "<na>", "#na", "#n/a", "nan", "-nan", "null", "none"}
"""How programs write that a value is missing, in any case."""
SWEEPS = ("size-sweep", "netpipe")
"""Workloads whose trials have sizes."""
_DETAILED = ("latency", *SWEEPS)


class Data:
    """The frames of the runs that paths name, as ``osmef.load`` takes them.

    ``where`` keeps the trials whose columns have one of the values, compared as text; a value that
    no trial has may be several with commas between. What belongs to other trials is left out of
    all frames. With ``components`` the only metrics of trials are those of machine types, so that
    the others may mean different things. Raises InputError for a path without a run, a column that
    is not there, and where no trial is left.
    """

    def __init__(
        self,
        *paths: str | PathLike[str],
        where: Mapping[str, Sequence[str]] | None = None,
        components: bool = False,
    ) -> None:
        self._paths = paths
        self._keep = _is_component if components else None
        self._where = dict(where or {})

    @cached_property
    def runs(self) -> list[RunDirectory]:
        """The directories."""
        return find_runs(*self._paths)

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Those of ``osmef.load``."""
        trials = load(*self._paths, keep=self._keep)
        for name, values in self._where.items():
            if name not in trials:
                raise InputError(
                    f"the trials have no column {name!r}",
                    where="--where",
                    cure=nearest_or_all(name, map(str, trials.columns)),
                )
            texts = texts_of(trials[name])
            wanted = [part for one in values for part in _parts(one, texts)]
            trials = trials[texts.isin(wanted).fillna(False)]
        if trials.empty:
            reported = f"no trial of {', '.join(map(str, self._paths))} is left"
            if self._where:
                raise InputError(reported, where="--where", cure="give other values")
            raise InputError(reported, cure="give a run with trials")
        return self._in_order(trials)

    def _in_order(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the trials in the order of the sweep instead of their execution."""
        index = {
            (run, cell.key): (at, number)
            for at, (run, summary) in enumerate(self.summaries.items())
            for number, cell in enumerate(summary.cells)
        }
        last = (len(index), 0)  # of a run that has not ended
        keys = [index.get(ends, last) for ends in zip(trials["run"], trials["cell"], strict=True)]
        return trials.iloc[sorted(range(len(keys)), key=keys.__getitem__)]

    @cached_property
    def requests(self) -> pd.DataFrame:
        """Measured rows of ``osmef.load_requests``; empty without any."""
        from pyarrow.dataset import field  # noqa: PLC0415 - slow to load

        if not self._have("requests"):
            return pd.DataFrame(columns=list(_REQUESTS))
        measured = field("purpose") == Purpose.MEASURED.value
        return self._kept(load_requests(*self._paths, columns=_REQUESTS, where=measured))

    @cached_property
    def intervals(self) -> pd.DataFrame:
        """Rows of ``osmef.load_intervals`` with a rate; empty without any."""
        return self._series[self._series["exchanges"].isna()]

    @cached_property
    def round_trips(self) -> pd.DataFrame:
        """Rows of exchanges with times."""
        return self._series[self._series["exchanges"].notna()]

    @cached_property
    def _series(self) -> pd.DataFrame:
        if not self._have("intervals"):
            return pd.DataFrame(columns=list(_INTERVALS))
        return self._kept(load_intervals(*self._paths, columns=_INTERVALS))

    @cached_property
    def sizes(self) -> pd.DataFrame:
        """The sizes of sweeps, see ``sizes_of``."""
        return self._kept(sizes_of(self._detailed))

    @cached_property
    def exchanges(self) -> pd.DataFrame:
        """The exchanges, see ``exchanges_of``."""
        return self._kept(exchanges_of(self._detailed))

    @cached_property
    def buckets(self) -> list[tuple[str, int, BucketFound]]:
        """The token buckets of the trials that searched for one, with run and trial."""
        if _LOOKED_FOR not in self.trials:
            return []
        kept = self.trials[self.trials[_LOOKED_FOR].notna()]
        wanted = set(zip(kept["run"], kept["trial"], strict=True))
        return [
            (run.id, trial.index, one)
            for run in self.runs
            if run.id in set(kept["run"])
            for trial in run.read_trials().trials
            if (run.id, trial.index) in wanted
            for one in trial.buckets
        ]

    @cached_property
    def limits(self) -> pd.DataFrame:
        """The bottlenecks of the cells, see ``limits_of``.

        Raises InputError where only some trials of a cell were kept: it is known of whole cells.
        """
        if not self._where:
            return limits_of(self.summaries)
        every = load(*self._paths)
        counts = [frame.groupby(["run", "cell"]).size() for frame in (every, self.trials)]
        if not counts[1].eq(counts[0].reindex(counts[1].index)).all():
            raise InputError(
                "limits are recorded for whole cells, not for some of their trials",
                where="--where",
                cure="choose by a swept value, such as --where connections=1",
            )
        kept = pd.DataFrame(list(counts[1].index), columns=["run", "cell"])
        return limits_of(self.summaries).merge(kept, on=["run", "cell"])

    @cached_property
    def endpoints(self) -> pd.DataFrame:
        """The endpoints, see ``endpoints_of``."""
        return endpoints_of(self.summaries)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The rates of the pairs of a run, see ``pairs_of``. Raises InputError for several runs."""
        if self.trials["run"].nunique() > 1:
            raise NothingToDrawError("a topology is of one run", cure="give one run")
        run = str(self.trials["run"].iloc[0])
        log = next(one for one in self.runs if one.id == run).read_trials()
        measures = measures_of(self.trials).values()
        rates = [one.name for one in measures if one.leading and one.unit == BIT_RATE]
        return self._kept(pairs_of(((run, trial) for trial in log.trials), rates))

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """The summaries of the runs that have one, by directory name."""
        return {run.id: run.read_summary() for run in self.runs if exists(run.summary)}

    def _have(self, table: str) -> bool:
        return any(is_file(run.path / f"{table}.parquet") for run in self.runs)

    @cached_property
    def _detailed(self) -> list[tuple[str, Trial]]:
        """The full records of trials, for figures that need more than ``load`` has."""
        named = set(self.trials.loc[self.trials["workload"].isin(_DETAILED), "run"])
        runs = [run for run in self.runs if run.id in named]
        return [(run.id, trial) for run in runs for trial in run.read_trials().trials]

    def _kept(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the filtered trials."""
        if not self._where or rows.empty:
            return rows
        kept = self.trials[["run", "trial"]].astype({"trial": "int64"})
        return rows.astype({"run": "object", "trial": "int64"}).merge(kept, on=["run", "trial"])


def _is_component(measure: Measure) -> bool:
    return measure.component is not None


def texts_of(values: pd.Series) -> pd.Series[str]:
    """Return the values of a column of the trials as users write them."""
    # As objects: pandas 2 makes floats of integers of which some are unknown.
    return values.astype("object").map(written, na_action="ignore").astype("string")


def _parts(value: str, texts: pd.Series) -> list[str]:
    return [value] if texts.eq(value).any() else value.split(",")


def read_table(
    path: Path, numbers: Sequence[str] = (), optional: Sequence[str] = ()
) -> pd.DataFrame:
    """Read a CSV file as a frame of texts, with some numeric columns; empty cells are missing.

    In numeric and ``optional`` columns, which have no names, NA and the like are missing, too.
    The index is that of the lines, from 0 for the second one. Raises InputError where it is none,
    where two columns have one name, and for a text in a numeric column, with its line.
    """
    try:
        with open_file(path, _MOST_BYTES) as file:
            above = 0
            while (line := file.readline()) and not line.strip():
                above += 1
            file.seek(-len(line), os.SEEK_CUR)
            # Without a header: with it pandas renames columns, and shifts those of longer lines.
            lines = pd.read_csv(
                file, header=None, dtype=str, keep_default_na=False, na_values=[""],
                skip_blank_lines=False, skipinitialspace=True,
            )  # fmt: skip
    except FileNotFoundError:
        raise InputError("there is no such file", where=str(path), cure="check the path") from None
    except (OSError, ValueError) as error:  # what pandas finds wrong is a ValueError
        reported = str(error).splitlines()[0]
        cure = "give a CSV file with a line of column names"
        if isinstance(error, UnicodeDecodeError):
            cure = "save it in UTF-8"
        raise InputError(
            f"can't read this table: {reported}", where=str(path), cure=cure
        ) from error
    table = _named(lines.set_axis(lines.index + above), path)
    for name in {*numbers, *optional} & {*table}:
        table[name] = table[name].map(lambda one: np.nan if str(one).lower() in _UNKNOWN else one)
    for name in (name for name in numbers if name in table):
        texts = table[name]
        known = pd.to_numeric(texts, errors="coerce").replace([np.inf, -np.inf], np.nan)
        odd = table.index[known.isna() & texts.notna()]
        if len(odd):
            raise InputError(
                f"{name} is no number: {str(table[name][odd[0]])!r}",
                where=f"{path}:{odd[0] + 2}",
                cure="write it without a unit, with a point and without thousands separators",
            )
        table[name] = known
    return table


def _named(lines: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return the rows of a table by the column names of its first line. Raises InputError.

    The index of ``lines`` counts those of the file from 0.
    """
    names = [str(name).strip() for name in lines.iloc[0].fillna("")]
    for name in names:
        if name and names.count(name) > 1:
            raise InputError(
                f"the table has the column {name} twice",
                where=f"{path}:{lines.index[0] + 1}",
                cure="leave one of them out, or rename it",
            )
    rows = lines.iloc[1:].map(lambda text: text.strip() or np.nan, na_action="ignore")
    rows = rows.dropna(how="all")
    return rows.set_axis(pd.Index(names), axis="columns").set_axis(rows.index - 1)


def read_machines(path: Path) -> pd.DataFrame:
    """Read the measurements of machine types in a CSV file, any of ``COMPONENTS``.

    Raises InputError.
    """
    table = read_table(path, COMPONENTS)
    missing = [name for name in ("provider", "flavor") if name not in table]
    if missing or not any(name in table for name in COMPONENTS):
        raise InputError(
            f"the table has no column {', '.join(missing or COMPONENTS)}",
            where=str(path),
            cure=f"give it the columns provider, flavor, and some of {', '.join(COMPONENTS)}",
        )
    if table.empty:
        raise InputError(
            "the table has no measurements", where=str(path), cure="add a row for each measurement"
        )
    unnamed = table.index[table[["provider", "flavor"]].isna().any(axis="columns")]
    if len(unnamed):
        raise InputError(
            "a machine type has no provider or no flavor",
            where=f"{path}:{unnamed[0] + 2}",
            cure="fill in both",
        )
    return table


def sizes_of(trials: Iterable[tuple[str, Trial]]) -> pd.DataFrame:
    """Return one row a run, trial and message size that a sweep measured.

    Columns: run, cell, trial, size in bytes; throughput_bps of all connections together and
    time_us, the shortest of a message on any connection (``osmef.analysis.throughput``).
    """
    rows = []
    for run, trial in trials:
        measured = [point for point in trial.sizes if point.purpose is Purpose.MEASURED]
        rates, times = total_rates(measured), shortest_times(measured)
        rows += [
            {"run": run, "cell": trial.cell, "trial": trial.index, "size": size, "time_us": time_us,
             "throughput_bps": rates.get(size, float("nan"))}
            for size, time_us in times.items()
        ]  # fmt: skip
    columns = ["run", "cell", "trial", "size", "time_us", "throughput_bps"]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def exchanges_of(trials: Iterable[tuple[str, Trial]]) -> pd.DataFrame:
    """Return one row an exchange that was measured.

    Columns: run, cell, trial, phase, protocol and its histogram.
    """
    rows = [
        {
            "run": run,
            "cell": trial.cell,
            "trial": trial.index,
            "phase": one.phase.value,
            "protocol": one.protocol.value,
            "histogram": one.rtt.histogram,
        }
        for run, trial in trials
        for one in trial.exchanges
        if one.purpose is Purpose.MEASURED
    ]
    columns = ["run", "cell", "trial", "phase", "protocol", "histogram"]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def limits_of(summaries: Mapping[str, Summary]) -> pd.DataFrame:
    """Return one row a cell: run, cell, and the number of connections by ``Bottleneck``."""
    rows = [
        {"run": run, "cell": cell.key,
         **{limit.value: cell.limited_by.get(limit, 0) for limit in Bottleneck}}
        for run, summary in summaries.items()
        for cell in summary.cells
    ]  # fmt: skip
    columns = ["run", "cell", *(limit.value for limit in Bottleneck)]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def endpoints_of(summaries: Mapping[str, Summary]) -> pd.DataFrame:
    """Return one row an endpoint: run, endpoint, and its host and tenant as achieved.

    Of a run with several sites these begin with the site.
    """
    rows = [
        {"run": run, "endpoint": one.name, "host": _of_site(one.achieved.host, one.achieved.site),
         "tenant": _of_site(one.achieved.tenant, one.achieved.site)}
        for run, summary in summaries.items()
        for one in summary.endpoints
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=pd.Index(["run", "endpoint", "host", "tenant"]))


def _of_site(name: str | None, site: str | None) -> str | None:
    return name if None in {name, site} else f"{site}: {name}"


def pairs_of(trials: Iterable[tuple[str, Trial]], rates: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row a trial and pair: run, cell, trial, sender, receiver, bps.

    The rate is that in their common interval, of datagrams the goodput. Where the trial has
    neither, as an imported one, it is that of its only pair: the first of ``rates``, metrics in
    bit/s, that it has.
    """
    rows = []
    for run, trial in trials:
        found = _measured(trial) or _only(trial, rates)
        of = {"run": run, "cell": trial.cell, "trial": trial.index}
        rows += [
            {**of, "sender": sender, "receiver": receiver, "bps": bps}
            for (sender, receiver), bps in found.items()
        ]
    columns = ["run", "cell", "trial", "sender", "receiver", "bps"]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def _measured(trial: Trial) -> dict[tuple[str, str], float]:
    """Return the rate of each pair whose transfer or flows of datagrams were measured."""
    found = {}
    for one in trial.transfers:
        length_s, flows = one.receiver.common_length_s, one.receiver.flows
        counts = [flow.common_bytes for flow in flows if flow.common_bytes is not None]
        if one.purpose is Purpose.MEASURED and length_s and len(counts) == len(flows):
            ends = (one.sender.endpoint, one.receiver.endpoint)
            found[ends] = 8 * sum(counts) / length_s
    for flows_of in trial.datagrams if trial.search is None else ():
        goodputs = [flow.goodput_bps for flow in flows_of.receiver.flows]
        known = [bps for bps in goodputs if bps is not None]
        if flows_of.purpose is Purpose.MEASURED and len(known) == len(goodputs):
            found[flows_of.sender.endpoint, flows_of.receiver.endpoint] = sum(known)
    return found


def _only(trial: Trial, names: Sequence[str]) -> dict[tuple[str, str], float]:
    rates = [rate for name in names if (rate := trial.metrics.get(name)) is not None]
    if not rates or len(trial.senders) != 1 or len(trial.receivers) != 1:
        return {}
    return {(trial.senders[0], trial.receivers[0]): rates[0]}
