"""Who knows the URL of a webhook may speak to it: no copy of a campaign's file holds it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from osmef.campaigns.archive import CAMPAIGN, MANIFEST, import_archive, sha256_of
from osmef.campaigns.schedule.load import parse_campaign, read_campaign
from osmef.campaigns.schedule.model import REDACTED, Notify, is_redacted, redacted
from osmef.campaigns.state import open_store, state_home
from osmef.campaigns.state.store import Store
from osmef.campaigns.watching.monitoring import notify
from osmef.campaigns.watching.web import read_token
from osmef.errors import InputError
from tests.campaigns.emulated import conduct
from tests.invoked import invoke

TOKEN = "T0KEN/B0T/5ecret"  # noqa: S105
URL = f"https://hooks.example/services/{TOKEN}"
FILE = """\
name: short
scenarios: [pair.yaml]
start: 2026-03-21
weeks: 1
windows: [weekend-peak]
"""
SCENARIO = "name: pair\nworkload: {duration: 1s}\nrepeat: 2\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "pair.yaml").write_text(SCENARIO)
    return tmp_path


class _Gone(BaseHTTPRequestHandler):
    """Says in its answer what it was asked for, as some services do."""

    def do_POST(self) -> None:
        self.send_response(404, f"no such hook {self.path}")
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_request(self, *_arguments: object) -> None:
        pass


@contextmanager
def hook() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Gone) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/services/{TOKEN}"
        server.shutdown()
        thread.join()


def osmef(*arguments: str | Path) -> str:
    result = invoke("campaign", *arguments)
    assert result.exit_code == 0, result.output
    return str(result.output)


def files_with_the_token(place: Path) -> list[str]:
    """Return the files of a directory that hold the token, also within tars."""
    found = []
    for path in (one for one in place.rglob("*") if one.is_file()):
        data = [path.read_bytes()]
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as tar:
                data = [member.read() for one in tar if (member := tar.extractfile(one))]
        if any(TOKEN.encode() in one for one in data):
            found.append(path.name)
    return found


def test_only_the_campaign_file_contains_the_webhook(place: Path) -> None:
    file, state = place / "short.yaml", f"sqlite:///{place / 'state.sqlite'}"
    with hook() as url:
        # The same again where it might be forgotten.
        file.write_text(f"# to {url}\n{FILE}notify: {{webhook: '{url}'}}\ndescription: to {url}\n")
        conduct(file, place / "state.sqlite", place / "short")
    archive = (place / "archive").as_uri()
    said = osmef("log", "short", "--state", state)
    assert "the webhook of notify: it answered 404 Not Found" in said
    said += osmef("status", "short", "--json", "--state", state)
    said += osmef("status", "short", "--state", state)
    said += osmef("report", "short", "--state", state, "-o", place / "page.html")
    said += osmef("export", "short", archive, "--state", state)
    assert "the webhook of notify is a secret, and was left out" in said
    said += osmef("import", archive, place / "back")
    assert "write it there again" in said
    with closing(sqlite3.connect(place / "state.sqlite")) as connection:
        said += "".join(connection.iterdump())
    assert TOKEN not in said
    assert files_with_the_token(place) == ["short.yaml"]
    kept = (place / "back" / CAMPAIGN).read_text()
    assert kept == file.read_text().replace(url, REDACTED)
    (place / "back" / "pair.yaml").write_text(SCENARIO)
    with pytest.raises(InputError, match="a secret was left out of this copy of the file"):
        read_campaign(place / "back" / CAMPAIGN)


def test_secrets_in_an_archive_of_an_older_version_are_redacted_on_import(place: Path) -> None:
    (place / "short.yaml").write_text(FILE)
    conduct(place / "short.yaml", place / "state.sqlite", place / "short")
    archive = place / "archive"
    osmef("export", "short", archive.as_uri(), "--state", f"sqlite:///{place / 'state.sqlite'}")
    (archive / CAMPAIGN).write_text(f"{FILE}notify: {{webhook: '{URL}'}}\n")
    manifest = json.loads((archive / MANIFEST).read_text())
    for entry in manifest["files"]:
        if entry["path"] == CAMPAIGN:
            entry["sha256"] = sha256_of(archive / CAMPAIGN)
            entry["bytes"] = (archive / CAMPAIGN).stat().st_size
    (archive / MANIFEST).write_text(json.dumps(manifest))
    assert import_archive(archive.as_uri(), place / "back").wants_secret
    assert files_with_the_token(place / "back") == []


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (f"notify: {{webhook: {URL}}}", "notify: {webhook: redacted}"),
        (f'notify:\n  webhook: "{URL}"', 'notify:\n  webhook: "redacted"'),
        (f"notify:\n  webhook: {URL}  # mine", "notify:\n  webhook: redacted  # mine"),
        (
            f"notify:\n  webhook: {URL}\n# was {URL}/old",
            "notify:\n  webhook: redacted\n# was redacted",
        ),
        ("notify: {}\n# webhook: " + URL, "notify: {}\n# webhook: redacted"),
        (
            f"notify: {{command: [curl, -d@-, '{URL}', '-HX: {URL}']}}",
            "notify: {command: [curl, -d@-, 'redacted', '-HX: redacted']}",
        ),
        (
            f"description: &d {URL}\nnotify: {{webhook: *d}}",
            "description: &d redacted\nnotify: {webhook: *d}",
        ),
        # Where the words do not stand so in the file, it is written anew.
        (f'notify: {{webhook: "{URL.replace("/", chr(92) + "x2f")}"}}', None),
        ("notify:\n  webhook: >-\n    " + URL, "notify:\n  webhook: >-\n    redacted"),
        (f"notify: {{webhook: '{URL}'}}\ndescription: 'see # {URL}/'", None),
        (f"notify: {{webhook: '{URL}'}}\ndescription: '{URL.removeprefix('https://')}?x=1'", None),
    ],
)  # fmt: skip
def test_the_file_stays_as_it_is_but_for_the_secret(told: str, kept: str | None) -> None:
    text = f"# of mine\n{FILE}{told}\n"
    found = redacted(text, Path("short.yaml"))
    assert TOKEN not in found
    if kept is not None:
        assert found == f"# of mine\n{FILE}{kept}\n"
    assert is_redacted(found, Path("short.yaml")) == ("notify: {}" not in told)
    assert redacted(found, Path("short.yaml")) == found
    campaign = parse_campaign(found, Path("short.yaml"))
    assert campaign.name == "short"


def test_text_without_a_secret_is_kept_unchanged() -> None:
    text = f"# see https://osmef.example/docs\n{FILE}providers: {{a: {{kind: local}}}}\n"
    assert redacted(text, Path("short.yaml")) == text
    assert not is_redacted(text, Path("short.yaml"))
    other = "notify: {webhook: 'https://a.example'}\ndescription: https://a.example.com/x\n"
    assert "https://a.example.com/x" in redacted(FILE + other, Path("short.yaml"))


def test_a_file_of_json_stays_one() -> None:
    text = json.dumps({"name": "x", "notify": {"webhook": URL}}).replace("/", "\\/")
    assert json.loads(redacted(text, Path("x.json")))["notify"] == {"webhook": REDACTED}


def test_a_url_in_an_unreadable_file_is_redacted() -> None:
    assert redacted(f"notify: [{{{URL}", Path("x.yaml")) == f"notify: [{{{REDACTED}"


@pytest.mark.parametrize(
    "told",
    [
        f"notify: {URL}",
        f"notify: [{URL}]",
        f"notify: {{webhook: [{URL}]}}",
        f"notify: {{webhook: {{url: {URL}}}}}",
        f"notify: {{webhook: {URL.removeprefix('https://')}}}",
        f"notify: {{webhook: '{URL} x'}}",
        f"notify: {{webhook: 'https:///{TOKEN}'}}",
        f"notify: {{webhook: 'https://hü.example/{TOKEN}'}}",
        f"notify: {{webhook_file: {URL}}}",
        f"notify: {{command: {URL}}}",
        f"notify: {{command: [[{URL}]]}}",
        f"notify: {{{URL}: 1}}",
        f"notify: {{webhok: {URL}}}",
        f"notify: {{webhook: {URL}, webhook_file: ~/x}}",
    ],
)
def test_no_problem_repeats_the_secret(place: Path, told: str) -> None:
    (place / "short.yaml").write_text(f"{FILE}{told}\n")
    with pytest.raises(InputError) as caught:
        read_campaign(place / "short.yaml")
    assert "notify" in str(caught.value) or "webhok" in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert TOKEN[:5] not in repr(caught.value.problems)


@pytest.mark.parametrize(
    ("port", "path", "why"),
    [
        (1, f"/{TOKEN}", "Connection refused"),
        (None, f"/{TOKEN}", "the request failed"),
    ],
)
def test_an_error_of_a_webhook_does_not_reveal_its_url(
    port: int | None, path: str, why: str
) -> None:
    host = "127.0.0.1" if port else f"{'x' * 70}.{TOKEN.replace('/', '.')}"
    whom = Notify.model_validate({"webhook": f"http://{host}:{port or TOKEN[:5]}{path}"})
    (problem,) = notify(whom, {"kind": "end"})
    assert problem.startswith("the webhook of notify: ")
    assert why in problem
    assert TOKEN[:5] not in problem
    assert TOKEN[:5] not in repr(whom)


def test_an_error_of_the_notify_command_does_not_reveal_its_arguments() -> None:
    for command in (["false", URL], ["/no/such", URL], ["a\0", URL], ["sleep"]):
        (problem,) = notify(Notify(command=command), {"kind": "end"})
        assert problem.startswith("the command of notify: ")
        assert TOKEN not in problem


def test_a_file_of_its_own_holds_the_webhook(place: Path) -> None:
    secret, file = place / "webhook", place / "short.yaml"
    file.write_text(f"{FILE}notify: {{webhook_file: {secret}}}\n")

    def told() -> str:
        with pytest.raises(InputError) as caught:
            read_campaign(file)
        (problem,) = caught.value.problems
        assert problem.line == 6
        return problem.message

    assert told() == "notify.webhook_file: there is no such file"
    secret.write_text(f"{URL}\n")
    secret.chmod(0o640)
    assert told() == "notify.webhook_file: others may read this file"
    secret.chmod(0o600)
    loaded = read_campaign(file)
    assert loaded.campaign.notify.webhook is not None
    assert loaded.campaign.notify.webhook.get_secret_value() == URL
    assert loaded.text == file.read_text()  # and an archive of it needs nothing again
    assert not is_redacted(loaded.text, file)
    secret.write_text(TOKEN)
    assert told() == "notify.webhook_file: it contains no URL"


def modes(place: Path) -> set[int]:
    return {stat.S_IMODE(one.stat().st_mode) for one in place.glob("state.sqlite*")}


def test_the_database_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'state.sqlite'}"
    old = os.umask(0)
    try:
        store = Store(url)
        assert len(list(tmp_path.iterdir())) == 3  # with its log and the index of that
        assert modes(tmp_path) == {0o600}
        for one in tmp_path.iterdir():
            one.chmod(0o666)
        Store(url).close()
        assert modes(tmp_path) == {0o600}
        store.close()
    finally:
        os.umask(old)


def test_state_directories_are_made_for_their_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "local" / "state"))
    old = os.umask(0)
    try:
        open_store("", create=True).close()
        read_token(tmp_path / "other" / "token")
        made = [state_home(), *state_home().parents[:2], tmp_path / "other"]
        assert [stat.S_IMODE(one.stat().st_mode) for one in made] == [0o700] * 4
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    finally:
        os.umask(old)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has links of other users")
def test_a_database_link_of_another_user_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "mine.sqlite").symlink_to(tmp_path / "elsewhere")
    Store(f"sqlite:///{tmp_path / 'mine.sqlite'}").close()
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o600
    (tmp_path / "theirs.sqlite").symlink_to(tmp_path / "nowhere")
    os.chown(tmp_path / "theirs.sqlite", 65534, 65534, follow_symlinks=False)
    with pytest.raises(Exception, match="another user has made this link"):
        Store(f"sqlite:///{tmp_path / 'theirs.sqlite'}")
    assert not (tmp_path / "nowhere").exists()


def test_a_database_of_an_older_version_forgets_the_webhook(place: Path) -> None:
    path = place / "state.sqlite"
    (place / "short.yaml").write_text(FILE)
    conduct(place / "short.yaml", path, place / "short")
    text = f"{FILE}notify: {{webhook: '{URL}'}}\n"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE campaigns SET text = ?", [text])
        connection.execute("UPDATE schema_version SET version = 4")
        connection.commit()
    store = Store(f"sqlite:///{path}")
    assert store.campaign("short").text == text.replace(URL, REDACTED)
    store.close()
    assert TOKEN.encode() not in b"".join(one.read_bytes() for one in place.glob("state.sqlite*"))


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
"""


def test_opening_the_database_again_releases_no_lock(tmp_path: Path) -> None:
    """Who closes a file gives up all locks that his process has on it (fcntl_locking(2))."""
    path = tmp_path / "state.sqlite"
    store = Store(f"sqlite:///{path}")
    with store._transaction():
        for one in tmp_path.iterdir():
            one.chmod(0o666)
        Store(f"sqlite:///{path}").close()
        done = subprocess.run(
            [sys.executable, "-c", WRITER, str(path)], capture_output=True, text=True, check=False
        )
    store.close()
    assert "database is locked" in done.stderr
