"""The way to VMs that run: their host keys, and SSH."""

from __future__ import annotations

import time
from collections.abc import Sequence

from osmef.errors import BootError, CredentialsError, PolicyError, ProviderError, ReachError
from osmef.providers.azure.vms import Vm
from osmef.providers.base import Order
from osmef.providers.cloud_init import host_keys
from osmef.providers.parallel import side_by_side
from osmef.remote.login import HostKeys, Login
from osmef.remote.waiting import wait_for_ssh
from osmef.scenario.clouds.azure import AzureSettings

_POLL_S = 2.0
_TAIL_LINES = 15
_MOST_WAITS = 64


def reach_all(settings: AzureSettings, vms: Sequence[Vm], order: Order) -> list[Login]:
    """Wait until SSH gets into all VMs, and return how. Raises BootError, ReachError."""
    deadline = time.monotonic() + settings.boot_timeout

    def reach(vm: Vm) -> Login:
        login = Login(
            name=vm.order.request.name,
            user=settings.user,
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
            source="the VM's custom data",
            cure="does the image have cloud-init? else provider.host_keys: console",
        )
    while True:
        why = "its serial log shows no SSH host keys"
        try:
            found = host_keys(console_of(vm))
        except (CredentialsError, PolicyError):
            raise
        except ProviderError as error:  # as long as nothing is written
            found, why = [], f"its serial log can't be read: {error.message}"
        if found:
            return HostKeys(accepted=tuple(found), source="the VM's serial log")
        if time.monotonic() > deadline:
            raise _unbooted(vm, why, order)
        vm.order.site.subscription.wait(_POLL_S)


def console_of(vm: Vm) -> str:
    """Return what a VM wrote on its serial port, as far as boot diagnostics keep it.

    Raises ProviderError, also as long as it wrote nothing.
    """
    subscription, (group, name) = vm.order.site.subscription, vm.order.path.split("/")
    machines = subscription.compute.virtual_machines
    told = subscription.do(
        "reading boot diagnostics", lambda: machines.retrieve_boot_diagnostics_data(group, name)
    )
    link = told.serial_console_log_blob_uri
    return subscription.fetch(str(link)) if link else ""


def _console_if_any(vm: Vm) -> str:
    """Return the same to explain another error, which is not to be hidden by one of this."""
    try:
        return console_of(vm)
    except ProviderError:
        return ""


def _explained(vm: Vm, error: ReachError, order: Order) -> ProviderError | ReachError:
    """Tell a guest that never came up from one that is up and can't be reached."""
    console = _console_if_any(vm)
    if not console or host_keys(console) or "login:" in console:
        return error
    return _unbooted(vm, error.message, order)


def _unbooted(vm: Vm, message: str, order: Order) -> BootError:
    name = vm.order.request.name
    console = _console_if_any(vm)
    if not console.strip():
        return BootError(
            f"{message}, and its serial log is empty",
            where=name,
            cure="is it an image with sshd and cloud-init?",
        )
    path = order.keep(f"console-{name}.txt", console)
    tail = "\n".join(f"    {line}" for line in console.splitlines()[-_TAIL_LINES:])
    return BootError(
        f"{message}; the end of its serial log (all of it: {path}):\n{tail}",
        where=name,
        cure="does the image boot by hand? provider.boot_timeout is how long it may take",
    )
