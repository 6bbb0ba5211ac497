"""How SSH may get in: which host keys are accepted, and what a VM that does not boot tells."""

from __future__ import annotations

import time
from typing import Any

import pytest

from osmef.errors import BootError, PolicyError, ReachError
from osmef.providers.azure.provider import Vm
from osmef.providers.base import RunContext
from osmef.providers.cloud_init import MOST_CONSOLE
from osmef.remote.login import HostKeys
from osmef.scenario.clouds.azure import AzureSettings
from tests.azure.arm import Fault
from tests.providers.azure.conftest import Api, vm

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4eGpQ6b6b1s1Tm2wQ0mZB3s1iG9T3a0Hk8o8n2m3xY"
CONSOLE = f"""Linux booting
-----BEGIN SSH HOST KEY KEYS-----
{KEY} root@a
-----END SSH HOST KEY KEYS-----
a login:
"""


def keys_of(made: Vm, context: RunContext, within_s: float = 60.0) -> HostKeys:
    guest = made.guest(
        AzureSettings(
            region="r", default_flavor="f", user="debian", controller_cidr="198.51.100.7/32"
        )
    )
    return guest.accept_keys(context, time.monotonic() + within_s)


def console(api: Api, **keys: Any) -> tuple[Vm, RunContext]:
    context = api.context(vm("a"))
    (made,) = api.provider(host_keys="console", **keys).begin(context).create_all()
    return made, context


def test_a_key_that_was_given_is_the_only_one(api: Api) -> None:
    context = api.context(vm("a"))
    (made,) = api.provider().begin(context).create_all()
    assert made.spec.host_key is not None
    assert keys_of(made, context).accepted == (" ".join(made.spec.host_key.public.split()[:2]),)
    assert api.arm.count("retrieveBootDiagnosticsData") == 0


def test_keys_are_read_from_the_serial_log(api: Api) -> None:
    made, context = console(api)
    api.arm.console = lambda _key: CONSOLE
    assert keys_of(made, context).accepted == (KEY,)


def test_a_log_that_is_not_written_yet_is_waited_for(api: Api) -> None:
    made, context = console(api)
    texts = ["Linux booting\n", CONSOLE]
    api.arm.console = lambda _key: texts.pop(0)
    api.arm.faults.append(Fault("retrieveBootDiagnosticsData", 409, "BootDiagnosticsNotReady"))
    assert keys_of(made, context).accepted == (KEY,)
    assert texts == []


def test_missing_host_keys_in_the_console_are_a_boot_error(api: Api) -> None:
    made, context = console(api)
    api.arm.console = lambda _key: "Kernel panic"
    with pytest.raises(BootError, match="no SSH host keys") as caught:
        keys_of(made, context, within_s=0.0)
    assert "Kernel panic" in caught.value.message


def test_the_reason_why_a_log_is_unreadable_is_reported(api: Api) -> None:
    made, context = console(api)
    api.arm.faults.append(Fault("retrieveBootDiagnosticsData", 409, "NotHere", times=9))
    with pytest.raises(BootError, match=r"can't be read: .*NotHere"):
        keys_of(made, context, within_s=0.0)


def test_a_missing_permission_to_read_the_log_is_reported_at_once(api: Api) -> None:
    made, context = console(api)
    api.arm.role.remove("microsoft.compute/virtualmachines/retrievebootdiagnosticsdata/action")
    with pytest.raises(PolicyError) as caught:
        keys_of(made, context)
    assert "retrievebootdiagnosticsdata" in str(caught.value.cure)


def test_a_log_is_fetched_without_our_token(api: Api) -> None:
    made, _ = console(api)
    api.arm.console = lambda _key: "any text, {not: json}"
    assert made.console() == "any text, {not: json}"


def test_of_a_long_serial_log_the_end_is_kept(api: Api) -> None:
    made, _ = console(api)
    api.arm.console = lambda _key: "x" * 5_000_000 + "the end"
    read = made.console()
    assert len(read) == MOST_CONSOLE
    assert read.endswith("xthe end")


@pytest.mark.parametrize(("text", "kind"), [("Kernel panic", BootError), (CONSOLE, None)])
def test_a_booted_vm_is_distinguished_from_one_that_never_booted(
    api: Api, text: str, kind: type[BootError] | None
) -> None:
    made, context = console(api)
    api.arm.console = lambda _key: text
    error = ReachError("no route to host")
    shown = made.guest(api.settings()).explain(error, context)
    assert type(shown) is kind if kind else shown is error
