"""Validation of a scenario, also with a server as receiver, and errors in users' terms."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from osmef.errors import MOST_PROBLEMS, OsmefError, Problem
from osmef.kinds import WORKLOADS
from osmef.scenario.base import conflict, keys_of
from osmef.scenario.clouds.static import StaticSettings
from osmef.scenario.fields import FLAVOR_TAGS, NAME, ONE, SEVERAL, percent_of, quantity_of
from osmef.scenario.layers import label_of
from osmef.scenario.model import Scenario
from osmef.scenario.names import (
    all_paths,
    default_kind,
    did_you_mean,
    field_at,
    fields_with,
    has_path,
    kind_at,
    models_at,
    models_within,
    settings_around,
)
from osmef.scenario.node import Keys, Node, kind_of, quoted
from osmef.scenario.workload import REPEAT_TAGS
from osmef.scenario.yaml_text import write_inline

_OWN = ("address", "port")


def with_server(data: Any) -> Any:
    """Return a scenario's values in which the workload has the server that is its receiver.

    The sender, the only client of that server, becomes a ``loopback`` endpoint. All else is
    unchanged. Raises a conflict of keys that exclude such a receiver.
    """
    receiver = _server_of(data)
    if receiver is None:
        return data
    workload = data.get("workload") or {}
    workload = {"kind": workload} if isinstance(workload, str) else workload
    host, port = _where(receiver)
    workload = _with_server(workload, host, port)
    if workload is None:
        return data
    sender = data["endpoints"].get("sender") or {}
    _check_sender(sender)
    _check_background(data.get("background"))
    more = {key: end for key, end in data["endpoints"].items() if key not in {"sender", "receiver"}}
    return {
        **data,
        "endpoints": {"loopback": sender, **more},
        "workload": workload,
    }


def _server_of(data: Any) -> Mapping[str, Any] | None:
    endpoints = data.get("endpoints") if isinstance(data, Mapping) else None
    receiver = endpoints.get("receiver") if isinstance(endpoints, Mapping) else None
    has = isinstance(receiver, Mapping) and receiver.get("address") is not None
    return receiver if has else None


def _where(receiver: Mapping[str, Any]) -> tuple[str, int | None]:
    for key in receiver:
        if key not in _OWN:
            raise conflict(
                f"receiver is a server that is there already, and {key} is of what OSMeF makes",
                f"remove {key}, or address",
                f"endpoints.receiver.{key}",
            )
    try:
        host = str(ipaddress.ip_address(receiver["address"]))
    except ValueError:
        raise conflict(
            f"{str(receiver['address'])[:60]!r} is no address",
            "write a numeric one such as 192.0.2.7, for endpoints look no names up, and its port"
            " as port",
            "endpoints.receiver.address",
        ) from None
    port = receiver.get("port")
    if port is not None and (type(port) is not int or not 0 < port < 65536):
        raise conflict(
            f"there is no port {str(port)[:20]}",
            "write one from 1 to 65535",
            "endpoints.receiver.port",
        )
    return host, port


def _check_sender(sender: Any) -> None:
    if not isinstance(sender, Mapping):
        return
    if sender.get("count", 1) != 1:
        raise conflict(
            "a server that is there already is asked by one endpoint",
            "remove count",
            "endpoints.sender.count",
        )
    for key in _OWN:
        if sender.get(key) is not None:
            raise conflict(
                f"sender has no {key}: it is the end that is ours",
                f"remove {key}; addresses of machines of yours are in the inventory",
                f"endpoints.sender.{key}",
            )


def _check_background(background: Any) -> None:
    """Refuse a workload that would stay on the client endpoint, beside the path to the server."""
    kind = background.get("kind", "btc") if isinstance(background, Mapping) else background
    try:
        settings = WORKLOADS.settings(kind)
    except (OsmefError, AttributeError, TypeError):
        return
    if settings.between_agents:
        raise conflict(
            f"{kind} needs an agent at both ends, and receiver is a server",
            "remove background, or use one that runs on the sender alone, such as stress-ng",
            *("background", "endpoints.receiver.address"),
        )


def _with_server(workload: Any, host: str, port: int | None) -> Mapping[str, Any] | None:
    """Return the workload with its ``server``; None for an unknown kind, reported elsewhere."""
    try:
        settings = WORKLOADS.settings(workload.get("kind", "btc"))
    except (OsmefError, AttributeError, TypeError):
        return None
    if not settings.takes_server:
        raise conflict(
            f"{workload.get('kind', 'btc')} needs an agent at both ends, and receiver is a server",
            "use a workload with a server of its own kind: " + ", ".join(_kinds_with_servers()),
            *("endpoints.receiver.address", "workload"),
        )
    if workload.get("server") is not None:
        raise conflict(
            "the server that is asked is named twice",
            "remove workload.server, or endpoints.receiver",
            *("workload.server", "endpoints.receiver.address"),
        )
    found: Mapping[str, Any] = settings.with_server(host, port, workload)
    return found


def _kinds_with_servers() -> list[str]:
    models = WORKLOADS.all_settings()
    return [model.model_fields["kind"].default for model in models if model.takes_server]


@dataclass(frozen=True)
class Assignment:
    """A value that the sweep assigns in a cell: its name, its path, and its position.

    ``key`` is where its name is written.
    """

    name: str
    paths: tuple[Keys, ...]
    value: Node
    key: Node

    @property
    def text(self) -> str:
        """The value in one line, as a user would write it."""
        plain = self.value.plain()
        if self.paths == (("layer",),):
            return label_of(plain)
        return plain if isinstance(plain, str) else write_scalar(plain)


def write_scalar(plain: object) -> str:
    """Serialise a value in one line: a mapping as YAML, anything else as JSON."""
    if isinstance(plain, dict | list):
        return write_inline(plain)
    text = json.dumps(plain, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(plain)


class Examined(NamedTuple):
    """A valid scenario, or its first errors; ``more`` is the number of others."""

    scenario: Scenario | None
    errors: list[ErrorDetails]
    more: int


def examine(tree: Node) -> Examined:
    """Validate a file's tree as a scenario.

    Values come as JSON would hand them over, so that no text silently becomes a number.
    """
    try:
        scenario = Scenario.model_validate_json(json.dumps(_asking(tree.plain())), strict=True)
        return Examined(scenario, [], 0)
    except ValidationError as error:
        found = error.errors(include_url=False)
        errors = [_without_choice(one) for one in found if not _is_of_other_type(one)]
        return Examined(None, *first_errors(errors, tree))


def _asking(plain: object) -> object:
    """Put a receiver that is a server into the workload. Raises ValidationError."""
    try:
        return with_server(plain)
    except PydanticCustomError as error:
        wrong = InitErrorDetails(type=error, loc=(), input=plain)
        raise ValidationError.from_exception_data("Scenario", [wrong]) from error


def first_errors(errors: list[ErrorDetails], tree: Node) -> tuple[list[ErrorDetails], int]:
    """Return the first errors in a file, and the number of others.

    To explain one takes long, and who has so many reads no more than these.
    """
    if len(errors) > MOST_PROBLEMS:
        errors = sorted(errors, key=lambda one: tree.nearest(_path(one)).index)
    return errors[:MOST_PROBLEMS], len(errors[MOST_PROBLEMS:])


def _is_of_other_type(error: ErrorDetails) -> bool:
    """Return whether an error is of an alternative type that was not meant."""
    choice = str(error["loc"][-1]) if error["loc"] else ""
    meant = "literal" if isinstance(error["input"], str) else "dict"
    return _CHOICE.fullmatch(choice) is not None and not choice.startswith(meant)


def _without_choice(error: ErrorDetails) -> ErrorDetails:
    """Return an error without pydantic's choices in its path."""
    loc = tuple(
        part
        for part in error["loc"]
        if part not in (*FLAVOR_TAGS, *REPEAT_TAGS, ONE, SEVERAL)
        and not _CHOICE.fullmatch(str(part))
    )
    return {**error, "loc": loc}


