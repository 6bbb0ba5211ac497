"""Model of the campaign file: scenarios, providers, windows, weeks, and stopping rule.

Also the redaction of its secrets: the URL of a webhook carries a token. So no copy of the file
holds it: neither the database nor an archive. ``REDACTED`` replaces it.
"""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from osmef.errors import InputError
from osmef.scenario.base import Model, conflict
from osmef.scenario.fields import Duration, Name, Sum
from osmef.scenario.names import did_you_mean
from osmef.scenario.text_file import is_json, read_nodes
from osmef.scenario.yaml_text import write_yaml

REDACTED = "redacted"
_URL = re.compile(r"https?://[^\s\"'<>]+", re.IGNORECASE)
_REST = r"[^\s\"'<>,)\]}]"
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")


def redacted(text: str, path: Path) -> str:
    """Return the text of a campaign file without its webhook, or URLs in its command.

    Copies of these in comments and elsewhere are replaced, too. Where the text can't be edited,
    the file is rewritten, without comments.
    """
    try:
        plain = _plain(text, path)
    except InputError:  # an older version accepted it; its content is unknown
        return _URL.sub(REDACTED, text)
    secrets = _secrets(plain)
    hidden = _hidden(plain, secrets)
    masked = _hide(text, secrets)
    if not is_json(path) and "notify" in text:
        masked = _COMMENT.sub(lambda comment: _URL.sub(REDACTED, comment[0]), masked)
    try:
        if _plain(masked, path) == hidden:
            return masked
    except InputError:
        pass
    return json.dumps(hidden, indent=2) + "\n" if is_json(path) else write_yaml(hidden)


def is_redacted(text: str, path: Path) -> bool:
    """Return whether a campaign file was redacted, so that its secrets must be added again."""
    try:
        return _is_left_out(_plain(text, path))
    except InputError:
        return REDACTED in text


def _is_left_out(plain: object) -> bool:
    webhook, command = _notify(plain)
    return webhook == REDACTED or any(REDACTED in word for word in command)


def _plain(text: str, path: Path) -> object:
    tree, _ = read_nodes(text, path)
    return None if tree is None else tree.plain()


def _notify(plain: object) -> tuple[str, list[str]]:
    """Return the webhook and the words of the command, if any."""
    reported = plain.get("notify") if isinstance(plain, dict) else None
    if not isinstance(reported, dict):
        return "", []
    webhook, command = reported.get("webhook"), reported.get("command")
    words = command if isinstance(command, list) else []
    return str(webhook or ""), [word for word in words if isinstance(word, str)]


def _secrets(plain: object) -> list[str]:
    webhook, command = _notify(plain)
    found = {webhook, *(url for word in command for url in _URL.findall(word))} - {"", REDACTED}
    found |= {one.partition("://")[2] for one in found if _has_path(one)}
    return sorted(found, key=len, reverse=True)


def _has_path(url: str) -> bool:
    return bool(url.partition("://")[2].partition("/")[2])


def _hide(text: str, secrets: Sequence[str]) -> str:
    """Replace each secret and its suffix; a host alone only if it has none."""
    for secret in secrets:
        end = f"{_REST}*" if "://" not in secret or _has_path(secret) else f"(?!{_REST})"
        text = re.sub(re.escape(secret) + end, REDACTED, text)
    return text


def _hidden(plain: object, secrets: Sequence[str]) -> object:
    if isinstance(plain, dict):
        return {_hide(key, secrets): _hidden(value, secrets) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_hidden(value, secrets) for value in plain]
    return _hide(plain, secrets) if isinstance(plain, str) else plain


_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


class Days(StrEnum):
    """On which days a window is open. A holiday counts as a day of the weekend."""

    WEEKDAYS = "weekdays"
    WEEKEND = "weekend"
    ALL = "all"


def _clock(text: str) -> str:
    if not _CLOCK.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no time of day; write it like '09:00'")
    return text


