"""Archive of a campaign: one Parquet data set with its schema, whole run directories, a manifest.

    NAME/  manifest.json  schema.json  campaign.yaml
           sessions.parquet  trials.parquet
           intervals/run=RUN/part.parquet  requests/run=RUN/part.parquet
           runs/RUN.tar.gz

``manifest.json`` is written last, and names every other file with its SHA-256 and length: without
it there is no archive. Parquet files of a run stand in the data set alone, and the rest of its
directory in its tar.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from pydantic import ValidationError

import osmef
from osmef.campaigns.schedule.model import is_redacted, redacted
from osmef.campaigns.state import open_store
from osmef.campaigns.state.rows import CampaignPhase, CampaignRow, Gap, SessionRow, SessionState
from osmef.engine.journal import is_at_work
from osmef.errors import InputError, OsmefError, StorageError
from osmef.files import (
    draft_directory,
    exists,
    is_directory,
    is_file,
    read_file,
    scratch,
    stale_drafts,
)
from osmef.results.files import files_below, storage, write_atomically
from osmef.results.frame import load
from osmef.results.rundir import RunDirectory
from osmef.results.tables import TABLES
from osmef.scenario.base import Model
from osmef.scenario.text_file import read_text

VERSION: Literal[1] = 1
MANIFEST, CALENDAR, CAMPAIGN = "manifest.json", "sessions.parquet", "campaign.yaml"
_IMPORT = "import"
_MARKS = ("journal.jsonl", "trials.jsonl", "summary.json")
_LEFT_OUT = {"lock", *(f"{table}.parquet" for table in TABLES)}
_MOST_MANIFEST = 256 << 20
_COMPRESSION = "zstd"
_S3 = "s3://"
_AT_ONCE = 1 << 20
_TIMEOUT_S = 60
_CURE = "check the URL, such as s3://BUCKET/NAME or file:///PATH, and the store's credentials"


class ArchivedFile(Model):
    """A file of an archive."""

    path: str
    sha256: str
    bytes: int


class About(Model):
    """Metadata of a campaign."""

    name: str
    phase: CampaignPhase
    file: str
    created_at: datetime


class ArchiveManifest(Model):
    """Manifest of an archive; ``runs`` are names of run directories."""

    archive_version: Literal[1] = VERSION
    osmef: str
    made_at: datetime
    campaign: About
    gaps: list[Gap]
    runs: list[str]
    files: list[ArchivedFile]


@dataclass(frozen=True)
class CampaignRecord:
    """A campaign from its database: its sessions, and the gaps without a conductor."""

    campaign: CampaignRow
    sessions: Sequence[SessionRow]
    gaps: Sequence[Gap]


@dataclass(frozen=True)
class Archived:
    """Result of an export or import; the imported campaign file may need its secrets again.

    ``missing`` are the run directories of sessions that are done, and that no longer exist.
    """

    runs: int
    files: int
    size_bytes: int
    wants_secret: bool
    missing: Sequence[str] = ()


def export_campaign(name: str, state: str, url: str) -> Archived:
    """Write the archive of a campaign below a URL. Raises InputError, StorageError.

    Refused while one of its runs is measured, and where an archive is already.
    """
    store = open_store(state)
    try:
        campaign = store.campaign(name)
        record = CampaignRecord(campaign, store.sessions(campaign.id), store.gaps(campaign.id))
    finally:
        store.close()
    remote = ArchiveUrl(url)
    if remote.exists(MANIFEST):
        cure = "give another URL, or remove that one first"
        raise InputError("there is an archive already", where=url, cure=cure)
    runs = _runs(Path(campaign.out))
    live = [run.id for run in runs if is_at_work(run)]
    if live:
        cure = "wait for its end, or stop the campaign"
        raise InputError(f"the run {live[0]} is still measured", where=name, cure=cure)
    place_of_all = Path(tempfile.gettempdir())
    with storage("put the archive together in", place_of_all), scratch("archive") as directory:
        return replace(_send(remote, record, runs, directory), missing=(*_missing(record, runs),))


def _missing(record: CampaignRecord, runs: Sequence[RunDirectory]) -> list[str]:
    existing = {run.id for run in runs}
    done = [one for one in record.sessions if one.state is SessionState.DONE and one.directory]
    return [str(one.directory) for one in done if Path(str(one.directory)).name not in existing]


def _runs(directory: Path) -> list[RunDirectory]:
    with storage("look into", directory):
        found = sorted(directory.iterdir()) if is_directory(directory) else []
    runs = [RunDirectory(p) for p in found if any(is_file(p / mark) for mark in _MARKS)]
    if not runs:
        cure = "the directory of the campaign was moved, or nothing was measured yet"
        raise InputError("there are no runs to archive", where=str(directory), cure=cure)
    return runs


def _send(
    remote: ArchiveUrl, record: CampaignRecord, runs: Sequence[RunDirectory], directory: Path
) -> Archived:
    campaign = record.campaign
    entries: list[ArchivedFile] = []
    for name, file in _files(record, runs, directory):
        with storage("read", file):
            size = file.stat().st_size
            entries.append(ArchivedFile(path=name, sha256=sha256_of(file), bytes=size))
        remote.put(name, file)
        if file.is_relative_to(directory):
            file.unlink()
    manifest = ArchiveManifest(
        osmef=osmef.__version__,
        made_at=datetime.now(UTC),
        campaign=About(
            name=campaign.name,
            phase=campaign.phase,
            file=Path(campaign.file).name,
            created_at=campaign.created_at,
        ),
        gaps=record.gaps,
        runs=[run.id for run in runs],
        files=entries,
    )
    draft = directory / MANIFEST
    with storage("write", draft):
        draft.write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
    remote.put(MANIFEST, draft)
    return _archived(manifest, campaign.text)


def _archived(manifest: ArchiveManifest, text: str) -> Archived:
    size = sum(entry.bytes for entry in manifest.files)
    wants = is_redacted(text, Path(manifest.campaign.file))
    return Archived(len(manifest.runs), len(manifest.files) + 1, size, wants)


def _files(
    record: CampaignRecord, runs: Sequence[RunDirectory], directory: Path
) -> Iterator[tuple[str, Path]]:
    """Yield each file of the archive by its name there; those in ``directory`` are made for it."""
    file = directory / CAMPAIGN
    with storage("write", file):
        file.write_text(record.campaign.text, encoding="utf-8")
    yield CAMPAIGN, file
    tables = {"sessions": _sessions(record.sessions)}
    if any(is_file(run.path / "trials.jsonl") for run in runs):
        tables["trials"] = _trials(load(*(run.path for run in runs if is_file(run.trials))))
    schemas = {name: table.schema for name, table in tables.items()} | TABLES
    for name, table in tables.items():
        file = directory / f"{name}.parquet"
        with storage("write", file):
            parquet.write_table(table, file, compression=_COMPRESSION)
        yield f"{name}.parquet", file
    file = directory / "schema.json"
    with storage("write", file):
        file.write_text(json.dumps(_schema(schemas), indent=1) + "\n", encoding="utf-8")
    yield "schema.json", file
    for run in runs:
        for table in TABLES:
            if is_file(run.path / f"{table}.parquet"):
                yield f"{table}/run={run.id}/part.parquet", run.path / f"{table}.parquet"
        file = directory / f"{run.id}.tar.gz"
        _pack(run.path, file)
        yield f"runs/{run.id}.tar.gz", file


def _sessions(rows: Sequence[SessionRow]) -> pa.Table:
    reported = [{**asdict(one), "state": one.state.value, "holder": None} for one in rows]
    schema = pa.schema([pa.field(one.name, _kind(str(one.type))) for one in fields(SessionRow)])
    return pa.Table.from_pylist(reported, schema=schema)


def _kind(annotation: str) -> pa.DataType:
    """Return the Arrow type of a column of sessions."""
    kinds = {"datetime": pa.timestamp("us", tz="UTC"), "int": pa.int64(), "float": pa.float64()}
    return kinds.get(annotation.removesuffix(" | None"), pa.string())


def _trials(frame: pd.DataFrame) -> pa.Table:
    """Return the frame as a table; a swept key whose values are of several kinds becomes text."""
    for name in frame.select_dtypes("object"):
        kinds = {type(value) for value in frame[name].dropna()}
        if kinds - {str}:
            frame[name] = frame[name].map(str, na_action="ignore")
    return pa.Table.from_pandas(frame, preserve_index=False)


def _schema(schemas: dict[str, pa.Schema]) -> dict[str, Any]:
    return {
        table: [{"name": field.name, "type": str(field.type)} for field in schema]
        for table, schema in schemas.items()
    }


def _pack(directory: Path, file: Path) -> None:
    """Pack a run directory without the files of the data set; the result is reproducible."""
    with (
        storage("pack", directory),
        file.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for path in files_below(directory):
            name = path.relative_to(directory)
            if path.is_symlink() or name.as_posix() in _LEFT_OUT:
                continue
            about = tar.gettarinfo(path, name.as_posix())
            about.uid = about.gid = 0
            about.uname = about.gname = ""
            with path.open("rb") as data:
                tar.addfile(about, data)


def import_archive(url: str, directory: Path) -> Archived:
    """Write the runs of an archive into a new directory, every file checked by its hash first.

    The directory also gets the campaign's file, the manifest and the calendar, so that
    ``osmef campaign report`` knows both. Raises InputError where something is not as the manifest
    says, and StorageError; nothing is left behind then.
    """
    remote = ArchiveUrl(url)
    with storage("make a directory", directory):
        is_new = not exists(directory)
        for rest in () if is_new else stale_drafts(directory, _IMPORT):
            _undo(directory, rest)
        if not is_new and any(directory.iterdir()):
            cure = "give a directory that does not exist yet, or an empty one"
            raise InputError("this directory is not empty", where=str(directory), cure=cure)
        directory.mkdir(parents=True, exist_ok=True)
    try:
        with storage("write into", directory), draft_directory(directory, _IMPORT) as draft:
            manifest = _manifest(remote, draft)
            for entry in manifest.files:
                _fetch(remote, entry, draft)
            text = _without_secrets(draft / CAMPAIGN, Path(manifest.campaign.file))
            _unpack(manifest, draft, directory)
    except BaseException:
        _remove(directory, is_new=is_new)
        raise
    return _archived(manifest, text)


def _without_secrets(file: Path, name: Path) -> str:
    """Redact the campaign file of an archive that an older version wrote; return it."""
    try:
        text = redacted(file.read_text(encoding="utf-8"), name)
    except UnicodeDecodeError as error:
        cure = "take the archive from where it was made"
        raise InputError("its campaign file is no text", where=CAMPAIGN, cure=cure) from error
    write_atomically(file, text.encode())
    return text


def _undo(directory: Path, draft: Path) -> None:
    """Roll back an interrupted import: remove its draft, and the runs that it had moved."""
    with suppress(InputError, StorageError):  # before it had a good manifest it moved nothing
        manifest = _read_manifest(draft / MANIFEST, str(draft))
        for name in (*manifest.runs, CALENDAR, CAMPAIGN):
            path = directory / name
            if is_directory(path):
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    shutil.rmtree(draft)


def _remove(directory: Path, *, is_new: bool) -> None:
    """Remove imported runs; a directory that existed before stays, empty."""
    if is_new:
        shutil.rmtree(directory, ignore_errors=True)
        return
    with suppress(OSError):  # why nothing was imported matters more
        for path in list(directory.iterdir()):
            if is_directory(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def _manifest(remote: ArchiveUrl, draft: Path) -> ArchiveManifest:
    if not remote.exists(MANIFEST):
        cure = "is the URL right, and did the export end?"
        raise InputError("there is no archive: it has no manifest", where=remote.url, cure=cure)
    remote.get(MANIFEST, draft / MANIFEST)
    return _read_manifest(draft / MANIFEST, remote.url)


def _read_manifest(file: Path, where: str) -> ArchiveManifest:
    """Read a manifest, whose paths all stay inside. Raises InputError, StorageError."""
    manifest = _parse_manifest(file, where)
    for name in (*(entry.path for entry in manifest.files), *manifest.runs):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.name:
            cure = "somebody has changed the manifest: take the archive from where it was made"
            raise InputError(f"a file of it would go to {name!r}", where=where, cure=cure)
    return manifest


def _parse_manifest(file: Path, where: str) -> ArchiveManifest:
    try:
        with storage("read", file):
            return ArchiveManifest.model_validate_json(read_file(file, _MOST_MANIFEST))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reported = ".".join(map(str, first["loc"]))
        raise InputError(
            f"this manifest is damaged, or a newer OSMeF wrote it: {reported}: {first['msg']}",
            where=f"{where}/{MANIFEST}",
            cure="take the archive from where it was made, or install a newer OSMeF",
        ) from error


def _fetch(remote: ArchiveUrl, entry: ArchivedFile, draft: Path) -> None:
    file = draft / entry.path
    with storage("make a directory", file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
    remote.get(entry.path, file)
    with storage("read", file):
        if file.stat().st_size == entry.bytes and sha256_of(file) == entry.sha256:
            return
    raise InputError(
        "this file is not what was archived: its SHA-256 is another one",
        where=f"{remote.url}/{entry.path}",
        cure="put a good copy of it there; nothing of the archive was imported",
    )


def _unpack(manifest: ArchiveManifest, draft: Path, directory: Path) -> None:
    for run in manifest.runs:
        into = draft / "unpacked" / run
        _extract(draft / "runs" / f"{run}.tar.gz", into)
        for table in TABLES:
            part = draft / table / f"run={run}" / "part.parquet"
            if is_file(part):
                part.replace(into / f"{table}.parquet")
        with storage("move", into):
            (into / "lock").touch()
            into.replace(directory / run)
    for name in (CALENDAR, CAMPAIGN, MANIFEST):  # without a manifest it is not done
        with storage("move", draft / name):
            (draft / name).replace(directory / name)


def _extract(file: Path, into: Path) -> None:
    try:
        with storage("unpack", into), tarfile.open(file, "r:gz") as tar:
            into.mkdir(parents=True)
            for member in tar:
                _extract_file(tar, member, into)
    except (tarfile.TarError, EOFError, zlib.error, ValueError, OverflowError) as error:
        raise InputError(
            f"this is no run of an archive: {error}",
            where=f"runs/{file.name}",
            cure="take the archive from where it was made; nothing of it was imported",
        ) from error


def _extract_file(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    """Write one file, as extractall(filter="data") would, which Python has from 3.11.4 on."""
    name = PurePosixPath(member.name)
    data = tar.extractfile(member) if member.isreg() else None
    if data is None or name.is_absolute() or ".." in name.parts:
        raise tarfile.ExtractError(f"{member.name!r} is no file inside of it")
    path = into / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with data, path.open("wb") as file:
        shutil.copyfileobj(data, file)
    path.chmod(0o600 | member.mode & 0o755)
    os.utime(path, (member.mtime, member.mtime))


def read_record(directory: Path) -> CampaignRecord | None:
    """Return the campaign that was imported into a directory; None where there is none.

    Raises InputError for a damaged one.
    """
    if not is_file(directory / MANIFEST) or not is_file(directory / CALENDAR):
        return None
    manifest = _read_manifest(directory / MANIFEST, str(directory))
    try:
        with storage("read", directory):
            text = read_text(directory / CAMPAIGN)
            rows = parquet.read_table(directory / CALENDAR).to_pylist()
    except pa.ArrowException as error:
        cure = "import the archive once more"
        raise InputError(
            f"this calendar is damaged: {error}", where=str(directory), cure=cure
        ) from error
    reported = manifest.campaign.model_dump()
    campaign = CampaignRow(**reported, id=0, text=text, out=str(directory), holder=None)
    known = {one.name for one in fields(SessionRow)}  # another version may have had others
    mine = [{name: value for name, value in row.items() if name in known} for row in rows]
    sessions = [SessionRow(**{**row, "state": SessionState(row["state"])}) for row in mine]
    return CampaignRecord(campaign, sessions, manifest.gaps)


class ArchiveUrl:
    """Storage at a URL. Every method raises StorageError when the store fails."""

    def __init__(self, url: str) -> None:
        """Open it. Raises InputError for an unknown scheme, or without the library for it."""
        self.url = url if url.endswith("://") else url.rstrip("/")
        try:
            self._store, self._root = _open(self.url)
        except ImportError as error:
            cure = "pip install 'osmef[archive]'; other stores need a package of their own"
            raise InputError(
                f"no library for this kind of URL: {error}", where=url, cure=cure
            ) from error
        except (ValueError, OSError) as error:
            raise InputError(f"this URL can't be opened: {error}", where=url, cure=_CURE) from error
        self._has_directories = not self.url.startswith(_S3)

    def exists(self, name: str) -> bool:
        """Return whether a file exists."""
        with self._doing("look for", name):
            return bool(self._store.exists(self._path(name)))

    def put(self, name: str, file: Path) -> None:
        """Upload a file."""
        with self._doing("write", name):
            if self._has_directories:
                self._store.makedirs(str(PurePosixPath(self._path(name)).parent), exist_ok=True)
            with file.open("rb") as data, self._store.open(self._path(name), "wb") as there:
                shutil.copyfileobj(data, there, _AT_ONCE)

    def get(self, name: str, file: Path) -> None:
        """Download a file."""
        with storage("write", file), file.open("wb") as here:
            for chunk in self._read(name):
                here.write(chunk)

    def _read(self, name: str) -> Iterator[bytes]:
        with self._doing("read", name), self._store.open(self._path(name), "rb") as data:
            while chunk := data.read(_AT_ONCE):
                yield chunk

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @contextmanager
    def _doing(self, action: str, name: str) -> Iterator[None]:
        # Each library behind fsspec has exceptions of its own.
        try:
            yield
        except OsmefError:
            raise
        except Exception as error:
            reported = str(error).strip() or type(error).__name__
            where = f"{self.url}/{name}"
            full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
            cure = "free some space there, or give another URL" if full else _CURE
            raise StorageError(
                f"can't {action} this: {reported}", where=where, cure=cure
            ) from error


def _open(url: str) -> tuple[Any, str]:
    """Return the store of a URL, and the path there. S3 is Arrow's, which comes with pyarrow."""
    from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra

    if not url.startswith(_S3):
        found: tuple[Any, str] = url_to_fs(url)
        return found
    from fsspec.implementations.arrow import ArrowFSWrapper  # noqa: PLC0415
    from pyarrow.fs import S3FileSystem, resolve_s3_region  # noqa: PLC0415 - slow to load

    path = url.removeprefix(_S3)
    if not path:
        raise ValueError("it names no bucket")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    where = urlsplit(endpoint) if endpoint else None
    reported: dict[str, str] = {}
    if where is None:  # AWS itself, whose buckets are each in a region
        reported["region"] = resolve_s3_region(path.partition("/")[0])
    else:
        reported |= {"endpoint_override": where.netloc, "scheme": where.scheme}
    store = S3FileSystem(connect_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S, **reported)
    return ArrowFSWrapper(store), path


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