def is_conflict(error: ErrorDetails) -> bool:
    """Return whether an error concerns several keys, not a single value."""
    return error["type"] == "conflict"


def explain(error: ErrorDetails, tree: Node, swept: Sequence[Assignment] = ()) -> Problem:
    """Return the problem of one value, with its position.

    ``swept`` are the values that a sweep has put into the tree.
    """
    path = _path(error)
    if error["type"] == "extra_forbidden" and (wrong := _of_other_kind(path, tree, swept)):
        return wrong
    return _EXPLAIN.get(error["type"], _wrong_kind)(error, path, tree.nearest(path), tree)


def explain_conflict(error: ErrorDetails, tree: Node, swept: Sequence[Assignment]) -> Problem:
    """Return the problem of several values, at the one that the sweep assigns last, if any."""
    message, cure = str(error["ctx"]["message"]), str(error["ctx"]["cure"])
    loc = _path(error)
    keys = [(*loc, *str(key).split(".")) for key in error["ctx"]["keys"]]
    written = [key for key in keys if tree.get(key) is not None]
    concerned = [(a, key) for a in swept for key in written if _overlaps(a, key)]
    if not concerned:
        if not written:
            return tree.nearest(loc).problem(message, cure)
        return _key(tree, written[0]).problem(message, cure)
    last, key = concerned[-1]
    others = {a.name: a.text for a, _ in concerned if a is not last}
    if others:
        values_text = ", ".join(f"{name}: {text}" for name, text in others.items())
        message = f"{message} (here together with {values_text})"
        cure = f"{cure}; or leave the combination out with sweep.exclude"
    inside = any(key[: len(path)] == path for path in last.paths)
    node = tree.nearest(key) if inside else last.value
    return node.problem(message, cure)


