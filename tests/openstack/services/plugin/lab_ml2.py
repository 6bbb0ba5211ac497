"""A mechanism driver of neutron that binds every port at once: no agent is needed for it."""

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api


class LabMechanismDriver(api.MechanismDriver):
    """Has any host reach any network."""

    def initialize(self) -> None:
        """Do nothing: there is nothing to prepare."""

    def bind_port(self, context: api.PortContext) -> None:
        """Bind to the first segment, and call it active."""
        segment = context.segments_to_bind[0]
        context.set_binding(
            segment[api.ID],
            portbindings.VIF_TYPE_OVS,
            {portbindings.CAP_PORT_FILTER: True},
            status=constants.PORT_STATUS_ACTIVE,
        )
