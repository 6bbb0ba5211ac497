"""Migration of endpoints by the cloud during a run: live migration, evacuation, balancing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from osmef.engine.events import Located
from osmef.engine.lost_endpoints import lose, loss_of
from osmef.engine.measure import Bench
from osmef.engine.placement import Places, mismatches, pair_placements, requested
from osmef.engine.plan import PlannedTrial
from osmef.errors import CapacityError, OsmefError, PlacementError
from osmef.results.trial import Failure, Status, Trial
from osmef.scenario.fields import RECORD
from osmef.scenario.location import Location, has_moved
from osmef.workloads import Outcome

Why = Sequence[str] | OsmefError
"""Why trials are corrected: the endpoints that have moved, or what else spoilt them."""


def look_again(
    bench: Bench, group: int, trials: Sequence[PlannedTrial], note: Callable[[Located], None]
) -> None:
    """Read locations after some trials of a group, and correct the affected trials.

    A trial whose ends do not stand to each other as they did when it began was measured nobody
    knows where: it fails, or where any place will do, or ``on_mismatch: record``, its place is
    unknown. What can't be read counts as unmoved, and is told. ``note`` is told of each look.
    Raises StorageError, and CapacityError where an endpoint is not the run's own any more: then
    all of these fail.
    """
    before = bench.places
    indexes = tuple(planned.index for planned in trials)
    try:
        after = _moved(bench)
    except CapacityError as error:  # another run measures there, too, nobody knows since when
        _correct(bench, {one.index: one for one in trials}, error)
        raise
    except OsmefError as error:  # also Interrupted: the next trial meets the stop, too
        bench.observer.warning(f"the endpoints' present placement can't be read: {error.message}")
        note(Located(group, indexes, {}, str(error)))
        return
    for name, place in after.items():
        bench.stations[name].location = place
        bench.observer.warning(f"the cloud has moved {name}, {moved_from(before[name], place)}")
    wrong = {one.index: one for one in trials if _differs(one, before, bench.places)}
    if wrong:
        _correct(bench, wrong, list(after))
    note(Located(group, indexes, after, None))


def _moved(bench: Bench) -> dict[str, Location]:
    """Return the new locations of endpoints that have moved."""
    stations = [station for station in bench.stations.values() if station.lost is None]
    found = bench.sites.describe([station.endpoint for station in stations])
    for station in lose(stations, found):
        bench.observer.warning(f"{station.name}: {loss_of(station.name).message}")
    return {
        station.name: place
        for station, place in zip(stations, found, strict=True)
        if has_moved(station.location, place)
    }


def moved_from(before: Location, after: Location) -> str:
    """Describe a move, from where to where, as far as known."""
    here, there = (place.host or place.rack or place.zone for place in (before, after))
    return f"from {here or 'somewhere'} to {there or 'somewhere else'}"


def _differs(planned: PlannedTrial, before: Places, after: Places) -> bool:
    return pair_placements(planned.cell, before) != pair_placements(planned.cell, after)


def _correct(bench: Bench, wrong: Mapping[int, PlannedTrial], why: Why) -> None:
    """Clear the placement in the records of trials, or fail those that depend on it."""
    found = {trial.index: trial for trial in bench.directory.read_trials().trials}
    corrected = [
        _corrected(trial, wrong[index], why, bench)
        for index, trial in found.items()
        if index in wrong and trial.status is Status.OK
    ]
    bench.directory.correct_trials(corrected)


def _corrected(trial: Trial, planned: PlannedTrial, why: Why, bench: Bench) -> Trial:
    if isinstance(why, OsmefError):
        return _failed(trial, why)
    if not _fails(planned, bench):
        return _unplaced(trial)
    ends = [end.name for end in planned.cell.endpoints if end.name in why]
    error = PlacementError(
        "the cloud has moved it in the stretch of trials in which this one was measured",
        where=" and ".join(ends),
        cure="keep the cloud from moving it, or set on_mismatch: record; then measure again",
    )
    return _failed(trial, error)


def _fails(planned: PlannedTrial, bench: Bench) -> bool:
    """Return whether the trial would fail with the present placement."""
    found = pair_placements(planned.cell, bench.places).values()
    recorded = planned.cell.cell.scenario.on_mismatch == RECORD
    return not recorded and bool(mismatches(requested(planned.cell), found))


def _unplaced(trial: Trial) -> Trial:
    return trial.model_copy(update={"achieved_placement": None, "distance": None})


def _failed(trial: Trial, error: OsmefError) -> Trial:
    """Return the record of a trial that has failed afterwards, without its measurements."""
    none = vars(Outcome(metrics={})) | {"limited_by": None}
    nothing = {name: value for name, value in none.items() if name in Trial.model_fields}
    told = {"status": Status.FAILED, "failure": Failure.of(error)}
    return _unplaced(trial).model_copy(update={**told, **nothing})
