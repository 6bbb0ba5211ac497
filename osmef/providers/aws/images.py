"""Images: by id, by family, by a parameter that names the newest, or by owner and pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from osmef.errors import NotFoundError, ProviderError
from osmef.providers.aws.access import Account
from osmef.scenario.clouds.aws import AwsSettings

DEFAULT = "debian-12"
_KEY = "provider.image"
_DEBIAN, _CANONICAL = "136693071363", "099720109477"
# By CPU architecture as EC2 names it. Names are anybody's to give: the owner makes them safe.
_FAMILIES = {
    "debian-12": (_DEBIAN, {"x86_64": "debian-12-amd64-*", "arm64": "debian-12-arm64-*"}),
    "debian-13": (_DEBIAN, {"x86_64": "debian-13-amd64-*", "arm64": "debian-13-arm64-*"}),
    "ubuntu-22.04": (
        _CANONICAL,
        {
            "x86_64": "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-*",
            "arm64": "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-arm64-server-*",
        },
    ),
    "ubuntu-24.04": (
        _CANONICAL,
        {
            "x86_64": "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*",
            "arm64": "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-*",
        },
    ),
    "amazon-linux-2023": (
        "amazon",
        {"x86_64": "al2023-ami-2023.*-x86_64", "arm64": "al2023-ami-2023.*-arm64"},
    ),
}
_USERS = {"debian-": "admin", "ubuntu": "ubuntu", "al20": "ec2-user", "amzn": "ec2-user"}
_OWNED = re.compile(r"(?P<owner>self|amazon|aws-marketplace|\d{12})/(?P<pattern>.+)")


@dataclass(frozen=True)
class Image:
    """An image: its id, the device of its root disk, and the account that SSH logs into.

    ``ena`` tells whether it has a driver for enhanced networking, ``disk_gib`` its smallest disk.
    """

    id: str
    name: str
    root: str
    user: str
    ena: bool
    disk_gib: int


def find_image(account: Account, settings: AwsSettings, architecture: str) -> Image:
    """Look up the image of the settings for a CPU architecture. Raises NotFoundError."""
    wanted = settings.image or DEFAULT
    facts = _facts(account, wanted, architecture)
    name = str(facts.get("Name", ""))
    if facts["Architecture"] != architecture:
        raise NotFoundError(
            f"the image {wanted} is for {facts['Architecture']}, and the instance type is not",
            where=_KEY,
            cure=f"use an image for {architecture}, or another instance type",
        )
    sizes = [disk["Ebs"].get("VolumeSize", 0) for disk in _disks(facts)]
    return Image(
        id=str(facts["ImageId"]),
        name=name,
        root=str(facts.get("RootDeviceName") or "/dev/xvda"),
        user=settings.user or _user(wanted, name),
        ena=bool(facts.get("EnaSupport")),
        disk_gib=max(sizes, default=0),
    )


def _disks(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [disk for disk in facts.get("BlockDeviceMappings", ()) if "Ebs" in disk]


def _user(wanted: str, name: str) -> str:
    for text in (wanted, name.rpartition("/")[2]):
        for start, user in _USERS.items():
            if text.startswith(start):
                return user
    raise ProviderError(
        f"nobody knows which account the image {wanted} lets in",
        where="provider.user",
        cure="write provider.user",
    )


def _facts(account: Account, wanted: str, architecture: str) -> Mapping[str, Any]:
    if wanted.startswith("ami-"):
        return _by_id(account, wanted)
    if wanted.startswith("/"):
        return _by_id(account, _parameter(account, wanted))
    if wanted in _FAMILIES:
        owner, patterns = _FAMILIES[wanted]
        return _newest(account, wanted, owner, patterns[architecture], architecture)
    owned = _OWNED.fullmatch(wanted)
    if owned is None:
        known = ", ".join(_FAMILIES)
        raise NotFoundError(
            f"there is no family of images {wanted!r}",
            where=_KEY,
            cure=f"use one of {known}, ami-ID, /PATH of an SSM parameter, or OWNER/NAME-*",
        )
    return _newest(account, wanted, owned["owner"], owned["pattern"], architecture)


def _by_id(account: Account, image: str) -> Mapping[str, Any]:
    found = account.read(
        "describe_images",
        f"looking for the image {image}",
        Filters=[{"Name": "image-id", "Values": [image]}],
    )["Images"]
    if not found:
        raise NotFoundError(
            f"the account sees no image {image} in {account.region}",
            where=_KEY,
            cure="ids of images differ between regions: is it one of this region?",
        )
    return dict(found[0])


def _parameter(account: Account, path: str) -> str:
    try:
        answer = account.read(
            "get_parameter", f"reading the parameter {path}", service="ssm", Name=path
        )
    except NotFoundError as error:
        cure = "does it exist in this region?"
        raise NotFoundError(f"there is no parameter {path}", where=_KEY, cure=cure) from error
    return str(answer["Parameter"]["Value"])


def _newest(
    account: Account, wanted: str, owner: str, pattern: str, architecture: str
) -> Mapping[str, Any]:
    found = account.read(
        "describe_images",
        f"looking for the image {wanted}",
        Owners=[owner],
        Filters=[
            {"Name": "name", "Values": [pattern]},
            {"Name": "architecture", "Values": [architecture]},
            {"Name": "state", "Values": ["available"]},
        ],
    )["Images"]
    if not found:
        raise NotFoundError(
            f"{owner} has no image {pattern} for {architecture} in {account.region}",
            where=_KEY,
            cure="write another family, or ami-ID",
        )
    return dict(max(found, key=lambda image: str(image["CreationDate"])))
