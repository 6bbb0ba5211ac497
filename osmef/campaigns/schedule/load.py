"""Load a campaign file and its scenario files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from osmef.campaigns.schedule.calendar import Platform, platforms, slots
from osmef.campaigns.schedule.model import (
    REDACTED,
    Campaign,
    Notify,
    SessionStoppingRule,
    Window,
    redacted,
)
from osmef.errors import MOST_PROBLEMS, InputError, Problem
from osmef.files import exists, in_home
from osmef.kinds import PROVIDERS
from osmef.scenario.base import Model
from osmef.scenario.explain import explain, first_errors
from osmef.scenario.load import load
from osmef.scenario.names import did_you_mean
from osmef.scenario.node import Node, kind_of, quoted
from osmef.scenario.study import Study
from osmef.scenario.text_file import read_nodes, read_text
from osmef.units import format_duration
from osmef.workloads import TrialWorkload


@dataclass(frozen=True)
class LoadedCampaign:
    """A campaign and the study of each of its platforms. ``text`` is its file, without secrets."""

    path: Path
    text: str
    campaign: Campaign
    studies: Mapping[Platform, Study]


def read_campaign(path: Path) -> LoadedCampaign:
    """Read a campaign file and its scenarios. Raises InputError, with every Problem found."""
    text = read_text(path)
    campaign, tree = _parse(text, path)
    _check_calendar(campaign, tree)
    notify = _with_webhook(campaign.notify, tree)
    studies = _studies(path, campaign, tree)
    campaign = campaign.model_copy(update={"notify": notify})
    return LoadedCampaign(path, redacted(text, path), campaign, studies)


def parse_campaign(text: str, path: Path) -> Campaign:
    """Return a campaign from the text of its file, without its scenarios. Raises InputError."""
    return _parse(text, path)[0]


def _parse(text: str, path: Path) -> tuple[Campaign, Node]:
    tree, builder = read_nodes(text, path)
    if tree is None or not isinstance(tree.content, Mapping):
        what = "the file is empty" if tree is None else f"it is {kind_of(tree.plain())}"
        cure = "a campaign is a mapping; begin with a line such as name: four-clouds"
        raise builder.source.error(0, what, cure)
    if "scenarios" not in tree.content and "workload" in tree.content:
        command = f"osmef run {shlex.quote(str(path))}"
        cure = f"run it with: {command}; or name it under `scenarios` of a campaign"
        key = tree.content["workload"].key
        raise key.source.error(key.index, "this is a scenario, not a campaign", cure)
    problems, more = list(builder.problems), 0
    campaign = None
    try:
        campaign = Campaign.model_validate_json(json.dumps(tree.plain()), strict=True)
    except ValidationError as error:
        errors, more = first_errors(error.errors(include_url=False), tree)
        problems += [_explain(one, tree) for one in errors]
    if problems:  # else the scenarios are read, whose errors say more
        problems += [one for one in _beside(tree, path.parent) if one not in problems]
    if campaign is None or problems:
        raise InputError.from_problems(problems, more)
    return campaign, tree


def _beside(tree: Node, folder: Path) -> Iterator[Problem]:
    """Yield invalid file names and clouds, independently of other errors."""
    scenarios, clouds = tree.get(("scenarios",)), tree.get(("providers",))
    for node in scenarios.items if scenarios else ():
        name = node.plain()
        if isinstance(name, str) and not exists(folder / name):
            yield node.problem(f"{folder / name}: there is no such file", "check the path")
    for entry in clouds.entries.values() if clouds else ():
        plain = entry.value.plain()
        kind = plain.get("kind") if isinstance(plain, dict) else plain
        if isinstance(kind, str) and kind not in PROVIDERS.names:
            cure = did_you_mean(kind, PROVIDERS.names, PROVIDERS.names)
            yield entry.value.problem(f"there is no provider {quoted(kind)}", cure)


def _with_webhook(notify: Notify, tree: Node) -> Notify:
    """Return the notifications with the webhook read from its file. Raises InputError."""
    secret = notify.webhook.get_secret_value() if notify.webhook else ""
    if secret == REDACTED or any(REDACTED in word for word in notify.command):
        what = "notify: a secret was left out of this copy of the file"
        cure = "write it again, or name a file that holds it with webhook_file"
        raise InputError.from_problems([tree.nearest(("notify",)).problem(what, cure)])
    if notify.webhook_file is None:
        return notify
    try:
        return notify.model_copy(update={"webhook": _read_secret(in_home(notify.webhook_file))})
    except InputError as error:
        what = f"notify.webhook_file: {error.message}"
        node = tree.nearest(("notify", "webhook_file"))
        raise InputError.from_problems([node.problem(what, error.cure or "")]) from None


def _read_secret(path: Path) -> SecretStr:
    """Return the URL in a private file. Raises InputError, which does not quote it."""
    text = read_text(path).strip()
    if path.stat().st_mode & 0o077:
        raise InputError("others may read this file", cure=f"chmod 600 {path}")
    try:
        notify = Notify(webhook=SecretStr(text))
    except ValidationError:
        raise InputError("it contains no URL", cure="write one line, https://…") from None
    return notify.webhook or SecretStr("")


def _check_calendar(campaign: Campaign, tree: Node) -> None:
    """Refuse a campaign with no session, or with too many."""
    key, message, cure = "windows", "no window ever opens", "look at windows, weeks and holidays"
    try:
        if slots(campaign):
            return
        if slots(campaign.model_copy(update={"deadline": None})):
            key, message = "deadline", "no window opens before it"
            cure = "write a later deadline, or an earlier start"
    except InputError as error:
        message, cure = error.message, error.cure or cure
    raise InputError.from_problems([tree.nearest((key,)).problem(f"{key}: {message}", cure)])


def _studies(path: Path, campaign: Campaign, tree: Node) -> dict[Platform, Study]:
    """Load the scenario of each platform, with the campaign's values overriding its own."""
    found: dict[Platform, Study] = {}
    problems: list[Problem] = []
    for platform in platforms(campaign):
        if len(problems) > MOST_PROBLEMS:
            break
        try:
            found[platform] = load(
                path.parent / platform.scenario, overrides(campaign, platform, path.parent)
            )
        except InputError as error:
            problems += _placed(error, platform, campaign, tree)
    if not problems and campaign.stop is not None:
        problems += _unknown_metric(campaign.stop.metric, found.values(), tree)
    if problems:
        raise InputError.from_problems(list(dict.fromkeys(problems)))
    return found


