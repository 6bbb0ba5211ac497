"""Google's own description of its API, and what doesn't conform to it.

It is the discovery document of compute.v1 in the package google-api-python-client.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import googleapiclient

BASE = "/compute/v1/"
_DOCUMENT = "discovery_cache/documents/compute.v1.json"
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
_INTEGERS = {"int32", "uint32", "int64", "uint64"}


class RefusalError(Exception):
    """An error as the API answers it: an HTTP status, a reason and a message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def body(self) -> dict[str, Any]:
        """The body of the answer."""
        one = {"message": self.message, "domain": "global", "reason": self.reason}
        return {"error": {"code": self.status, "message": self.message, "errors": [one]}}


def invalid(message: str) -> RefusalError:
    return RefusalError(400, "invalid", message)


def required(name: str) -> RefusalError:
    return RefusalError(400, "required", f"Required field '{name}' not specified")


@dataclass(frozen=True)
class Call:
    """A request that conforms: the method's id, its parameters and its body."""

    id: str
    parameters: dict[str, str]
    body: dict[str, Any]
    response: str

    def __getitem__(self, name: str) -> str:
        return self.parameters[name]


class Description:
    """All methods and schemas."""

    def __init__(self) -> None:
        text = (Path(googleapiclient.__file__).parent / _DOCUMENT).read_text()
        document = json.loads(text)
        self._schemas: dict[str, Any] = document["schemas"]
        self._common: dict[str, Any] = document["parameters"]
        self._methods: list[tuple[str, re.Pattern[str], Any]] = []
        for resource in document["resources"].values():
            for method in resource.get("methods", {}).values():
                shape = re.sub(r"\{\+?(\w+)\}", r"(?P<\1>[^/]+)", method["path"])
                pattern = re.compile(f"{BASE}{shape}")
                self._methods.append((method["httpMethod"], pattern, method))

    def read(self, verb: str, path: str, query: dict[str, str], body: Any) -> Call:
        """Return the call that a request is. Raises RefusalError."""
        for http, pattern, method in self._methods:
            found = pattern.fullmatch(path)
            if found and http == verb:
                return self._call(method, {**found.groupdict()}, query, body)
        raise RefusalError(404, "notFound", f"{verb} {path} is no method of this API")

    def _call(self, method: Any, path: dict[str, str], query: dict[str, str], body: Any) -> Call:
        known = method.get("parameters", {})
        for name, text in {**path, **query}.items():
            rule = known.get(name) or self._common.get(name.lstrip("$")) or self._common.get(name)
            if rule is None or (name in query and rule.get("location") == "path"):
                raise invalid(f'Unknown name "{name}": Cannot bind query parameter.')
            _check_text(name, rule, text)
        for name, rule in known.items():
            if rule.get("required") and name not in path and name not in query:
                raise required(name)
        wanted = method.get("request", {}).get("$ref")
        if wanted is not None:
            self._check({"$ref": wanted}, body, "resource", method["id"])
        elif body:
            raise invalid("this method takes no body")
        return Call(method["id"], {**path, **query}, body or {}, method["response"]["$ref"])

    def check(self, schema: str, value: Any, where: str) -> None:
        """Compare an answer with a schema. Raises RefusalError."""
        self._check({"$ref": schema}, value, where, None)

    def _check(self, rule: Any, value: Any, where: str, asks: str | None) -> None:
        """Compare what a method is asked with a schema, or an answer, where there is none."""
        if "$ref" in rule:
            rule = self._schemas[rule["$ref"]]
        kind = rule.get("type")
        if not isinstance(value, _TYPES.get(kind, object)):
            raise invalid(f"Invalid value at '{where}' (TYPE_{kind.upper()}), {value!r}")
        if isinstance(value, dict) and kind == "object":
            self._check_object(rule, value, where, asks)
        elif isinstance(value, list):
            for n, one in enumerate(value):
                self._check(rule["items"], one, f"{where}[{n}]", asks)
        elif isinstance(value, str):
            _check_text(where, rule, value)

    def _check_object(self, rule: Any, value: dict[str, Any], where: str, asks: str | None) -> None:
        known, others = rule.get("properties", {}), rule.get("additionalProperties")
        for name, one in value.items():
            field = known.get(name, others)
            if field is None:
                raise invalid(f"Unknown name \"{name}\" at '{where}': Cannot find field.")
            if field.get("readOnly") and asks:
                raise invalid(f"Invalid value for field '{where}.{name}': it is output only")
            self._check(field, one, f"{where}.{name}", asks)
        for name, field in known.items():
            if asks in field.get("annotations", {}).get("required", ()) and name not in value:
                raise required(f"{where}.{name}")


def _check_text(where: str, rule: Any, text: str) -> None:
    if "enum" in rule and text not in rule["enum"]:
        raise invalid(f"Invalid value at '{where}' (TYPE_ENUM), \"{text}\"")
    if rule.get("type") == "boolean" and text not in {"true", "false"}:
        raise invalid(f"Invalid value at '{where}' (TYPE_BOOL), \"{text}\"")
    numeric = rule.get("type") == "integer" or rule.get("format") in _INTEGERS
    if numeric and not re.fullmatch(r"-?\d+", text):
        raise invalid(f"Invalid value at '{where}' (TYPE_INT64), \"{text}\"")
    if "pattern" in rule and not re.fullmatch(rule["pattern"], text):
        message = f"Must be a match of regex '{rule['pattern']}'"
        raise invalid(f"Invalid value for field '{where}': '{text}'. {message}")
