"""Which virtualisation an endpoint runs on, as far as it can be seen from inside."""

from __future__ import annotations

# A part of what DMI calls the vendor or the product, in lower case, and the technology that puts
# it there. Clouds that changed their hypervisor name the product, so that is looked at first.
_MARKS = (
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("bhyve", "bhyve"),
    ("parallels", "parallels"),
    ("kvm", "kvm"),
    ("openstack", "kvm"),
    ("google compute engine", "kvm"),
    ("qemu", "qemu"),
    ("hvm domu", "xen"),
    ("xen", "xen"),
    ("amazon ec2", "nitro"),
    ("microsoft corporation", "hyper-v"),
)


def technology(
    hypervisor: str | None, vendor: str | None, product: str | None, flag: bool | None
) -> str | None:
    """Return the technology: "kvm", "xen", "vmware" ..., "none" on bare metal, None if unknown.

    ``hypervisor`` is /sys/hypervisor/type, ``vendor`` and ``product`` are DMI's, and ``flag`` is
    the CPU's hypervisor flag. Without that flag an x86 CPU is real, whoever built the machine
    (Microsoft and Amazon sell bare metal, too); architectures that have none rely on DMI alone.
    """
    if hypervisor:
        return hypervisor.lower()
    if flag is False:
        return "none"
    for text in (product, vendor):
        for mark, name in _MARKS:
            if text and mark in text.lower():
                return name
    return None