def parse_clock(text: str) -> datetime.time:
    """Parse a time of day such as ``09:00``. Raises ValueError."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time of day")
    return datetime.time(int(match[1]), int(match[2]))


def _cron(text: str) -> str:
    try:
        _parse_cron(text)
    except CronSimError as error:
        what = f"is no cron expression ({error})"
        cure = "write five fields: minute, hour, day, month, weekday, such as '0 2 * * mon'"
        if _is_off_calendar(text):
            what = "never comes: no such day is in its months"
            cure = "name another day, or a month that has it"
        raise ValueError(f"{text[:60]!r} {what}; {cure}") from None
    return text


def _parse_cron(text: str) -> None:
    """Parse a cron expression. Raises CronSimError."""
    if len(text.split()) != 5:  # the library would take seconds, too
        raise CronSimError("it does not have five fields")
    CronSim(text, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))


def _is_off_calendar(text: str) -> bool:
    """Return whether a wrong cron expression is right in any other month, such as 30 February."""
    fields = text.split()
    try:
        _parse_cron(" ".join([*fields[:3], "*", *fields[4:]]))
        _parse_cron(" ".join([*fields[:2], "*", *fields[3:]]))
    except CronSimError:
        return False
    return True


def _web(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if text != REDACTED and not re.fullmatch(r"https?://[^\s/][!-~]*", text):
        raise ValueError("this is not a URL; begin it with https://, without spaces")
    return secret


def _whole_path(text: str) -> str:
    if not re.match("~|/", text):
        raise ValueError("this is not an absolute path; begin it with / or ~/")
    return text


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        known = "write a name of the tz database, such as Europe/Berlin or UTC"
        raise ValueError(f"there is no time zone {text[:60]!r}; {known}") from None
    return text


Clock = Annotated[
    str,
    AfterValidator(_clock),
    WithJsonSchema({"type": "string", "pattern": f"^({_CLOCK.pattern})$", "examples": ["09:00"]}),
]
"""A time of day in the campaign's time zone."""

Web = Annotated[
    SecretStr,
    AfterValidator(_web),
    WithJsonSchema({"type": "string", "pattern": "^https?://"}),
]
"""The address of a service; who knows it may speak to it, so it is never shown."""


def _twice(words: Iterable[str]) -> str | None:
    """Return the first word that occurs twice."""
    return next((word for word, count in Counter(words).items() if count > 1), None)


def _check_each_once(words: Iterable[str]) -> None:
    """Raise ValueError for a word that occurs twice."""
    twice = _twice(words)
    if twice is not None:
        raise ValueError(f"{twice[:60]!r} is here twice; keep one of them")


class Window(Model):
    """When sessions of one name may run: hours on some days, or from each time of a cron line."""

    days: Days = Field(
        default=Days.ALL, description="weekdays, weekend or all; also with cron, of its times"
    )
    opens: Clock | None = Field(default=None, description="when it opens, such as `09:00`")
    closes: Clock | None = Field(
        default=None, description="when it closes; on the next day if that is not later"
    )
    cron: Annotated[str, AfterValidator(_cron)] | None = Field(
        default=None,
        description="instead of opens: minute, hour, day, month, weekday (crontab(5))",
    )
    length: Duration | None = Field(
        default=None, ge=1, le=7 * 86400, description="with cron: how long it stays open"
    )

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> Window:
        if self.cron is not None and (self.opens or self.closes):
            raise conflict(
                "a cron expression says times itself",
                "remove cron, or opens and closes",
                *("cron", "opens", "closes"),
            )
        if self.cron is not None and self.length is None:
            raise conflict(
                "it does not say how long the window stays open",
                "write length, such as length: 1h",
                "cron",
            )
        if self.cron is None and (self.opens is None or self.closes is None):
            raise conflict(
                "a window needs opens and closes, or cron and length",
                "write, for example, opens: '09:00' and closes: '17:00'",
                *("opens", "closes"),
            )
        if self.cron is None and self.length is not None:
            raise conflict(
                "length goes with cron", "remove length: closes says when it ends", "length"
            )
        return self


_USUAL: dict[str, dict[str, Any]] = {
    "weekday-peak": {"days": "weekdays", "opens": "09:00", "closes": "17:00"},
    "weekday-offpeak": {"days": "weekdays", "opens": "21:00", "closes": "05:00"},
    "weekend-peak": {"days": "weekend", "opens": "09:00", "closes": "17:00"},
    "weekend-offpeak": {"days": "weekend", "opens": "21:00", "closes": "05:00"},
}


class PlatformOrder(StrEnum):
    """The order of what is measured in one window."""

    SEQUENTIAL = "sequential"
    RANDOM = "random"


class Missed(StrEnum):
    """Policy for a session whose start was missed."""

    RUN = "run"
    SKIP = "skip"


class Vms(StrEnum):
    """Whose VMs a session measures on."""

    FRESH = "fresh"
    KEPT = "kept"


class SessionStoppingRule(Model):
    """When what is known of a cell is enough."""

    metric: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="aggregate_btc_bps", description="the metric that must be known well enough"
    )
    width_percent: float = Field(
        gt=0,
        le=1000,
        description="95 % interval of the median, as a share of it, in percent; it is valid"
        " although it is checked after each session",
    )
    minimum: int = Field(
        default=6,
        ge=6,
        le=100_000,
        description="sessions that are measured in any case; 8 are needed to know a cell",
    )


