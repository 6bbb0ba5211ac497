"""Errors of EC2, by its own codes, and what the user is told."""

from __future__ import annotations

import pytest
from botocore import exceptions as sdk
from botocore.exceptions import ClientError

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    NotFoundError,
    PolicyError,
    ProviderError,
    QuotaError,
)
from osmef.providers.aws.access import ERRORS, Account


def error(
    code: str, status: int = 400, message: str = "it says why", wait: str = ""
) -> ClientError:
    """Return an error as the SDK raises it."""
    return ClientError(
        {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "HTTPHeaders": {"retry-after": wait} if wait else {},
            },
        },
        "RunInstances",
    )


def shown_of(raised: Exception) -> ProviderError:
    """Return the error as an account shows it; nobody needs to log in for that."""
    account = Account.__new__(Account)
    account.name = "aws"
    return account.shown(raised, "making it")


KINDS = [
    (error("ExpiredToken", 403), CredentialsError),
    (error("AuthFailure", 401), CredentialsError),
    (error("OptInRequired", 403), CredentialsError),
    (sdk.NoCredentialsError(), CredentialsError),
    (sdk.ProfileNotFound(profile="red"), CredentialsError),
    (sdk.RefreshWithMFAUnsupportedError(), CredentialsError),
    (sdk.UnauthorizedSSOTokenError(), CredentialsError),
    (getattr(sdk, "LoginRefreshRequired", sdk.UnauthorizedSSOTokenError)(), CredentialsError),
    (error("UnauthorizedOperation", 403), PolicyError),
    (error("AccessDeniedException"), PolicyError),
    (error("VcpuLimitExceeded"), QuotaError),
    (error("VpcLimitExceeded"), QuotaError),
    (error("InstanceLimitExceeded"), QuotaError),
    (error("MaxSpotInstanceCountExceeded"), QuotaError),
    (error("HostLimitExceeded"), QuotaError),
    (error("InsufficientInstanceCapacity", 500), CapacityError),
    (error("InsufficientHostCapacity", 500), CapacityError),
    (error("Unsupported"), CapacityError),
    (error("SpotMaxPriceTooLow"), CapacityError),
    (error("RequestLimitExceeded", 503), ApiError),
    (error("InternalError", 500), ApiError),
    (error("Unavailable", 503), ApiError),
    (sdk.EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), ApiError),
    (error("InvalidAMIID.NotFound"), NotFoundError),
    (error("InvalidPlacementGroup.Unknown"), NotFoundError),
    (error("InvalidParameterValue"), ProviderError),
]


@pytest.mark.parametrize(("raised", "kind"), KINDS, ids=lambda value: str(value)[:60])
def test_an_error_is_of_the_kind_that_it_means(raised: Exception, kind: type) -> None:
    shown = ERRORS.translate(raised, "making the instance one", "aws red")
    assert type(shown) is kind
    assert shown.message.startswith("making the instance one: ")
    assert shown.cure


@pytest.mark.parametrize(
    ("code", "message", "action"),
    [
        (
            "UnauthorizedOperation",
            "User: arn:aws:iam::1:user/me is not authorized to perform: ec2:CreateTags on it",
            "ec2:CreateTags",
        ),
        (
            "UnauthorizedOperation",
            "You are not authorized to perform this operation.",
            "ec2:RunInstances",
        ),
        (
            "AccessDeniedException",
            "User: arn:aws:iam::1:user/me is not authorized to perform: ssm:GetParameter on it",
            "ssm:GetParameter",
        ),
    ],
)
def test_a_missing_permission_is_named(code: str, message: str, action: str) -> None:
    shown = shown_of(error(code, 403, message))
    assert f"the policy does not allow {action}:" in shown.message
    assert "docs/policies/aws.json" in str(shown)


@pytest.mark.parametrize(
    ("by", "whose"),
    [
        ("with an explicit deny in a service control policy", "the organization"),
        ("because no permissions boundary allows the action", "the permissions boundary"),
    ],
)
def test_a_denial_by_another_policy_is_not_blamed_on_the_users_one(by: str, whose: str) -> None:
    who = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Measuring_0123456789abcdef/me@x.de"
    what = "ec2:RunInstances on resource: arn:aws:ec2:ap-southeast-2:123456789012:instance/*"
    text = "You are not authorized to perform this operation. User:"
    text = f"{text} {who} is not authorized to perform: {what} {by}."
    shown = shown_of(error("UnauthorizedOperation", 403, f"{text} Encoded authorization failure"))
    assert type(shown) is PolicyError
    assert by in shown.message
    assert whose in str(shown.cure)


def test_a_region_that_is_not_enabled_is_named_as_a_cause() -> None:
    """There STS and EC2 know no account's credentials."""
    text = "The security token included in the request is invalid."
    shown = shown_of(error("InvalidClientTokenId", 403, text))
    assert "--region" in str(shown.cure)
    assert "not enabled" in str(shown.cure)


def test_encoded_authorization_messages_of_ec2_are_omitted() -> None:
    text = "You are not authorized. Encoded authorization failure message: iV7x0pQ"
    shown = shown_of(error("UnauthorizedOperation", 403, text))
    assert "iV7x0pQ" not in str(shown)


def test_transient_errors_are_distinguished_from_permanent_ones() -> None:
    assert ERRORS.is_transient(error("RequestLimitExceeded", 503))
    assert ERRORS.is_transient(error("ThrottlingException"))
    assert ERRORS.is_transient(error("InternalError", 500))
    assert not ERRORS.is_transient(error("InsufficientInstanceCapacity", 500))
    assert not ERRORS.is_transient(error("UnauthorizedOperation", 403))
    assert ERRORS.is_not_yet(error("InvalidVpcID.NotFound"))
    assert ERRORS.is_in_use(error("DependencyViolation"))
    assert not ERRORS.is_in_use(error("UnauthorizedOperation", 403))


@pytest.mark.parametrize(
    ("said", "pause_s"), [("7", 7.0), ("", 0.0), ("Wed, 21 Oct 2026", 0.0), ("²", 0.0), ("٣", 0.0)]
)
def test_ec2_may_ask_for_a_pause(said: str, pause_s: float) -> None:
    assert ERRORS.pause_of(error("RequestLimitExceeded", 503, wait=said)) == pause_s


@pytest.mark.parametrize(
    ("region", "cure"),
    [
        ("eu-centrall-1", "is the region 'eu-centrall-1' right? did you mean eu-central-1"),
        ("eu-central-1", "try again later"),
    ],
)
def test_a_region_that_is_not_known_is_doubted_if_it_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, region: str, cure: str
) -> None:
    def read(account: Account, _action: str, doing: str, **_: object) -> None:
        raise account.shown(sdk.EndpointConnectionError(endpoint_url="https://sts"), doing)

    monkeypatch.setattr(Account, "read", read)
    for more in ({}, {"uri": "https://ec2-fips.us-east-1.amazonaws.com"}):  # STS is elsewhere
        with pytest.raises(ApiError, match="logging in") as caught:
            Account({"region": region, **more})
        assert cure in str(caught.value.cure)
