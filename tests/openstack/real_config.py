"""What the services read where hosts, networks and guests are real."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.openstack import config
from tests.openstack.config import Sections
from tests.openstack.settings import Settings

NETWORK_HOST = "net"
QEMU = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
"""
DNSMASQ = "user=root\n"  # its own user can't read what is in the state folder
LIBVIRTD = """\
auth_unix_rw = "none"
host_uuid = "{uuid}"
"""


def services(
    settings: Settings, venv: Path, hosts: Mapping[str, str], addresses: Mapping[str, str]
) -> dict[str, Sections]:
    """Return what the services read, by file; ``addresses`` are those of all hosts."""
    files = config.services(settings, venv, hosts)
    files["nova.conf"]["DEFAULT"] |= {
        "metadata_listen": settings.ip,
        "metadata_listen_port": settings.ports["metadata"],
        "metadata_workers": 1,
    }
    files["nova.conf"]["neutron"] |= {
        "service_metadata_proxy": True,
        "metadata_proxy_shared_secret": settings.password,
    }
    for host in hosts:
        _give_hypervisor(files[f"nova-{host}.conf"], addresses[host])
    _give_agents(files["neutron.conf"])
    for host, address in addresses.items():
        files[f"agents-{host}.conf"] = _agents(settings, host, address)
    return files


def _give_hypervisor(nova: Sections, address: str) -> None:
    nova["DEFAULT"] |= {
        "compute_driver": "libvirt.LibvirtDriver",
        "my_ip": address,
        "vif_plugging_is_fatal": True,
        "vif_plugging_timeout": 120,
        "cpu_allocation_ratio": 16.0,
        "force_raw_images": False,
    }
    nova["libvirt"] = {
        "virt_type": "qemu",
        "cpu_mode": "none",
        "tb_cache_size": 128,  # MiB of translated code a guest; QEMU's own choice is 1024
        "inject_partition": -2,
    }


def _give_agents(neutron: Sections) -> None:
    neutron["DEFAULT"]["dhcp_agent_notification"] = True
    neutron["ml2"]["mechanism_drivers"] = "linuxbridge,l2population"
    neutron["experimental"] = {"linuxbridge": True}


def _agents(settings: Settings, host: str, address: str) -> Sections:
    """Return what all agents of a host read beside neutron.conf."""
    outside: dict[str, object] = (
        {"physical_interface_mappings": "physnet1:ext0"} if host == NETWORK_HOST else {}
    )
    return {
        "DEFAULT": {
            "host": host,
            "state_path": settings.state / "neutron" / host,
            "log_file": "",
            "use_stderr": True,
            "interface_driver": "linuxbridge",
            "enable_isolated_metadata": True,
            "dnsmasq_config_file": settings.state / "hosts" / host / "dnsmasq.conf",
            "metadata_proxy_shared_secret": settings.password,
            "nova_metadata_host": settings.ip,
            "nova_metadata_port": settings.ports["metadata"],
            "metadata_workers": 1,
        },
        "linux_bridge": outside,
        "vxlan": {"enable_vxlan": True, "local_ip": address, "l2_population": True},
        "securitygroup": {"firewall_driver": "iptables"},
    }
