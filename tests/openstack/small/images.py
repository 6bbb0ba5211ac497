"""Glance: the image that servers boot from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from tests.openstack.small.calls import (
    Call,
    RefusalError,
    Reply,
    Routes,
    UnknownError,
    new_id,
    now,
    page,
)

_VERSIONS = (15, 13, 12, 11, 10, 9, 8, 17, 7, 6, 5, 4, 3, 2, 1, 0)
_TITLES = {401: "Unauthorized", 404: "Not Found", 400: "Bad Request"}
_STRANGER = (
    "This server could not verify that you are authorized to access the document you requested."
    " Either you supplied the wrong credentials (e.g., bad password), or your browser does not"
    " understand how to supply the credentials required."
)


@dataclass
class Images:
    """The images; ``owner`` is the project of all of them."""

    owner: str
    there: dict[str, dict[str, Any]] = field(default_factory=dict)
    _routes: Routes = field(default_factory=Routes)

    def __post_init__(self) -> None:
        self._add("guest")
        self._routes.add(
            {
                "GET ": self._versions,
                "GET /v2/images": self._list,
                "GET /v2/images/{image}": self._get,
            }
        )

    def _add(self, name: str) -> None:
        key, size = new_id(), 1 << 20
        digest = hashlib.sha512(key.encode()).hexdigest()
        self.there[key] = {
            "owner_specified.openstack.md5": "",
            "owner_specified.openstack.sha256": "",
            "owner_specified.openstack.object": f"images/{name}",
            "name": name,
            "disk_format": "raw",
            "container_format": "bare",
            "visibility": "public",
            "size": size,
            "virtual_size": size,
            "status": "active",
            "checksum": digest[:32],
            "protected": False,
            "min_ram": 0,
            "min_disk": 0,
            "owner": self.owner,
            "os_hidden": False,
            "os_hash_algo": "sha512",
            "os_hash_value": digest,
            "id": key,
            "created_at": now(),
            "updated_at": now(),
            "tags": [],
            "self": f"/v2/images/{key}",
            "file": f"/v2/images/{key}/file",
            "schema": "/v2/schemas/image",
            "stores": "file",
        }

    def do(self, call: Call) -> Reply:
        """Answer a call. Raises RefusalError."""
        if call.who is None and call.path:
            raise RefusalError(401, _STRANGER)
        return self._routes.do(call)

    def refusal(self, error: RefusalError) -> dict[str, Any]:
        """Return what glance says when it refuses."""
        title = _TITLES.get(error.status, "Not Implemented")
        message = f"{error.message}<br /><br />\n\n\n"
        return {"message": message, "code": f"{error.status} {title}", "title": title}

    def _versions(self, call: Call) -> Reply:
        links = [{"rel": "self", "href": f"{call.here}/v2/"}]
        newest = max(_VERSIONS)
        there = [
            {
                "id": f"v2.{number}",
                "status": "CURRENT" if number == newest else "SUPPORTED",
                "links": links,
            }
            for number in _VERSIONS
        ]
        return Reply({"versions": there}, 300)

    def _list(self, call: Call) -> Reply:
        if call.query.keys() - {"name", "limit", "marker"}:
            raise UnknownError(f"filter of {sorted(call.query)}")
        there = [
            one for one in self.there.values() if call.first("name", one["name"]) == one["name"]
        ]
        found, marker = page(call, there, lambda _: UnknownError("such marker of images"))
        query = "&".join(f"{key}={call.first(key)}" for key in call.query)
        answer = {"images": found, "first": f"/v2/images?{query}".rstrip("?")}
        if marker:
            answer["next"] = f"/v2/images?limit={call.first('limit')}&marker={marker}"
        return Reply({**answer, "schema": "/v2/schemas/images"})

    def _get(self, _call: Call, image: str) -> Reply:
        if image not in self.there:
            raise RefusalError(404, f"No image found with ID {image}")
        return Reply(self.there[image])