def _overlaps(assignment: Assignment, key: Keys) -> bool:
    return any(key[: len(path)] == path or path[: len(key)] == key for path in assignment.paths)


def _path(error: ErrorDetails) -> Keys:
    return tuple(str(part) for part in error["loc"] if part != "[key]")


def _label(path: Keys) -> str:
    return ".".join(path) or "the scenario"


def _key(tree: Node, path: Keys) -> Node:
    """Return the key at the end of a path, or its nearest existing parent."""
    around = tree.nearest(path[:-1])
    entry = around.entries.get(path[-1])
    return entry.key if entry else around


def _of_other_kind(path: Keys, tree: Node, swept: Sequence[Assignment]) -> Problem | None:
    """Return the problem of a name that only other kinds have; None for a written key.

    A short name such as ``loss`` implies ``search.loss``, which the user has not written.
    """
    around = settings_around(path)
    if around is None:
        return None
    for one in swept:
        for whole in one.paths:
            if whole[: len(path)] == path:
                message, cure = _has_no(whole, around, tree)
                return one.key.problem(f"{one.name} can't be swept here: {message}", cure)
    whole, node = _made(path, tree)
    if node is None or not _kinds_with(whole, around):
        return None
    return node.problem(*_has_no(whole, around, tree))


def _made(path: Keys, tree: Node) -> tuple[Keys, Node | None]:
    """Return the path of a value for which a key was made, and the value; None of a written key."""
    entry = tree.nearest(path[:-1]).entries.get(path[-1])
    if entry is None or not entry.is_made:
        return path, None
    inner = next((key for key, one in entry.value.entries.items() if one.is_made), None)
    return _made((*path, inner), tree) if inner else (path, entry.value)


def _kinds_with(path: Keys, around: Keys) -> list[str]:
    inner = path[len(around) :]
    return [default_kind(model) for model in models_at(around) if has_path(model, inner)]


def _has_no(path: Keys, around: Keys, tree: Node) -> tuple[str, str]:
    """Return the problem that settings have no value at a path, with the kinds that do."""
    kind, key = kind_at(tree, around), ".".join(path[len(around) :])
    mine = [model for model in models_at(around) if default_kind(model) == kind]
    known = ", ".join(name for model in mine for name in keys_of(model))
    cure = f"{key} belongs to kind: {' or '.join(_kinds_with(path, around))}"
    return f"{_label(around)} {kind} has no {key}", f"{cure}; known here are: {known}"


def _unknown_key(_error: ErrorDetails, path: Keys, _node: Node, tree: Node) -> Problem:
    key = path[-1]
    models = models_at(path[:-1])
    others: list[str] = []
    if around := settings_around(path):
        inner = path[len(around) : -1]
        by_kind = {default_kind(m): models_within(m, inner) for m in models_at(around)}
        others = [kind for kind, those in by_kind.items() if any(key in keys_of(m) for m in those)]
        models = by_kind.get(str(kind_at(tree, around)), [])
    known = [name for model in models for name in keys_of(model)]
    if len(path) == 1:
        known.append("sweep")
    where = f" in {_label(path[:-1])}" if len(path) > 1 else ""
    elsewhere = _elsewhere(key)
    cure = did_you_mean(key, known, known, elsewhere)
    inside = fields_with(models, key) if around else []
    if StaticSettings not in models and any(one.startswith("endpoints.") for one in elsewhere):
        # Hosts beside the VMs of a cloud have a flavor, too, but that of an endpoint is meant.
        inside = [name for name in inside if name != "hosts"]
    if inside:
        cure = f"it belongs into {' or '.join(inside)}; known here are: {', '.join(known)}"
    elif others:
        cure = f"it belongs to kind: {' or '.join(others)}; known here are: {', '.join(known)}"
    return _key(tree, path).problem(f"unknown key {quoted(key)}{where}", cure)


