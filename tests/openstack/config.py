"""The configuration files of the services, written anew at each start."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.openstack.settings import FAR_REGION, REGION, USERS, VOLUMES, Settings

Sections = dict[str, dict[str, object]]
WORKERS = 2
"""Processes of an API that much is asked of; a real cloud has several, too."""


def services(settings: Settings, venv: Path, hosts: Iterable[str]) -> dict[str, Sections]:
    """Return what the services read, by file."""
    return {
        "keystone.conf": _keystone(settings),
        "placement/placement.conf": _placement(settings),
        "glance.conf": _glance(settings, venv),
        "neutron.conf": _neutron(settings, venv),
        "nova.conf": _nova(settings, venv, "controller"),
        **{f"nova-{host}.conf": _nova(settings, venv, host) for host in hosts},
    }


def write(settings: Settings, files: dict[str, Sections]) -> None:
    """Write these files, and those of clients, queue and database, to the state folder's etc/."""
    etc = settings.state / "etc"
    (etc / "placement").mkdir(parents=True, exist_ok=True)
    write_clouds(settings)
    (etc / "enabled_plugins").write_text("[].\n")
    (etc / "rabbitmq.conf").write_text(_rabbitmq(settings))
    (etc / "databases.sql").write_text(_databases(settings))
    for name, sections in files.items():
        (etc / name).write_text(_ini(sections))
        if "instances_path" in sections.get("DEFAULT", {}):
            Path(str(sections["DEFAULT"]["instances_path"])).mkdir(parents=True, exist_ok=True)


def write_clouds(settings: Settings) -> None:
    """Write the file of clients to the state folder's etc/. What is JSON is YAML."""
    path = settings.state / "etc/clouds.yaml"
    clouds = {
        cloud: {
            "regions": [REGION, FAR_REGION],
            "identity_api_version": "3",
            "auth": {
                "auth_url": settings.public_url("keystone"),
                "username": cloud,
                "password": settings.password,
                "project_name": project,
                "user_domain_id": "default",
                "project_domain_id": "default",
            },
        }
        for cloud, project in {"admin": "admin", **USERS}.items()
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps({"clouds": clouds}, indent=2))


def _ini(sections: Sections) -> str:
    return "\n".join(
        f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items())
        for section, values in sections.items()
    )


def _rabbitmq(settings: Settings) -> str:
    return f"""\
listeners.tcp.1 = {settings.ip}:{settings.ports["mq"]}
default_user = osc
default_pass = {settings.password}
log.file.level = warning
disk_free_limit.absolute = 50MB
"""


def _databases(settings: Settings) -> str:
    """Return what the server runs at its start, a statement a line."""
    nova = ("nova_api", "nova", "nova_cell0")
    names = ("keystone", "placement", "glance", *nova, "neutron", "cinder")
    return "\n".join(
        [
            *(f"create database if not exists {name};" for name in names),
            f"create or replace user osc@localhost identified by '{settings.password}';",
            "grant all on *.* to osc@localhost;\n",
        ]
    )


def _account(settings: Settings, name: str) -> dict[str, object]:
    return {
        "auth_type": "password",
        "auth_url": settings.url("keystone"),
        "username": name,
        "password": settings.password,
        "project_name": "service",
        "user_domain_id": "default",
        "project_domain_id": "default",
        "region_name": REGION,
        "valid_interfaces": "internal",
    }


def _token(settings: Settings, name: str) -> dict[str, object]:
    return {
        "www_authenticate_uri": settings.url("keystone"),
        "service_token_roles_required": True,
        "service_token_roles": "service",
        **_account(settings, name),
    }


def _keystone(settings: Settings) -> Sections:
    state = settings.state
    return {
        "DEFAULT": {"log_file": state / "log/keystone.log"},
        "database": {"connection": settings.database("keystone")},
        "token": {"provider": "fernet"},
        "fernet_tokens": {"key_repository": state / "fernet-keys"},
        "fernet_receipts": {"key_repository": state / "fernet-keys"},
        "credential": {"key_repository": state / "credential-keys"},
        "identity": {"password_hash_rounds": 4},
        "cache": {"enabled": True, "backend": "dogpile.cache.memory"},
    }


_PATIENT_S = 300
"""How late a service may be before others give it up: on a busy machine servers fail after 60 s."""


def _placement(settings: Settings) -> Sections:
    return {
        "DEFAULT": {"log_file": settings.state / "log/placement.log"},
        "placement_database": {"connection": settings.database("placement")},
        "api": {"auth_strategy": "keystone"},
        "keystone_authtoken": _token(settings, "placement"),
    }


def _glance(settings: Settings, venv: Path) -> Sections:
    state = settings.state
    return {
        "DEFAULT": {
            "log_file": state / "log/glance-api.log",
            "bind_host": settings.ip,
            "bind_port": settings.ports["glance-api"],
            "workers": 0,
            "enabled_backends": "file:file",
            "transport_url": settings.queue,
        },
        "database": {"connection": settings.database("glance")},
        "glance_store": {"default_backend": "file"},
        "file": {"filesystem_store_datadir": state / "images"},
        "os_glance_staging_store": {"filesystem_store_datadir": state / "glance/staging"},
        "os_glance_tasks_store": {"filesystem_store_datadir": state / "glance/tasks"},
        "paste_deploy": {
            "flavor": "keystone",
            "config_file": venv / "etc/glance/glance-api-paste.ini",
        },
        "keystone_authtoken": _token(settings, "glance"),
    }


