"""What Azure may answer while things are made: refusals, late failures, no room, no permission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    NotFoundError,
    PolicyError,
    ProviderError,
    QuotaError,
)
from osmef.providers.azure.access import ERRORS, Subscription, details_of, scope_of
from osmef.providers.azure.network import public_ip
from osmef.providers.azure.resource_types import TYPES, Maker
from osmef.providers.marks import Mark
from tests.azure.arm import OTHER, REGION, SUBSCRIPTION, Arm, Fault
from tests.providers.azure.conftest import Api, vm
from tests.providers.conftest import MemoryLedger

MARK = Mark("lab-1", 1_700_000_000, 4_000_000_000)
PUT_ADDRESS, GET_ADDRESS = "PUT .*publicIPAddresses/a$", "GET .*publicIPAddresses/a$"
Make = Callable[[], Any]


@pytest.fixture
def arm(api: Api) -> Arm:
    return api.arm


@pytest.fixture
def lab(arm: Arm) -> Subscription:
    return Subscription({"uri": arm.url})


@pytest.fixture
def make(lab: Subscription) -> Make:
    """Makes an address in a group that is there."""
    maker = Maker(MARK, MemoryLedger(), TYPES)
    maker.make(lab, "resource-group", MARK.name("1"), location=REGION)
    return lambda: maker.make(lab, "public-ip", f"{MARK.name('1')}/a", **public_ip(REGION))


@pytest.mark.parametrize(("status", "code"), [(429, "TooManyRequests"), (503, "ServerBusy")])
@pytest.mark.parametrize("request_", [PUT_ADDRESS, GET_ADDRESS, "GET .*/operations/"])
def test_throttling_is_waited_for(
    arm: Arm, make: Make, request_: str, status: int, code: str
) -> None:
    arm.faults.append(Fault(request_, status, code, times=2, after_s=0))
    assert make().properties.ip_address
    assert arm.faults[0].times == 0


def test_a_long_retry_after_is_not_waited_for(arm: Arm, make: Make) -> None:
    arm.faults.append(Fault(PUT_ADDRESS, 429, "TooManyRequests", times=9, after_s=3600))
    with pytest.raises(ApiError, match="3600 s") as caught:
        make()
    assert "too many requests" in str(caught.value.cure)
    assert arm.count(PUT_ADDRESS) == 1


def test_a_long_operation_is_looked_after_until_its_end(arm: Arm, make: Make) -> None:
    arm.looks = 6
    assert make().properties.ip_address
    assert arm.count("GET .*/operations/") == 6


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("QuotaExceeded", QuotaError),
        ("PublicIPCountLimitReached", QuotaError),
        ("OperationNotAllowed", QuotaError),  # with these words only
        ("SkuNotAvailable", CapacityError),
        ("ZonalAllocationFailed", CapacityError),
        ("OverconstrainedAllocationRequest", CapacityError),
        ("RequestDisallowedByPolicy", PolicyError),
        ("InternalExecutionError", ProviderError),
    ],
)
def test_an_azure_failure_is_translated_to_its_error_kind(
    arm: Arm, make: Make, code: str, kind: type[ProviderError], late: bool
) -> None:
    text = "exceeding approved standardDSv5Family Cores quota" if "Operation" in code else "no"
    arm.faults.append(Fault(PUT_ADDRESS, 409, code, text, late=late))
    with pytest.raises(ProviderError, match=code) as caught:
        make()
    assert type(caught.value) is kind
    assert caught.value.cure or kind is ProviderError


@pytest.mark.parametrize(
    ("code", "cure"),
    [("RequestDisallowedByPolicy", "exemption"), ("RequestDisallowedByAzure", "another region")],
)
def test_what_a_policy_of_azure_forbids_needs_no_role(
    arm: Arm, make: Make, code: str, cure: str
) -> None:
    arm.faults.append(Fault(PUT_ADDRESS, 403, code, "Resource 'a' was disallowed"))
    with pytest.raises(PolicyError, match="was disallowed") as caught:
        make()
    assert cure in str(caught.value.cure)
    assert "azure-role.json" not in str(caught.value.cure)


def test_a_resource_not_visible_at_once_is_polled_again(arm: Arm, make: Make) -> None:
    arm.faults.append(Fault(GET_ADDRESS, 404, "ResourceNotFound", times=2))
    made = make()
    assert made.id
    assert len([one for one in arm.things.values() if one["id"] == made.id]) == 1


def test_a_group_that_is_not_seen_at_once_is_waited_for(arm: Arm, make: Make) -> None:
    arm.faults.append(Fault(PUT_ADDRESS, 404, "ResourceGroupNotFound", times=2))
    assert make().id


def test_an_interface_that_is_reserved_for_a_while_is_waited_for(api: Api) -> None:
    fault = Fault("PUT .*virtualMachines/", 400, "NicReservedForAnotherVm", times=2)
    api.arm.faults.append(fault)
    _, made = api.make(vm("a"))
    assert made[0].id


@pytest.mark.parametrize(
    "action",
    [
        "Microsoft.Resources/subscriptions/resourceGroups/write",
        "Microsoft.Network/virtualNetworks/write",
        "Microsoft.Network/virtualNetworks/subnets/join/action",
        "Microsoft.Compute/virtualMachines/write",
        "Microsoft.Compute/disks/write",
        "Microsoft.DevTestLab/schedules/write",
    ],
)
def test_a_missing_permission_is_named(api: Api, action: str) -> None:
    api.arm.role.remove(action.lower())
    with pytest.raises(PolicyError) as caught:
        api.make(vm("a"))
    assert action.lower() in str(caught.value.cure).lower()
    assert "azure-role.json" in str(caught.value.cure)


def test_a_missing_permission_to_read_is_named_before_anything_is_made(api: Api) -> None:
    api.arm.role.remove("microsoft.compute/skus/read")
    with pytest.raises(PolicyError) as caught:
        api.provider().check([vm("a")])
    assert "compute/skus/read" in str(caught.value.cure)
    assert api.arm.count("PUT ") == 0


@pytest.mark.parametrize(
    "namespace", ["Microsoft.Compute", "Microsoft.Network", "Microsoft.DevTestLab"]
)
def test_an_unregistered_namespace_is_reported_before_anything_is_created(
    api: Api, namespace: str
) -> None:
    api.arm.unregistered[OTHER].add(namespace)
    provider = api.provider(tenants={"red": SUBSCRIPTION, "blue": OTHER})
    provider.check([vm("a")])
    with pytest.raises(ProviderError, match=f"not registered .* {namespace}") as caught:
        provider.check([vm("a"), vm("b", tenant="tenant-2")])
    cure = f"az provider register --namespace {namespace} --subscription {OTHER}"
    assert cure in str(caught.value.cure)
    assert api.arm.count("PUT ") == 0


def test_a_namespace_unregistered_meanwhile_is_reported_and_leaves_nothing(api: Api) -> None:
    text = "The subscription is not registered to use namespace 'Microsoft.DevTestLab'."
    api.arm.faults.append(Fault("PUT .*/schedules/", 409, "MissingSubscriptionRegistration", text))
    provider = api.provider()
    with pytest.raises(ProviderError) as caught:
        provider.create(api.context(vm("a")))
    assert caught.value.cure == "az provider register --namespace Microsoft.DevTestLab"
    provider.close()
    assert api.arm.things == {}


def test_a_region_without_schedules_is_reported_and_used(api: Api) -> None:
    fault = Fault("PUT .*/schedules/", 400, "LocationNotAvailableForResourceType")
    api.arm.faults.append(fault)
    provider, made = api.make(vm("a"))
    assert len(made) == 1
    assert any("no schedule in westeurope to end 1-a" in line for line in api.told)
    provider.close()
    assert api.arm.things == {}
    assert set(api.events("intend")) == set(api.events("destroyed"))


@pytest.mark.parametrize(
    ("address", "scope"),
    [
        ("https://management.azure.com", "https://management.azure.com/.default"),
        ("https://westeurope.management.azure.com", "https://management.azure.com/.default"),
        ("https://management.usgovcloudapi.net", "https://management.usgovcloudapi.net/.default"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/.default"),
        ("https://api.lab.example:8443", "https://api.lab.example:8443/.default"),
    ],
)
def test_a_token_for_a_regional_api_is_that_of_the_whole(address: str, scope: str) -> None:
    """A token for another name Azure does not give: that is no resource there (AADSTS500011)."""
    assert scope_of(address) == scope


def test_wrong_credentials_are_reported(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "another")
    with pytest.raises(CredentialsError, match="Invalid client secret") as caught:
        Subscription({"uri": api.arm.url})
    assert "az login" in str(caught.value.cure)
    assert api.arm.calls == []


def test_missing_credentials_are_reported(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_CLIENT_SECRET")
    with pytest.raises(CredentialsError, match="logging in: no credentials were found\n") as caught:
        Subscription({"uri": api.arm.url})
    assert "AZURE_CLIENT_SECRET" in str(caught.value.cure)


def test_of_the_chain_of_credentials_those_that_failed_are_reported() -> None:
    """Here is what the SDK writes of one that was refused among those that are not there."""
    said = ClientAuthenticationError(
        "DefaultAzureCredential failed to retrieve a token from the included credentials.\n"
        "Attempted credentials:\n"
        "\tEnvironmentCredential: EnvironmentCredential authentication unavailable. Environment"
        " variables are not fully configured.\nVisit https://aka.ms/x to troubleshoot.\n"
        "\tAzureCliCredential: Please run 'az login' to set up an account\n"
        "\tAzurePowerShellCredential: PowerShell is not installed\n"
        "To mitigate this issue, please refer to the troubleshooting guidelines here."
    )
    assert details_of(said) == "AzureCliCredential: Please run 'az login' to set up an account"


def test_credentials_whose_service_is_unavailable_are_not_called_absent() -> None:
    reported = "EnvironmentCredential: Authentication failed: AADSTS90033: service unavailable"
    said = ClientAuthenticationError(
        f"DefaultAzureCredential failed.\nAttempted credentials:\n\t{reported}\n"
        "\tManagedIdentityCredential: ManagedIdentityCredential authentication unavailable, no"
        " response from the IMDS endpoint."
    )
    assert details_of(said) == reported


def test_a_missing_subscription_is_reported(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_SUBSCRIPTION_ID")
    with pytest.raises(CredentialsError) as caught:
        api.provider().check([vm("a")])
    assert "AZURE_SUBSCRIPTION_ID" in str(caught.value.cure)


def test_an_unknown_subscription_is_reported(api: Api) -> None:
    with pytest.raises(NotFoundError, match="SubscriptionNotFound") as caught:
        Subscription({"uri": api.arm.url, "cloud": OTHER.replace("4", "5")})
    assert "az account list" in str(caught.value.cure)


@pytest.mark.parametrize("error", [ServiceRequestError("refused"), ServiceResponseError("cut")])
def test_an_unreachable_api_is_reported(error: Exception) -> None:
    shown = ERRORS.translate(error, "making it")
    assert type(shown) is ApiError
    assert "azure.status.microsoft" in str(shown.cure)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 429, 500])
def test_every_error_of_azure_has_a_cure(status: int) -> None:
    refused = HttpResponseError("no")
    refused.status_code = status
    assert ERRORS.translate(refused, "making it").cure


@pytest.mark.parametrize("full", ["", f"{REGION}-az3"])
def test_when_a_region_has_no_capacity_its_zones_are_tried(api: Api, full: str) -> None:
    api.arm.full = {"", full}
    _, made = api.make(vm("a"), vm("b"))
    zones = {one["zones"][0] for one in api.bodies("virtualMachines")}
    physical = {made[0].spec.net.offers.zones[zone] for zone in zones}
    assert physical == {f"{REGION}-az2" if full else f"{REGION}-az3"}  # its zones 2 and 1
    assert any("no capacity in westeurope" in line for line in api.told)
    assert len(api.bodies("virtualMachines")) == len(api.bodies("networkInterfaces")) == 2
    assert len(api.bodies("schedules")) == 2


def test_no_capacity_anywhere_is_reported_with_the_places_tried(api: Api) -> None:
    api.arm.full = {"", *(f"{REGION}-az{n}" for n in (1, 2, 3))}
    provider = api.provider()
    with pytest.raises(CapacityError, match=r"tried: westeurope, westeurope-az3, .*az1"):
        provider.create(api.context(vm("a"), vm("b")))
    provider.close()
    assert api.arm.things == {}


@pytest.mark.parametrize(
    ("requests", "keys"),
    [
        ([vm("a", zone="1")], {}),
        ([vm("a")], {"zone": f"{REGION}-az3"}),
        ([vm("a", host="host-1"), vm("b", host="host-2")], {}),
    ],
)
def test_vms_requested_together_are_not_placed_in_different_zones(
    api: Api, requests: list[Any], keys: dict[str, Any]
) -> None:
    api.arm.full = {"", f"{REGION}-az3"}
    with pytest.raises(CapacityError):
        api.make(*requests, **keys)
    zones = {tuple(one.get("zones", ())) for one in api.bodies("virtualMachines")}
    assert len(zones) == 1


def test_a_failure_in_the_middle_leaves_nothing(api: Api) -> None:
    api.arm.faults.append(Fault("PUT .*virtualMachines/2-b", 409, "QuotaExceeded", late=True))
    provider = api.provider(proximity=True)
    with pytest.raises(QuotaError):
        provider.create(api.context(vm("a"), vm("b"), vm("c", tenant="tenant-2")))
    assert len(api.bodies("virtualMachines")) >= 1
    provider.close()
    assert api.arm.things == {}
    assert api.owned() == []
    assert set(api.events("intend")) == set(api.events("destroyed"))