def _unknown_metric(metric: str, studies: Iterable[Study], tree: Node) -> list[Problem]:
    """Return problems of a stopping rule whose metric some scenario does not measure."""
    for cell in (cell for study in studies for cell in study.cells):
        known = [measure.name for measure in TrialWorkload(cell.scenario).measures]
        if metric not in known:
            what = f"stop.metric: {cell.scenario.name} has no metric {quoted(metric)}"
            cure = did_you_mean(metric, known, known)
            return [tree.nearest(("stop", "metric")).problem(what, cure)]
    return []


def overrides(campaign: Campaign, platform: Platform, folder: Path) -> dict[str, str]:
    """Return the values that a platform overrides in its scenario, as ``--set`` would.

    An inventory that the campaign names is seen from its own ``folder``.
    """
    values: dict[str, str] = {}
    if platform.provider is not None:
        settings = campaign.providers[platform.provider]
        if isinstance(settings, dict) and isinstance(settings.get("inventory"), str):
            path = Path(settings["inventory"])
            home = str(path).startswith("~")
            settings = {**settings, "inventory": str(path if home else folder.resolve() / path)}
        values["provider"] = json.dumps(settings)
    if platform.instance_class is not None:
        values["flavor"] = f"class:{platform.instance_class}"
    if campaign.pause is not None:
        values["pause"] = f"{campaign.pause}s"
    return values


def _placed(error: InputError, platform: Platform, campaign: Campaign, tree: Node) -> list[Problem]:
    """Return problems with their positions: in the scenario, or in the overriding campaign."""
    if not error.problems:
        node = tree.nearest(("scenarios", str(campaign.scenarios.index(platform.scenario))))
        return [node.problem(f"{error.where}: {error.message}", error.cure or "check the path")]
    ours = {
        "--set provider": ("providers", platform.provider or ""),
        "--set flavor": ("classes",),
        "--set pause": ("pause",),
    }
    return [
        tree.nearest(ours[one.file]).problem(one.message, one.cure) if one.file in ours else one
        for one in error.problems
    ]


def _explain(error: ErrorDetails, tree: Node) -> Problem:
    """Return the problem of one invalid value, with its position."""
    path = tuple(str(part) for part in error["loc"] if part != "[key]")
    if path[0] == "notify" and (error["type"] not in _SAYS_NO_VALUE or "/" in path[-1]):
        label = ".".join(part for part in path if "/" not in part)
        what = error["msg"][0].lower() + error["msg"][1:]
        cure = "write notify: {webhook: https://…}, or command: [program, argument]"
        return tree.nearest(path).problem(f"{label}: {what}", cure)
    if error["type"] == "value_error":
        message, _, cure = str(error["ctx"]["error"]).partition("; ")
        return tree.nearest(path).problem(f"{'.'.join(path)}: {message}", cure)
    if error["type"] == "conflict":
        context = error["ctx"]
        key = (*path, str(context["keys"][0]))
        return tree.nearest(key).problem(f"{'.'.join(path)}: {context['message']}", context["cure"])
    if error["type"] == "extra_forbidden":
        known = list(_INSIDE.get(path[0], Campaign).model_fields)
        entry = tree.nearest(path[:-1]).entries.get(path[-1])
        node = entry.key if entry else tree.nearest(path)
        return node.problem(f"unknown key {quoted(path[-1])}", did_you_mean(path[-1], known, known))
    if error["type"] == "missing":
        what, cure = f"the key {path[-1]!r} is missing", f"add a line {path[-1]}: …"
        return tree.nearest(path).problem(what, cure)
    if path[-1] in {"jitter", "length"} and "ctx" in error:
        limits = {name: format_duration(value) for name, value in error["ctx"].items()}
        error = {**error, "ctx": limits}
    return explain(error, tree)


# Of values under notify no word is shown: they are secrets, or may hold some.
_SAYS_NO_VALUE = {"value_error", "conflict", "missing", "extra_forbidden"}
_INSIDE: Mapping[str, type[Model]] = {
    "windows": Window,
    "stop": SessionStoppingRule,
    "notify": Notify,
}
