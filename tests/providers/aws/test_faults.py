"""What EC2 does wrong, and what OSMeF makes of it."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from moto.ec2.models.instances import StateReason

from tests.aws.api import NO_INSTANCES, NO_TABLES, PLAIN, REGION, Fault
from tests.providers.aws.conftest import Lab

RUN = "RunInstances"
PASSING = [
    Fault("DescribeImages", "RequestLimitExceeded", 503),
    Fault("CreateVpc", "InternalError", 500, after=True),
    Fault("ImportKeyPair", "InternalError", 500, after=True),
    Fault("AttachInternetGateway", "InvalidInternetGatewayID.NotFound"),
    Fault("DescribeRouteTables", answer=NO_TABLES),
    Fault("CreateSubnet", "InvalidVpcID.NotFound"),
    Fault(RUN, "RequestLimitExceeded", 503),
    Fault(RUN, "InternalError", 500, after=True),
    Fault("DescribeInstances", "InvalidInstanceID.NotFound", holding="InstanceId.1="),
    Fault("DescribeInstances", "Unavailable", 503, holding="InstanceId.1="),
    Fault("TerminateInstances", "Unavailable", 503),
    Fault("DeleteSecurityGroup", "DependencyViolation"),
    Fault("DeleteSubnet", "InvalidSubnetID.NotFound", after=True),
    Fault("DeleteVpc", "DependencyViolation", times=2),
]


def test_transient_errors_are_retried_and_nothing_is_created_twice(lab: Lab) -> None:
    faults = [Fault(**vars(fault)) for fault in PASSING]
    lab.cloud.faults += faults
    ended = lab("run", lab.write())
    assert ended.code == 0, ended.err
    assert [fault.action for fault in faults if fault.times] == []
    made = lab.osmef.kinds_of("created")
    assert (made.count("instance"), made.count("vpc"), made.count("key-pair")) == (2, 1, 1)
    assert len(list(lab.cloud.backends()[0].all_instances())) == 2  # and no third, terminated
    assert lab.owned() == []


def test_a_permanent_error_is_reported_with_a_cure_and_leaves_nothing(lab: Lab) -> None:
    lab.cloud.faults.append(Fault("CreateVpc", "VpcLimitExceeded", times=-1))
    ended = lab("run", lab.write())
    assert ended.code == 3
    assert "Service Quotas" in ended.err
    assert "Traceback" not in ended.err
    lab.cloud.faults.clear()
    assert lab.owned() == []


@pytest.mark.parametrize("lagging", [False, True])
def test_a_failure_in_the_middle_of_making_leaves_nothing(lab: Lab, lagging: bool) -> None:
    lab.cloud.faults.append(Fault(RUN, "VcpuLimitExceeded", holding="receiver", times=-1))
    if lagging:  # what was made a moment ago is known by its id only
        unlisted = Fault("DescribeInstances", answer=NO_INSTANCES, holding="tag-key", times=-1)
        lab.cloud.faults.append(unlisted)
    ended = lab("run", lab.write())
    lab.cloud.faults.clear()
    assert ended.code == 3
    made = lab.osmef.kinds_of("created")
    gone = lab.osmef.kinds_of("destroyed")
    assert made.count("instance") == 1
    assert set(made) == set(gone)
    assert lab.owned() == []


def test_the_next_zone_is_taken_where_one_has_no_room(lab: Lab) -> None:
    one = Fault(RUN, "InsufficientInstanceCapacity", 500)
    lab.cloud.faults.append(one)
    ended = lab("run", lab.write(placement="different-host"))
    assert ended.code == 0, ended.err
    assert "no capacity in" in ended.err
    zones = {end["achieved"]["zone"] for end in lab.osmef.summary["endpoints"]}
    assert len(zones) == 1
    assert lab.owned() == []


def test_hosts_are_given_back_where_a_zone_has_no_room_for_all(lab: Lab) -> None:
    lab.cloud.faults.append(
        Fault("AllocateHosts", "InsufficientHostCapacity", 500, holding="host-2")
    )
    scenario = lab.write(placement="different-host", placement_by="dedicated-host")
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    assert "no capacity in euc1-az1" in ended.err
    assert {end["achieved"]["zone"] for end in lab.osmef.summary["endpoints"]} == {"euc1-az2"}
    states = [host.state for host in lab.cloud.backends()[0].hosts.values()]
    assert states == ["released"] * 3
    assert lab.owned() == []


def end_at_once(lab: Lab, code: str, why: str) -> None:
    """Have EC2 end an instance before it runs."""

    def end() -> None:
        instance = next(iter(lab.cloud.backends()[0].all_instances()))
        instance.terminate()
        instance.state_reason = StateReason(why, code)

    looking = Fault("DescribeInstances", "Unavailable", 503, holding="InstanceId.1=", then=end)
    lab.cloud.faults.append(looking)


def test_a_key_of_disks_that_may_not_be_used_is_a_cause(lab: Lab) -> None:
    end_at_once(lab, "Client.InternalError", "Client.InternalError: Client error on launch")
    ended = lab("run", lab.write())
    assert ended.code == 3
    assert "Client error on launch" in ended.err
    assert "key by which the account encrypts disks" in " ".join(ended.err.split())
    assert lab.owned() == []


def test_the_next_zone_is_taken_where_an_instance_is_taken_back_at_once(lab: Lab) -> None:
    end_at_once(lab, "Server.InsufficientInstanceCapacity", "there is no room after all")
    ended = lab("run", lab.write())
    assert ended.code == 0, ended.err
    assert "no capacity in euc1-az1: the instance ended at once: there is no room" in ended.err
    assert lab.owned() == []


def test_an_instance_that_does_not_boot_is_reported_with_its_console(lab: Lab) -> None:
    lab.cloud.stuck = True
    ended = lab("run", lab.write(boot_timeout="10s"))
    assert ended.code == 3
    assert "Kernel panic" in ended.err
    assert list(lab.osmef.run.glob("**/console-*.txt"))
    assert lab.owned() == []


def test_a_missing_permission_to_read_the_console_is_reported_at_once(lab: Lab) -> None:
    lab.cloud.faults.append(Fault("GetConsoleOutput", "UnauthorizedOperation", 403, times=-1))
    ended = lab("run", lab.write(host_keys="console"))
    assert ended.code == 3
    assert "does not allow ec2:GetConsoleOutput" in ended.err
    assert lab.owned() == []


def test_a_console_without_a_latest_state_is_read_as_it_was_kept(lab: Lab) -> None:
    old = Fault("GetConsoleOutput", "UnsupportedOperation", holding="Latest=true", times=-1)
    lab.cloud.faults.append(old)
    ended = lab("run", lab.write(host_keys="console"))
    assert ended.code == 0, ended.err
    assert old.times < -1


def test_ctrl_c_while_things_are_made_leaves_nothing(lab: Lab) -> None:
    def ctrl_c() -> None:
        lab.osmef.interrupt(lab.osmef.started[0], signal.SIGINT)

    lab.cloud.faults.append(Fault(RUN, "RequestLimitExceeded", 503, then=ctrl_c))
    ended = lab("run", lab.write())
    assert ended.code == 4
    assert lab.owned() == []


def test_a_zone_that_was_asked_for_is_the_only_one_that_is_tried(lab: Lab) -> None:
    lab.cloud.faults.append(Fault(RUN, "InsufficientInstanceCapacity", 500, times=-1))
    ended = lab("run", lab.write(zone="eu-central-1b"))
    assert ended.code == 3
    subnets = lab.cloud.requests("CreateSubnet")
    assert len(subnets) == 1
    assert lab.owned() == []


def test_different_partitions_alone_do_not_prove_different_hosts(lab: Lab) -> None:
    there = ("Placement.PartitionNumber=2", "Placement.PartitionNumber=1")
    lab.cloud.faults.append(Fault(RUN, change=there))
    ended = lab("run", lab.write(placement="different-host"))
    assert ended.code == 1
    assert "the achieved placement is unknown, not different-host" in ended.err
    (cell,) = lab.osmef.summary["cells"]
    assert (cell["n_ok"], cell["n_failed"]) == (0, 1)
    assert lab.owned() == []


def killer(lab: Lab) -> Callable[[], None]:
    """Return what kills the first command that was started."""
    return lambda: lab.osmef.started[0].send_signal(signal.SIGKILL)


def test_killed_before_the_answer_leaves_what_reap_finds(lab: Lab) -> None:
    lost = Fault("AllocateHosts", "InternalError", 500, after=True, then=killer(lab))
    lab.cloud.faults.append(lost)
    scenario = lab.write(placement="different-host", placement_by="dedicated-host")
    assert lab("run", scenario).code == -signal.SIGKILL
    assert any(one.startswith("dedicated-host ") for one in lab.owned())
    ended = lab("reap", "--yes")
    assert ended.code == 0, ended.err
    assert lab.owned() == []
    assert {event for event, _kind in lab.osmef.events} >= {"intend", "destroyed"}


def test_a_killed_run_is_resumed(lab: Lab) -> None:
    lab.cloud.faults.append(Fault(RUN, "InternalError", 500, after=True, then=killer(lab)))
    assert lab("run", lab.write()).code == -signal.SIGKILL
    ended = lab("resume", str(lab.osmef.run))
    assert ended.code == 0, ended.err
    (cell,) = lab.osmef.summary["cells"]
    assert cell["n_ok"] == 1
    assert lab.owned() == []


def test_a_created_instance_not_yet_listed_is_reaped(lab: Lab) -> None:
    lab.cloud.faults.append(Fault(RUN, "InternalError", 500, after=True, then=killer(lab)))
    assert lab("run", lab.write()).code == -signal.SIGKILL
    lab.cloud.faults.append(Fault("DescribeInstances", answer=NO_INSTANCES, holding="tag-key"))
    ended = lab("reap", "--yes")
    assert ended.code == 0, ended.err
    assert lab.owned() == []


def test_reap_without_journals_takes_what_is_due_and_nothing_foreign(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.cloud.faults.append(Fault(RUN, "InternalError", 500, after=True, then=killer(lab)))
    assert lab("run", lab.write()).code == -signal.SIGKILL
    foreign = make_foreign(lab)
    (lab.osmef.directory / "results").rename(lab.osmef.directory / "elsewhere")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    reap = ("reap", "--provider", "aws", "--cloud", "red", "--uri", lab.cloud.url)
    ended = lab(*reap, "--older-than", "1h", "--yes", "--out", "nowhere")
    assert ended.code == 0, ended.err
    assert lab.owned() != []  # it was made just now, and its controller may live elsewhere
    ended = lab(*reap, "--older-than", "0s", "--yes", "--out", "nowhere")
    assert ended.code == 0, ended.err
    assert lab.owned() == []
    assert foreign <= everything(lab)


def make_foreign(lab: Lab) -> set[str]:
    """Make what carries no mark of ours, beside one that seems to; return their ids."""
    backend = lab.cloud.backends()[0]
    vpc = backend.create_vpc("10.99.0.0/16")
    subnet = backend.create_subnet(vpc.id, "10.99.0.0/24", availability_zone="eu-central-1a")
    key = backend.create_key_pair("osmef-somebodys-own", "ed25519", {})
    image = backend.describe_images(owners=["136693071363"])[0].id
    reservation = backend.run_instances(
        image,
        1,
        None,
        [],
        instance_type="c5.large",
        **PLAIN,
        subnet_id=subnet.id,
    )
    instance = reservation.instances[0]
    instance.add_tags({"Name": "osmef-lab-1", "osmef_run": "not-ours"})  # no whole mark
    return {vpc.id, subnet.id, key.id, instance.id}


def everything(lab: Lab) -> set[str]:
    """Return the ids of what an account has and that runs."""
    backend = lab.cloud.backends()[0]
    return {
        *backend.vpcs,
        *(subnet.id for subnet in backend.describe_subnets()),
        *(key.id for key in backend.key_pairs.values()),
        *(one.id for one in backend.all_instances() if one.state == "running"),
    }
