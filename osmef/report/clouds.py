"""In which cloud the endpoints of a run were, of which one with sites has several."""

from __future__ import annotations

from collections.abc import Mapping

from osmef.results.summary import EndpointInfo, RunInfo

UNKNOWN = "unknown"
"""The cloud of an imported run whose files do not say."""

Clouds = Mapping[tuple[str, str], str]


def kind_of(run: RunInfo, end: EndpointInfo) -> str:
    """Return the kind of the cloud in which an endpoint was, by which prices are listed."""
    return run.sites.get(end.requested.site or "") or run.provider or UNKNOWN


def cloud_of(run: RunInfo, end: EndpointInfo) -> str:
    """Return the name of the cloud in which an endpoint was: its kind.

    With the name of its site, where the run has several sites of that kind: two regions, or two
    clouds whose flavors have nothing to do with each other.
    """
    kind = kind_of(run, end)
    return f"{kind} {end.requested.site}" if [*run.sites.values()].count(kind) > 1 else kind


def together(ends: str, run: str, of: Clouds, otherwise: object) -> str:
    """Return the clouds of the endpoints of a trial, each once, as in ``aws+gce``.

    ``ends`` are their names, with commas between; ``otherwise`` is that of the whole run, where
    none of them is known.
    """
    names = (of.get((run, name)) for name in ends.split(","))
    found = dict.fromkeys(name for name in names if name is not None)
    return "+".join(found) or str(otherwise or UNKNOWN)
