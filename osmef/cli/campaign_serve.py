"""``osmef campaign serve``: a page about campaigns on this machine."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from osmef.campaigns.state import open_store, state_home
from osmef.cli.campaign_state import StateUrl
from osmef.cli.console import err, out, reporting
from osmef.engine.cancellation import Stop, stop_on_signals
from osmef.errors import Interrupted

_LOOK_S = 3600.0


def serve(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0 takes a free one.")
    ] = 8700,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What the reader has to know; made if it is missing. By default beside the"
            " database in your home.",
        ),
    ] = None,
    state: StateUrl = "",
) -> None:
    """Show campaigns in the browser: calendar, what runs, newest figures. Changes nothing."""
    with reporting():
        # jinja2 and the server are for this command alone
        from osmef.campaigns.watching.web import (  # noqa: PLC0415
            CampaignPages,
            Server,
            read_token,
        )

        token = read_token(token_file or state_home() / "token")
        store = open_store(state)
        with (
            stop_on_signals(lambda _text: None) as stop,
            Server(port, CampaignPages(store), token) as server,
        ):
            out.print(f"{server.address}?token={token}", soft_wrap=True)
            err.print("Open it in a browser of this machine; Ctrl-C ends it.")
            thread = threading.Thread(target=server.serve_forever, name="page")
            thread.start()
            _wait(stop)
            server.shutdown()
            thread.join()
        store.close()


def _wait(stop: Stop) -> None:
    with suppress(Interrupted):
        while True:
            stop.wait(_LOOK_S)