class Notify(Model):
    """Recipients of notifications: of failures, of a spent budget and of the end."""

    command: list[str] = Field(
        default_factory=list,
        description="program and arguments; it reads one JSON object from standard input",
    )
    webhook: Web | None = Field(default=None, description="URL that one JSON object is posted to")
    webhook_file: Annotated[str, AfterValidator(_whole_path)] | None = Field(
        default=None,
        description="file that holds this URL, which only its owner may read, such as"
        " `~/.config/osmef/webhook`",
    )

    @model_validator(mode="after")
    def _one_webhook(self) -> Notify:
        if self.webhook is not None and self.webhook_file is not None:
            keys = ("webhook_file", "webhook")
            raise conflict("the webhook is given twice", "keep one of the two", *keys)
        return self


class Campaign(Model):
    """Scenarios x providers x classes, in every window, for some weeks."""

    name: Name = Field(description="lower-case letters, digits and dashes")
    description: str = Field(default="", description="one line for the reader of the results")
    scenarios: list[str] = Field(
        min_length=1, max_length=1000, description="scenario files, seen from the campaign file"
    )
    providers: dict[Name, Any] = Field(
        default_factory=dict,
        description="clouds by a name of your choice: what a scenario says under provider;"
        " by default each scenario's own",
    )
    classes: list[Name] = Field(
        default_factory=list,
        description="classes of VMs, one after the other for all VMs; by default what each"
        " scenario says",
    )
    start: datetime.date = Field(
        ge=datetime.date(1970, 1, 1),
        le=datetime.date(9000, 1, 1),
        description="first day, such as 2026-12-01",
    )
    weeks: int = Field(default=4, ge=1, le=520, description="for how many weeks")
    time_zone: Annotated[str, AfterValidator(_zone)] = Field(
        default="UTC", description="of all times of day, such as Europe/Berlin"
    )
    windows: dict[Name, Window] = Field(
        default_factory=lambda: {
            name: Window.model_validate(usual) for name, usual in _USUAL.items()
        },
        min_length=1,
        description="when sessions run, by name; also a list of the usual names: "
        + ", ".join(_USUAL),
    )
    holidays: list[datetime.date] = Field(
        default_factory=list, description="days that count as weekend"
    )
    vms: Vms = Field(
        default=Vms.FRESH,
        description="`fresh` for every session, or `kept` from the first session of a platform to"
        " its last",
    )
    jitter: Duration = Field(
        default=0.0, ge=0, le=86400, description="each window begins up to so much later, by chance"
    )
    order: PlatformOrder = Field(
        default=PlatformOrder.RANDOM, description="random: a new order in each window; sequential"
    )
    seed: int = Field(default=1, ge=0, lt=2**63, description="of the order and the jitter")
    pause: Duration | None = Field(
        default=None,
        ge=0,
        le=86400,
        description="rest before each trial; by default the scenario's",
    )
    missed: Missed = Field(
        default=Missed.RUN,
        description="a session whose start was missed: `run` it as long as its window is open, or"
        " `skip` it",
    )
    exclusive: bool = Field(
        default=True, description="whether a cloud is measured by one session at a time"
    )
    budget: Sum | None = Field(
        default=None, description="what all VMs may cost by the price list, such as `100 USD`"
    )
    deadline: datetime.datetime | None = Field(
        default=None,
        description="when the last session may begin, such as `2026-12-24 18:00`, in the"
        " campaign's time zone; one that has begun is finished",
    )
    stop: SessionStoppingRule | None = Field(
        default=None, description="when a cell has been measured often enough; by default never"
    )
    notify: Notify = Field(default_factory=Notify, description="who is notified of what")

    @field_validator("scenarios", "classes")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        _check_each_once(value)
        return value

    @field_validator("scenarios")
    @classmethod
    def _each_by_its_name(cls, value: list[str]) -> list[str]:
        """Platforms are called by the names of these files, in every result."""
        twice = _twice([PurePath(one).stem for one in value])
        if twice is not None:
            raise ValueError(f"two scenario files are called {twice[:60]!r}; rename one of them")
        return value

    @field_validator("windows", mode="before")
    @classmethod
    def _usual_windows(cls, value: Any) -> Any:  # whatever the file holds
        if not isinstance(value, list):
            return value
        if not all(isinstance(name, str) for name in value):
            cure = "write your own as windows: {NAME: {opens: '09:00', closes: '17:00'}}"
            raise ValueError(f"a list may hold only names of usual windows; {cure}")
        for name in value:
            if name not in _USUAL:
                cure = did_you_mean(name, _USUAL, _USUAL)
                raise ValueError(f"there is no usual window {name[:60]!r}; {cure}")
        _check_each_once(value)
        return {name: _USUAL[name] for name in value}
