"""The newest figures of campaigns, drawn aside, so that nobody waits for them."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from osmef.campaigns.rows import Session
from osmef.errors import InputError, NothingToDrawError, OsmefError

# Sessions in one figure; of more nobody could tell the boxes apart.
_MOST_SESSIONS = 60


@dataclass(frozen=True)
class Picture:
    """A figure: the name of its file, which changes with what it shows, its title, and its SVG."""

    file: str
    title: str
    svg: bytes = field(repr=False)


class Gallery:
    """Pictures of campaigns, from the sessions that are done. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pictures: dict[str, tuple[str, list[Picture]]] = {}
        self._drawing: threading.Thread | None = None

    def pictures(self, name: str, done: Sequence[Session]) -> list[Picture]:
        """Return what is drawn of a campaign; what is new in it is begun, and comes later."""
        paths = [Path(one.directory) for one in done if one.directory][-_MOST_SESSIONS:]
        key = hashlib.sha256("\n".join(map(str, paths)).encode()).hexdigest()[:12]
        with self._lock:
            drawn, found = self._pictures.get(name, ("", []))
            idle = self._drawing is None or not self._drawing.is_alive()
            if paths and drawn != key and idle:
                self._drawing = threading.Thread(
                    target=self._draw, args=(name, key, paths), name="figures", daemon=True
                )
                self._drawing.start()
            return found

    def picture(self, name: str, file: str) -> Picture:
        """Return a picture by its file's name. Raises InputError."""
        with self._lock:
            _, found = self._pictures.get(name, ("", []))
        for one in found:
            if one.file == file:
                return one
        raise InputError("There is no such figure.")

    def _draw(self, name: str, key: str, paths: Sequence[Path]) -> None:
        found: list[Picture] = []
        try:
            found += _pictures(key, paths)
        except OsmefError:  # a damaged run has no figure
            pass
        finally:  # whatever went wrong would do so again
            with self._lock:
                self._pictures[name] = (key, found)


def _pictures(key: str, paths: Sequence[Path]) -> Iterator[Picture]:
    # matplotlib and pandas take a while to load
    from osmef.report.data import Data  # noqa: PLC0415
    from osmef.report.figures import possible  # noqa: PLC0415
    from osmef.report.html.svg import inline_svg  # noqa: PLC0415
    from osmef.report.spread import sessions  # noqa: PLC0415

    with contextlib.suppress(NothingToDrawError):
        title = "Sessions, one after the other"
        trials = Data(*paths).trials
        # A platform has a run in each session: they are one series.
        trials = trials.assign(run=trials["platform"], scenario=trials["platform"])
        svg = inline_svg(sessions(trials), "sessions-", title)
        yield Picture(f"{key}-sessions.svg", title, svg.encode())
    for one in possible(Data(paths[-1]), own=True):
        title = f"The newest session: {one.about}"
        svg = inline_svg(one.figure, f"{one.name}-", title)
        yield Picture(f"{key}-{one.name}.svg", title, svg.encode())