def _nova(settings: Settings, venv: Path, host: str) -> Sections:
    """Return what the controller's services read, or the compute service of one host."""
    state = settings.state
    sections: Sections = {
        "DEFAULT": {
            "state_path": state / "nova" / host,
            "instances_path": state / "nova" / host / "instances",
            "host": host,
            "my_ip": settings.ip,
            "transport_url": settings.queue,
            "rpc_response_timeout": _PATIENT_S,
            "enabled_apis": "osapi_compute",
            "osapi_compute_listen": settings.ip,
            "osapi_compute_listen_port": settings.ports["nova-api"],
            "osapi_compute_workers": WORKERS,
            # All hosts share this machine's CPUs.
            "max_concurrent_builds": 1,
            "compute_driver": "fake.LabDriver",
            # The fake hypervisor never plugs a port.
            "vif_plugging_is_fatal": False,
            "vif_plugging_timeout": 0,
            "cpu_allocation_ratio": 1.0,
            "ram_allocation_ratio": 1.0,
            "reserved_host_memory_mb": 0,
            "report_interval": 5,
            "service_down_time": _PATIENT_S,
            "update_resources_interval": 0,
            # Periodic tasks begin at once, not at a random moment of a minute.
            "periodic_fuzzy_delay": 0,
        },
        "wsgi": {"api_paste_config": venv / "etc/nova/api-paste.ini"},
        "conductor": {"workers": 1},
        "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 3},
        "filter_scheduler": {"track_instance_changes": False},
        "oslo_concurrency": {"lock_path": state / "lock"},
        "cache": {"enabled": True, "backend": "dogpile.cache.memory"},
        "vnc": {"enabled": False},
        "glance": {"endpoint_override": settings.url("glance-api")},
        "keystone_authtoken": _token(settings, "nova"),
        "placement": _account(settings, "placement"),
        "neutron": _account(settings, "neutron"),
        "service_user": {"send_service_user_token": True, **_account(settings, "nova")},
    }
    if host == "controller":
        sections["DEFAULT"]["log_dir"] = state / "log"
        sections["api_database"] = {"connection": settings.database("nova_api")}
        sections["database"] = {"connection": settings.database("nova")}
    else:
        sections["DEFAULT"]["log_file"] = state / f"log/nova-compute-{host}.log"
    return sections


def _neutron(settings: Settings, venv: Path) -> Sections:
    state = settings.state
    return {
        "DEFAULT": {
            "log_file": state / "log/neutron-server.log",
            "state_path": state / "neutron",
            "host": "controller",
            "bind_host": settings.ip,
            "bind_port": settings.ports["neutron-server"],
            "transport_url": settings.queue,
            "rpc_response_timeout": _PATIENT_S,
            "agent_down_time": _PATIENT_S,
            "core_plugin": "ml2",
            "service_plugins": "router",
            "api_paste_config": venv / "etc/neutron/api-paste.ini",
            "api_workers": WORKERS,
            "rpc_workers": 1,
            "rpc_state_report_workers": 0,
            "dhcp_agent_notification": False,
            "global_physnet_mtu": 1500,
        },
        "database": {"connection": settings.database("neutron")},
        "oslo_concurrency": {"lock_path": state / "lock"},
        "ml2": {
            "type_drivers": "flat,vlan,vxlan",
            "tenant_network_types": "vxlan",
            "mechanism_drivers": "lab",
            "extension_drivers": "port_security",
        },
        "ml2_type_flat": {"flat_networks": "physnet1"},
        "ml2_type_vlan": {"network_vlan_ranges": "physnet1:100:199"},
        "ml2_type_vxlan": {"vni_ranges": "1:1000"},
        "keystone_authtoken": _token(settings, "neutron"),
        "nova": {**_account(settings, "nova"), "endpoint_type": "internal"},
    }


def cinder(settings: Settings, packages: Path) -> Sections:
    """Return what the services of volumes read, installed at ``packages``."""
    state = settings.state
    return {
        "DEFAULT": {
            "log_dir": state / "log",
            "state_path": state / "cinder",
            "host": "controller",
            "my_ip": settings.ip,
            "transport_url": settings.queue,
            "auth_strategy": "keystone",
            "osapi_volume_listen": settings.ip,
            "osapi_volume_listen_port": settings.ports[VOLUMES],
            "osapi_volume_workers": 1,
            "api_paste_config": packages / "etc/cinder/api-paste.ini",
            "resource_query_filters_file": packages / "etc/cinder/resource_filters.json",
            "glance_api_servers": settings.url("glance-api"),
            "enabled_backends": "lab",
            "periodic_fuzzy_delay": 0,
        },
        "lab": {"volume_driver": "lab_cinder.LabVolumes", "volume_backend_name": "lab"},
        "database": {"connection": settings.database("cinder")},
        "oslo_concurrency": {"lock_path": state / "lock"},
        "coordination": {"backend_url": f"file://{state}/cinder/coordination"},
        "keystone_authtoken": _token(settings, "cinder"),
        "service_user": {"send_service_user_token": True, **_account(settings, "cinder")},
    }
