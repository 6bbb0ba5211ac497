"""Figures of the page, drawn aside."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from osmef.campaigns.state.rows import SessionState
from osmef.campaigns.watching.web import FigureCache
from tests.campaigns.shown import make_shown


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_figure_that_fails_is_not_drawn_again_at_each_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the page would begin it anew, every three seconds."""
    store = make_shown(tmp_path)
    done = store.sessions(store.campaign("shown").id, [SessionState.DONE])
    store.close()
    tried = 0

    def fails(*_: object, **__: object) -> None:
        nonlocal tried
        tried += 1
        raise ZeroDivisionError

    monkeypatch.setattr(Figure, "savefig", fails)
    gallery = FigureCache()
    for _ in range(3):
        assert gallery.pictures("shown", done) == []
        assert gallery._drawing is not None
        gallery._drawing.join()
    assert tried == 1
