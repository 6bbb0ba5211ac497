"""The way to VMs that run: their host keys, and SSH."""

from __future__ import annotations

import time
from collections.abc import Sequence

from google.cloud import compute_v1

from osmef.errors import BootError, NotFoundError, ProviderError, ReachError
from osmef.providers.base import Order
from osmef.providers.cloud_init import host_keys, keys_in
from osmef.providers.gce.access import Again
from osmef.providers.gce.failures import is_late, is_passing
from osmef.providers.gce.instances import USER, Vm
from osmef.providers.parallel import side_by_side
from osmef.remote.login import HostKeys, Login
from osmef.remote.waiting import wait_for_ssh
from osmef.scenario.clouds.gce import GceSettings

_POLL_S = 1.0
_TAIL_LINES = 15
_MOST_WAITS = 64
_HOST_KEYS = "hostkeys/"
"""The namespace of guest attributes that the guest agent writes at a VM's first boot."""


def reach_all(settings: GceSettings, vms: Sequence[Vm], order: Order) -> list[Login]:
    """Wait until SSH gets into all VMs, and return how. Raises BootError, ReachError."""
    deadline = time.monotonic() + settings.boot_timeout

    def reach(vm: Vm) -> Login:
        login = Login(
            name=vm.order.request.name,
            user=settings.user or USER,
            address=vm.public,
            host_keys=_host_keys(vm, order, deadline),
            key=order.key,
        )
        try:
            wait_for_ssh(login, deadline=deadline, check=order.check).close()
        except ReachError as error:
            raise _explained(vm, error, order) from error
        return login

    return side_by_side(reach, vms, at_once=_MOST_WAITS)


def _host_keys(vm: Vm, order: Order, deadline: float) -> HostKeys:
    given = vm.order.host_key
    if given is not None:
        return HostKeys(
            accepted=(" ".join(given.public.split()[:2]),),
            source="the VM's first data",
            cure="does the image have cloud-init? else provider.host_keys: console",
        )
    while not (found := _told_keys(vm)):
        if time.monotonic() > deadline:
            raise _unbooted(vm, "neither guest attributes nor serial port tell its keys", order)
        vm.project.wait(_POLL_S)
    return HostKeys(accepted=tuple(found), source="the VM's guest attributes or serial port")


def _told_keys(vm: Vm) -> list[str]:
    """Return the host keys that the VM told the cloud, by guest attributes or its serial port."""
    try:
        told = vm.project.ask(
            "reading guest attributes",
            compute_v1.InstancesClient,
            "get_guest_attributes",
            instance=vm.order.name,
            zone=vm.order.zone,
            query_path=_HOST_KEYS,
        )
    except NotFoundError:  # until the guest agent has written some
        return host_keys(_serial_port(vm, is_late))
    return keys_in("\n".join(f"{one.key} {one.value}" for one in told.query_value.items))


def _serial_port(vm: Vm, again: Again) -> str:
    """Return what a VM wrote on its first serial port, as far as the cloud keeps it."""
    answer = vm.project.ask(
        "reading a serial port",
        compute_v1.InstancesClient,
        "get_serial_port_output",
        again,
        instance=vm.order.name,
        zone=vm.order.zone,
    )
    return str(answer.contents)


def _console_of(vm: Vm) -> str:
    try:
        return _serial_port(vm, is_passing)
    except ProviderError:  # it only explains another error
        return ""


def _explained(vm: Vm, error: ReachError, order: Order) -> ProviderError | ReachError:
    """Tell a guest that never came up from one that is up and can't be reached."""
    console = _console_of(vm)
    if not console or host_keys(console) or "login:" in console:
        return error
    return _unbooted(vm, error.message, order)


def _unbooted(vm: Vm, message: str, order: Order) -> BootError:
    name = vm.order.request.name
    console = _console_of(vm)
    if not console.strip():
        return BootError(
            f"{message}, and its serial port is silent",
            where=name,
            cure="is it an image with sshd and Google's guest agent?",
        )
    path = order.keep(f"console-{name}.txt", console)
    tail = "\n".join(f"    {line}" for line in console.splitlines()[-_TAIL_LINES:])
    return BootError(
        f"{message}; the end of its serial port (all of it: {path}):\n{tail}",
        where=name,
        cure="does the image boot by hand? provider.boot_timeout is how long it may take",
    )
