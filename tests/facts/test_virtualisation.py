import pytest

from osmef.facts.collect import technology


@pytest.mark.parametrize(
    ("hypervisor", "vendor", "product", "flag", "expected"),
    [
        (None, "QEMU", "Standard PC (Q35 + ICH9, 2009)", True, "qemu"),
        (None, "Red Hat", "KVM", True, "kvm"),
        (None, "OpenStack Foundation", "OpenStack Nova", True, "kvm"),
        (None, "Google", "Google Compute Engine", True, "kvm"),
        (None, "Amazon EC2", "c5.large", True, "nitro"),
        (None, "Amazon EC2", "c5.metal", False, "none"),
        ("xen", "Xen", "HVM domU", True, "xen"),
        (None, "Xen", "HVM domU", True, "xen"),
        (None, "Microsoft Corporation", "Virtual Machine", True, "hyper-v"),
        (None, "Microsoft Corporation", "Surface Laptop", False, "none"),
        (None, "VMware, Inc.", "VMware7,1", True, "vmware"),
        (None, "innotek GmbH", "VirtualBox", True, "virtualbox"),
        (None, "Dell Inc.", "PowerEdge R740", False, "none"),
        (None, None, None, True, None),
        (None, None, None, None, None),
        (None, "QEMU", "KVM Virtual Machine", None, "kvm"),
        (None, "HPE", "Apollo 70", None, None),
    ],
)
def test_the_technology_follows_from_cpu_and_dmi(
    hypervisor: str | None,
    vendor: str | None,
    product: str | None,
    flag: bool | None,
    expected: str | None,
) -> None:
    assert technology(hypervisor, vendor, product, flag) == expected
