"""Volumes that hold nothing, for a hypervisor that reads none."""

from __future__ import annotations

from typing import Any

from cinder.volume import driver


class LabVolumes(driver.VolumeDriver):
    """A store in which all that cinder asks for is done at once."""

    VERSION = "1"

    def _done(self, *_args: Any, **_more: Any) -> None:
        """Do nothing."""

    do_setup = check_for_setup_error = _done
    create_volume = delete_volume = extend_volume = _done
    create_snapshot = delete_snapshot = _done
    create_volume_from_snapshot = create_cloned_volume = _done
    create_export = ensure_export = remove_export = terminate_connection = _done

    def clone_image(self, *_args: Any) -> tuple[dict[str, Any], bool]:
        """Say that the volume holds the image, which would be copied otherwise."""
        return {}, True

    def initialize_connection(self, *_args: Any, **_more: Any) -> dict[str, Any]:
        """Return what nova is to connect to."""
        return {"driver_volume_type": "fake", "data": {"access_mode": "rw"}}

    def _update_volume_stats(self) -> None:
        room = {"total_capacity_gb": 1000, "free_capacity_gb": 1000, "reserved_percentage": 0}
        self._stats = {
            "volume_backend_name": "lab",
            "vendor_name": "lab",
            "driver_version": self.VERSION,
            "storage_protocol": "fake",
            "pools": [{"pool_name": "lab", **room}],
        }