def _elsewhere(key: str) -> list[str]:
    """Return the names of a key in other places; of endpoints those that most scenarios have."""
    paths = [path for path in all_paths(tuple(Scenario.model_fields)) if path[-1] == key]
    ends = {"sender", "receiver"}
    return [".".join(path) for path in paths if path[0] != "endpoints" or ends & {*path}]


def _missing(_error: ErrorDetails, path: Keys, node: Node, tree: Node) -> Problem:
    field = _field_of_kind(tree, path) or field_at(path)
    about = f" ({field.description})" if field and field.description else ""
    return node.problem(f"the key {path[-1]!r} is missing", f"add a line {path[-1]}: …{about}")


def _field_of_kind(tree: Node, path: Keys) -> FieldInfo | None:
    """Return the field at a path in settings of the written kind; None outside of these."""
    around = settings_around(path)
    if not around:
        return None
    kind, inner = kind_at(tree, around), path[len(around) : -1]
    there = [model for model in models_at(around) if default_kind(model) == kind]
    fields = [keys_of(m).get(path[-1]) for model in there for m in models_within(model, inner)]
    return next((field for field in fields if field is not None), None)


def _unknown_word(error: ErrorDetails, path: Keys, node: Node, _tree: Node) -> Problem:
    # Words in quotes, or bare numbers: 'tcp' or 'udp', 10 or 20.
    found = re.findall(r"'([^']*)'|(-?[0-9][0-9.]*)", str(error["ctx"]["expected"]))
    choices = [word or number for word, number in found]
    plain = node.plain()
    given = quoted(plain) if isinstance(plain, str) else kind_of(plain)
    return node.problem(
        f"{_label(path)} can't be {given}", did_you_mean(str(plain), choices, choices)
    )


def _unknown_kind(error: ErrorDetails, path: Keys, _node: Node, tree: Node) -> Problem:
    choices: list[str] = error["ctx"]["expected"]
    node = tree.nearest((*path, "kind"))
    plain = node.plain()
    what = "provider" if path[0] == "sites" else str(path[0])
    if plain is None:
        return node.problem(f"the kind of a {what} is empty", did_you_mean("", choices, choices))
    known = did_you_mean(str(plain), choices, choices)
    if not isinstance(plain, str):
        return node.problem(f"the kind of a {what} is a name, not {kind_of(plain)}", known)
    return node.problem(f"there is no {what} {quoted(plain)}", known)


def _broken_kind(error: ErrorDetails, path: Keys, _node: Node, tree: Node) -> Problem:
    node = tree.nearest((*path, "kind"))
    return node.problem(str(error["ctx"]["message"]), str(error["ctx"]["cure"]))


def _quantity(error: ErrorDetails, path: Keys, node: Node, _tree: Node) -> Problem:
    message, _, cure = str(error["ctx"]["error"]).partition("; ")
    plain = node.plain()
    if not isinstance(plain, str):
        message = message.replace("''", kind_of(plain), 1)
    return node.problem(f"{_label(path)}: {message}", cure)


def _out_of_range(error: ErrorDetails, path: Keys, node: Node, _tree: Node) -> Problem:
    key, words = _LIMITS[error["type"]]
    field = field_at(path)
    quantity = quantity_of(field) if field else None
    limit = error["ctx"][key]
    shown = quantity.show(limit) if quantity else str(limit)
    if quantity and key == "ge" and isinstance(limit, int) and float(f"{limit:.3g}") < limit:
        shown = f"{limit} B"  # three digits of it may be too little
    given = quoted(str(node.plain())) if quantity else str(node.plain())[:60]
    return node.problem(
        f"{_label(path)} is {given}, but must be {words} {shown}", f"write {words} {shown}"
    )


