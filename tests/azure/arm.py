"""An Azure of the tests: what its requests do, who may make them, and what goes wrong.

Bodies are checked against the vendor's models, references against what stands here, permissions
against the role of the manual. Where a data plane is given, a virtual network is a network with a
router there, a public address one that the router translates, and a VM a guest.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.azure.catalog import FAR, OTHER, REGION, SUBSCRIPTION
from tests.azure.description import Operation, RefusedError, operation
from tests.azure.kinds import GROUPS, TYPES, Answer, Body, Fault, Type
from tests.azure.permissions import action_of, granted, linked_actions
from tests.azure.store import Store, group_of

__all__ = ["FAR", "OTHER", "REGION", "SUBSCRIPTION", "Answer", "Arm", "Fault"]

_OPERATION = re.compile(r"/(operations|operationresults)/(?P<key>\w+)$")
_SOON = {"x-ms-retry-after-ms": "20"}
_CLIENT = "The client 'osmef' with object id 'osmef'"


@dataclass
class Running:
    """A long operation: how many looks until it is done, and how it fails."""

    looks: int
    failure: RefusedError | None


class Arm(Store):
    """All of it. Safe to use from several threads."""

    def __init__(self, tell: Callable[[Body], None] = lambda _request: None) -> None:
        super().__init__(tell)
        self.faults: list[Fault] = []
        self.calls: list[str] = []
        self.used: set[str] = set()
        """Actions of the calls so far, in lower case."""
        self.role = granted()
        self.looks = 2
        """How often one has to look until a long operation is done."""
        self.operations: dict[str, Running] = {}
        self.console: Callable[[str], str] = lambda _key: ""
        self.lock = threading.RLock()
        self.routes = self._routes()

    def _routes(self) -> list[tuple[Operation, Callable[..., Answer]]]:
        found: list[tuple[Operation, Callable[..., Answer]]] = []
        for kind in TYPES:
            acts = {"create_or_update": self._put, "get": self.get, "delete": self._delete}
            for name, act in acts.items():
                one = operation(kind.package, f"{kind.operations}_{name}")
                found.append((one, lambda found, body, kind=kind, act=act: act(kind, found, body)))
        others: dict[tuple[str, str], Callable[..., Answer]] = {
            **self.lists,
            ("compute", "virtual_machines_retrieve_boot_diagnostics_data"): self._diagnostics,
            ("resources", "resource_groups_list"): self._groups,
            ("resources", "resources_list_by_resource_group"): self._list,
        }
        return found + [(operation(*name), act) for name, act in others.items()]

    def handle(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        """Answer a request, by path without query."""
        request = f"{method} {path}"
        with self.lock:
            self.calls.append(request)
            fault = self._fault(request)
            try:
                if fault is not None and not (fault.late or fault.lost):
                    raise _refusal(fault)
                answer = self._dispatch(method, path, query, body, fault)
                if fault is not None and fault.lost:
                    raise _refusal(fault)
            except RefusedError as error:
                told = {"error": {"code": error.code, "message": error.message}}
                answer = Answer(error.status, told)
            if fault is not None:
                fault.then()
                if fault.after_s is not None:
                    answer.headers["Retry-After"] = str(fault.after_s)
            return answer

    def evict(self, vm: str) -> None:
        """Take a spot VM away, as Azure does when it needs the room."""
        with self.lock:
            self._drop(vm.lower())
            self.plug()

    def count(self, request: str) -> int:
        """Tell how often a request that looks like this was made."""
        return sum(bool(re.search(request, call, re.IGNORECASE)) for call in self.calls)

    def _dispatch(
        self, method: str, path: str, query: dict[str, str], body: Any, fault: Fault | None
    ) -> Answer:
        self._authorize(method, path, body)
        running = _OPERATION.search(path)
        if running is not None:
            return self._poll(running["key"], path)
        for one, act in self.routes:
            found = one.path.fullmatch(path)
            if found is None or one.method != method:
                continue
            if query.get("api-version") != one.version:
                told = f"not {query.get('api-version')}, but {one.version}"
                raise RefusedError(400, "InvalidApiVersionParameter", told)
            if found["subscriptionId"] not in self.zones:
                told = f"The subscription '{found['subscriptionId']}' could not be found."
                raise RefusedError(404, "SubscriptionNotFound", told)
            named = {"path": path, "query": query, "fault": fault, "of": one, **found.groupdict()}
            return act(named, body)
        raise RefusedError(404, "InvalidResourceType", f"nothing answers {method} {path}")

    def _authorize(self, method: str, path: str, body: Any) -> None:
        own, linked = action_of(method, path), linked_actions(path, body)
        self.used |= {own, *linked}
        if own not in self.role:
            message = f"{_CLIENT} does not have authorization to perform action '{own}'"
            raise RefusedError(403, "AuthorizationFailed", f"{message} over scope '{path}'.")
        for action in sorted(linked - self.role):
            message = (
                f"{_CLIENT} has permission to perform action '{own}' on scope '{path}'; however, it"
                f" does not have permission to perform action(s) '{action}' on the linked scope(s)."
            )
            raise RefusedError(403, "LinkedAuthorizationFailed", message)

    def _fault(self, request: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and re.search(fault.request, request, re.IGNORECASE):
                fault.times -= 1
                return fault
        return None

    def _begin(self, kind: Type, found: Body, answer: Answer, failure: str | None = None) -> Answer:
        """Begin a long operation, which one has to look after."""
        key, fault = uuid4().hex, found["fault"]
        error = RefusedError(409, failure, f"{failure}: no room") if failure else None
        if fault is not None and fault.late:
            error = _refusal(fault)
        self.operations[key] = Running(self.looks, error)
        start = f"{self.url}/subscriptions/{found['subscriptionId']}"
        version = f"api-version={found['query']['api-version']}"
        if kind is GROUPS:
            answer.headers["Location"] = f"{start}/operationresults/{key}?{version}"
        else:
            provider = kind.type.split("/")[0]
            where = f"{start}/providers/{provider}/locations/{REGION}/operations/{key}?{version}"
            answer.headers["Azure-AsyncOperation"] = where
        answer.headers |= _SOON
        return answer

    def _poll(self, key: str, path: str) -> Answer:
        """Tell of a long operation, in the body or for groups by the status."""
        running, by_status = self.operations[key], "/operationresults/" in path
        running.looks -= 1
        if running.looks > 0:
            again = dict(_SOON)
            if by_status:
                return Answer(202, None, again | {"Location": f"{self.url}{path}?api-version=any"})
            return Answer(200, {"status": "InProgress"}, again)
        if running.failure is None:
            return Answer(200, None if by_status else {"status": "Succeeded"})
        if by_status:
            raise running.failure
        told = {"code": running.failure.code, "message": running.failure.message}
        return Answer(200, {"status": "Failed", "error": told})

    def _put(self, kind: Type, found: Body, body: Any) -> Answer:
        made, new, failure = self.put(kind, found, body)
        answer = Answer(201 if new and 201 in found["of"].statuses else 200, made)
        if kind is GROUPS or not kind.long:
            return answer
        return self._begin(kind, found, answer, failure)

    def _delete(self, kind: Type, found: Body, body: Any) -> Answer:
        fault = found["fault"]
        if fault is None or not fault.late:
            self.delete(kind, found, body)
        else:
            self.must(found["path"])
        accepted = Answer(202 if 202 in found["of"].statuses else 200)
        return self._begin(kind, found, accepted) if kind.long else accepted

    def _diagnostics(self, found: Body, _body: Any) -> Answer:
        vm = self.must(found["path"].rpartition("/")[0])
        link = f"{self.url}/console/{self.inner(vm)['key']}?sig=x"
        return Answer(200, {"serialConsoleLogBlobUri": link})

    def _groups(self, found: Body, _body: Any) -> Answer:
        start = f"/subscriptions/{found['subscriptionId']}/"
        groups = [
            one
            for key, one in self.things.items()
            if one["type"] == GROUPS.type and key.startswith(start)
        ]
        return self.paged(found, groups) if groups else Answer(200, {"value": []})

    def _list(self, found: Body, _body: Any) -> Answer:
        group = group_of(found["path"].lower())
        self.must(group, "ResourceGroupNotFound")
        inside = [
            thing
            for key, thing in self.things.items()
            if key.startswith(f"{group}/providers/") and "/securityrules/" not in key
        ]
        # A list leaves out what the caller may not read.
        self.used |= {f"{thing['type']}/read".lower() for thing in inside}
        shown = [
            {name: thing.get(name) for name in ("id", "name", "type", "tags", "location")}
            for thing in inside
            if f"{thing['type']}/read".lower() in self.role
        ]
        return self.paged(found, shown) if shown else Answer(200, {"value": []})


def _refusal(fault: Fault) -> RefusedError:
    return RefusedError(fault.status, fault.code, fault.message)
