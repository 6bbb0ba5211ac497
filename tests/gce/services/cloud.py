"""What the cloud of the tests does with a call that conforms: it keeps things, and lists them."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from tests.gce.services import contents
from tests.gce.services.contents import ROOT, ZONES
from tests.gce.services.description import Call, RefusalError, invalid, required
from tests.gce.services.faults import Faults
from tests.gce.services.machines import Machines

_PAGE = 2
"""Things on a page at most, so that all lists have several."""
_OPERATION_S = 0.2
_FIELDS = {
    "instances": "instance",
    "disks": "disk",
    "resourcePolicies": "resourcePolicy",
    "firewalls": "firewall",
    "subnetworks": "subnetwork",
    "networks": "network",
}
_USES = {
    "networks": ("subnetworks", "firewalls", "instances"),
    "subnetworks": ("instances",),
    "resourcePolicies": ("instances",),
}
"""What keeps a thing from being deleted, while it names it."""
Answer = dict[str, Any]


class Cloud:
    """All that is there. Safe to use from several threads."""

    def __init__(self, machines: Machines, faults: Faults) -> None:
        self.things: dict[str, dict[str, Any]] = {}
        """By the path after the API's root."""
        self.operations: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, dict[str, Any]] = {}
        """Operations by the id of the request."""
        self.machines = machines
        self.faults = faults
        self.lock = threading.RLock()

    def do(self, call: Call) -> Answer:
        """Carry a call out. Raises RefusalError."""
        collection, method = call.id.split(".")[1:]
        if call["project"] not in (*contents.PROJECTS, "debian-cloud"):
            message = f"The resource 'projects/{call['project']}' was not found"
            raise RefusalError(404, "notFound", message)
        with self.lock:
            return self._answer(collection, method, call)

    def _answer(self, collection: str, method: str, call: Call) -> Answer:
        special = getattr(self, f"_{collection}_{method}", None)
        if special is not None:
            found: Answer = special(call)
            return found
        if collection not in _FIELDS:
            raise RefusalError(501, "notImplemented", f"the lab has no {call.id}")
        usual: dict[str, Callable[[str, Call], Answer]] = {
            "insert": self._insert,
            "get": self._get,
            "list": self._list,
            "aggregatedList": self._aggregated,
            "delete": self._delete,
        }
        return usual[method](collection, call)

    def _scope(self, call: Call) -> str:
        for kind in ("zone", "region"):
            if kind in call.parameters:
                known = ZONES if kind == "zone" else ZONES.values()
                if call[kind] not in known:
                    raise RefusalError(
                        404, "notFound", f"The resource {kind} {call[kind]} was not found"
                    )
                return f"{kind}s/{call[kind]}"
        return "global"

    def _path(self, collection: str, call: Call, name: str) -> str:
        return f"projects/{call['project']}/{self._scope(call)}/{collection}/{name}"

    def _find(self, collection: str, call: Call) -> tuple[str, dict[str, Any]]:
        path = self._path(collection, call, call[_FIELDS[collection]])
        if path not in self.things:
            raise RefusalError(404, "notFound", f"The resource '{path}' was not found")
        return path, self.things[path]

    def _get(self, collection: str, call: Call) -> Answer:
        return self._find(collection, call)[1]

    def _insert(self, collection: str, call: Call) -> Answer:
        if call.parameters.get("requestId") in self.asked:
            return self.asked[call["requestId"]]
        if "name" not in call.body:
            raise required("resource.name")
        name = call.body["name"]
        path = self._path(collection, call, name)
        if path in self.things:
            raise RefusalError(409, "alreadyExists", f"The resource '{path}' already exists")
        thing = {
            **call.body,
            "kind": f"compute#{_FIELDS[collection]}",
            "id": str(uuid.uuid4().int >> 65),
            "selfLink": f"{ROOT}/{path}",
        }
        scope, _, where = self._scope(call).partition("/")
        if where:
            thing[scope.removesuffix("s")] = f"{ROOT}/projects/{call['project']}/{scope}/{where}"
        for field in ("network", "subnetwork"):
            if field in thing:
                thing[field] = self.known(thing[field])["selfLink"]
        wrong = self.faults.operation(f"insert {path}")
        if collection == "instances":
            thing = self.machines.prepare(self, call, thing)
        if wrong is None:
            self.things[path] = thing
        work = self._work_of(collection, path, thing) if wrong is None else _nothing
        return self._operate("insert", path, call, work, wrong)

    def _work_of(self, collection: str, path: str, thing: dict[str, Any]) -> Callable[[], None]:
        def work() -> None:
            if collection == "instances":
                self.machines.boot(self, path, thing)
            elif collection in {"networks", "subnetworks", "firewalls"}:
                self.machines.tell(self)

        return work

    def _delete(self, collection: str, call: Call) -> Answer:
        if call.parameters.get("requestId") in self.asked:
            return self.asked[call["requestId"]]
        path, thing = self._find(collection, call)
        if collection == "instances":
            thing["status"] = "STOPPING"
        else:
            for user in self._users(collection, path):
                message = f"The {_FIELDS[collection]} resource '{path}' is already being used by"
                reason = "resourceInUseByAnotherResource"
                raise RefusalError(400, reason, f"{message} '{user}'")

        def work() -> None:
            if collection == "instances":
                self.machines.end(thing)
            with self.lock:
                self.things.pop(path, None)
                self.machines.tell(self)

        return self._operate("delete", path, call, work, self.faults.operation(f"delete {path}"))

    def _users(self, collection: str, path: str) -> Iterator[str]:
        link = f"{ROOT}/{path}"
        for other, thing in self.things.items():
            if other.split("/")[-2] in _USES.get(collection, ()):
                nics = thing.get("networkInterfaces", [])
                named = [thing.get("network"), *(nic.get("network") for nic in nics)]
                named += [nic.get("subnetwork") for nic in nics]
                if link in named or path in thing.get("resourcePolicies", []):
                    yield other

    def _operate(
        self,
        what: str,
        path: str,
        call: Call,
        work: Callable[[], None],
        wrong: dict[str, Any] | None,
    ) -> Answer:
        name = f"operation-{uuid.uuid4()}"
        scope = self._scope(call)
        operation: dict[str, Any] = {
            "kind": "compute#operation",
            "id": str(uuid.uuid4().int >> 65),
            "name": name,
            "operationType": what,
            "targetLink": f"{ROOT}/{path}",
            "status": "PENDING",
            "progress": 0,
            "selfLink": f"{ROOT}/projects/{call['project']}/{scope}/operations/{name}",
        }
        kind, _, where = scope.partition("/")
        if where:
            operation[kind.removesuffix("s")] = f"{ROOT}/projects/{call['project']}/{scope}"
        self.operations[name] = operation
        if "requestId" in call.parameters:
            self.asked[call["requestId"]] = operation
        seconds = self.faults.seconds(f"{what} {path}", _OPERATION_S)
        arguments = (operation, work, wrong, seconds)
        threading.Thread(target=_run, args=arguments, daemon=True).start()
        return dict(operation)

    def _operation(self, call: Call) -> Answer:
        try:
            return dict(self.operations[call["operation"]])
        except KeyError:
            raise RefusalError(404, "notFound", "The operation was not found") from None

    _zoneOperations_get = _regionOperations_get = _globalOperations_get = _operation  # noqa: N815

    def _there(self, collection: str, call: Call) -> list[tuple[str, dict[str, Any]]]:
        start = f"projects/{call['project']}/"
        return [
            (path, thing)
            for path, thing in sorted(self.things.items())
            if path.startswith(start)
            and path.split("/")[-2] == collection
            and _fits(call, str(thing["name"]))
            and not self.faults.hidden(path)
        ]

    def _list(self, collection: str, call: Call) -> Answer:
        scope = f"/{self._scope(call)}/"
        return page(call, [one for path, one in self._there(collection, call) if scope in path])

    def _aggregated(self, collection: str, call: Call) -> Answer:
        there = [
            ("/".join(path.split("/")[2:4]), thing) for path, thing in self._there(collection, call)
        ]
        answer = page(call, there)
        items: dict[str, dict[str, Any]] = {}
        for scope, thing in answer["items"]:
            items.setdefault(scope, {collection: []})[collection].append(thing)
        answer["items"] = items
        return answer

    def known(self, link: str) -> dict[str, Any]:
        """Return the thing that a link names. Raises RefusalError."""
        path = link.removeprefix(f"{ROOT}/")
        if path not in self.things:
            raise RefusalError(404, "notFound", f"The resource '{path}' was not found")
        return self.things[path]

    def of(self, collection: str) -> list[dict[str, Any]]:
        """Return all things of a collection."""
        return [t for path, t in self.things.items() if path.split("/")[-2] == collection]

    def _zones_list(self, call: Call) -> Answer:
        return page(call, [contents.zone(call["project"], zone) for zone in ZONES])

    def _machineTypes_get(self, call: Call) -> Answer:  # noqa: N802
        self._scope(call)
        if not contents.has_type(call["zone"], call["machineType"]):
            raise RefusalError(
                404, "notFound", f"The resource '{call['machineType']}' was not found"
            )
        return contents.machine_type(call["project"], call["zone"], call["machineType"])

    def _machineTypes_list(self, call: Call) -> Answer:  # noqa: N802
        self._scope(call)
        zone, project = call["zone"], call["project"]
        names = [name for name in contents.TYPES if contents.has_type(zone, name)]
        return page(call, [contents.machine_type(project, zone, name) for name in names])

    def _images_getFromFamily(self, call: Call) -> Answer:  # noqa: N802
        name = contents.IMAGES.get(call["family"])
        if call["project"] != "debian-cloud" or name is None:
            raise RefusalError(
                404, "notFound", f"The resource family '{call['family']}' was not found"
            )
        return contents.image(call["project"], name)

    def _images_get(self, call: Call) -> Answer:
        if call["project"] != "debian-cloud" or call["image"] not in contents.IMAGES.values():
            raise RefusalError(404, "notFound", f"The resource '{call['image']}' was not found")
        return contents.image(call["project"], call["image"])

    def _regions_get(self, call: Call) -> Answer:
        self._scope(call)
        used = float(len(self.of("instances")))
        limits = self.faults.limits(contents.REGION_QUOTAS)
        quotas = contents.quotas(limits, {"INSTANCES": used, "IN_USE_ADDRESSES": used})
        return {"kind": "compute#region", "name": call["region"], "quotas": quotas}

    def _projects_get(self, call: Call) -> Answer:
        used = {"NETWORKS": float(len(self.of("networks")))}
        quotas = contents.quotas(self.faults.limits(contents.PROJECT_QUOTAS), used)
        return {"kind": "compute#project", "name": call["project"], "quotas": quotas}

    def _nodeGroups_listNodes(self, call: Call) -> Answer:  # noqa: N802
        zone, names = contents.NODES.get(call["nodeGroup"], ("", ()))
        if zone != call["zone"]:
            raise RefusalError(404, "notFound", f"The resource '{call['nodeGroup']}' was not found")
        vms = [vm for vm in self.of("instances") if vm["zone"].endswith(f"/{zone}")]
        nodes = [
            {
                "name": name,
                "status": "READY",
                "instances": [vm["selfLink"] for vm in vms if self.machines.node_of(vm) == name],
            }
            for name in names
        ]
        return page(call, nodes)

    def _instances_getGuestAttributes(self, call: Call) -> Answer:  # noqa: N802
        _, vm = self._find("instances", call)
        keys = self.machines.host_keys(vm)
        if not keys or call.parameters.get("queryPath") != "hostkeys/":
            raise RefusalError(404, "notFound", "The resource 'hostkeys/' of type was not found")
        items = [{"namespace": "hostkeys", "key": kind, "value": value} for kind, value in keys]
        return {"kind": "compute#guestAttributes", "queryValue": {"items": items}}

    def _instances_getSerialPortOutput(self, call: Call) -> Answer:  # noqa: N802
        _, vm = self._find("instances", call)
        text = self.machines.console(vm)
        return {"kind": "compute#serialPortOutput", "contents": text, "start": "0", "next": "0"}