def _wrong_text(error: ErrorDetails, path: Keys, node: Node, tree: Node) -> Problem:
    message, cure = _TEXTS[error["type"]]
    if error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] != NAME:
        message, cure = "is not written as it has to be", "it has to match {pattern}, as grep -E"
        cure = cure.format(**error["ctx"]) + " reads it"
    is_key = error["loc"][-1] == "[key]"
    node = _key(tree, path) if is_key else node
    given = path[-1] if is_key else node.plain()
    label = f"the name {quoted(given)}" if is_key else _label(path)
    return node.problem(f"{label} {message.format(**error.get('ctx', {}))}", cure)


def _wrong_kind(error: ErrorDetails, path: Keys, node: Node, _tree: Node) -> Problem:
    wanted, cure = _KINDS.get(error["type"], ("something else", "see the scenario reference"))
    plain = node.plain()
    if _OFF_CALENDAR.search(str(error.get("ctx", {}).get("error", ""))):
        message = f"{_label(path)} is {quoted(plain)}, which does not exist"
        return node.problem(message, f"write {wanted} of the calendar")
    if error["type"] == "bool_type" and str(plain).lower() in _YES_NO:
        cure = f"write {_YES_NO[str(plain).lower()]}"
    if error["type"] == "int_type" and re.fullmatch("[0-9]{1,18}", str(plain)):
        cure = f"write {plain} without quotes"
    percent = percent_of(plain)
    if percent is not None and error["type"] in {"float_type", "int_type"}:
        cure = _without_sign(percent, path[-1], whole=error["type"] == "int_type")
    if error["type"] == "string_type" and plain is not None and not isinstance(plain, dict | list):
        shown = str(plain).lower() if isinstance(plain, bool) else str(plain)[:60]
        cure = f"put it in quotes: '{shown}'"
    if path and path[-1] in _SUMS and type(plain) in {int, float}:
        cure = f"write it with its currency: {plain} USD"
    return node.problem(f"{_label(path)} must be {wanted}, but it is {kind_of(plain)}", cure)


def _without_sign(percent: float, key: str, *, whole: bool) -> str:
    """Return a percentage as a number."""
    if key.endswith("percent"):
        return f"write {percent:g}, without %"
    return "write a whole number, without %" if whole else f"write {percent / 100:g}"


_CHOICE = re.compile(r"(dict|literal)\[.*\]")
"""What pydantic calls one of several types that a value may have."""
_SUMS = {"budget", "per_hour"}
"""Keys of sums of money."""
_YES_NO = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_TEXTS = {
    "string_pattern_mismatch": (
        "may hold only lower-case letters, digits and dashes, and no dash at its ends",
        "write it like my-test-1",
    ),
    "string_too_long": ("is longer than {max_length} characters", "shorten it"),
    "string_too_short": ("is an empty text", "write something, or leave the key out"),
    "too_short": ("is empty", "write something into it, or leave the key out"),
}
_LIST = ("a list", "write its values in brackets, such as [0, 1]")
_DATE = ("a date", "write it like 2026-03-01")
_MOMENT = ("a day and a time", "write it like 2026-03-01 18:00")
_OFF_CALENDAR = re.compile("out of range|outside expected range")
"""What pydantic says of a date, or a time of day, that is written well and does not exist."""
_MAPPING = ("a mapping", "write lines of key: value, or {key: value}")
_KINDS = {
    "int_type": ("a whole number", "write a number without quotes and without a point"),
    "float_type": ("a number", "write a number without quotes"),
    "bool_type": ("true or false", "write true or false, without quotes"),
    "string_type": ("a text", "write a text"),
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "list_type": _LIST,
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": _DATE,
    "datetime_type": _MOMENT,
    "datetime_parsing": _MOMENT,
    "datetime_from_date_parsing": _MOMENT,
    "dict_type": _MAPPING,
}
_LIMITS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
_EXPLAIN: dict[str, Callable[[ErrorDetails, Keys, Node, Node], Problem]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
    "enum": _unknown_word,
    "literal_error": _unknown_word,
    "unknown_kind": _unknown_kind,
    "broken_kind": _broken_kind,
    "value_error": _quantity,
    **dict.fromkeys(_LIMITS, _out_of_range),
    **dict.fromkeys(_TEXTS, _wrong_text),
}