def page(call: Call, things: list[Any]) -> Answer:
    """Return the page of a list that a call asks for."""
    start = int(call.parameters.get("pageToken", 0))
    size = min(int(call.parameters.get("maxResults", _PAGE)), _PAGE)
    more = {"nextPageToken": str(start + size)} if start + size < len(things) else {}
    return {"items": things[start : start + size], **more}


def _fits(call: Call, name: str) -> bool:
    wanted = call.parameters.get("filter")
    if wanted is None:
        return True
    found = re.fullmatch(r'name eq "(.*)"', wanted)
    if found is None:
        raise invalid(f"Invalid value for field 'filter': '{wanted}'")
    return re.fullmatch(found[1], name) is not None


def _nothing() -> None:
    pass


def _run(
    operation: dict[str, Any],
    work: Callable[[], None],
    wrong: dict[str, Any] | None,
    seconds: float,
) -> None:
    began = time.monotonic()
    operation["status"] = "RUNNING"
    try:
        if wrong is None:
            work()
    except OSError as error:
        wrong = {"code": "INTERNAL_ERROR", "message": str(error), "status": 500}
    time.sleep(max(0.0, seconds - (time.monotonic() - began)))
    if wrong is not None:
        first = {"code": wrong["code"], "message": wrong["message"]}
        operation["error"] = {"errors": [first]}
        operation["httpErrorStatusCode"] = wrong["status"]
        operation["httpErrorMessage"] = wrong["code"]
    operation["progress"] = 100
    operation["status"] = "DONE"
