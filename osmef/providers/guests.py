"""Get into VMs that boot: with host keys that nobody had to trust, and their console in errors."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from osmef.errors import BootError, ProviderError, ReachError
from osmef.providers.base import Order
from osmef.providers.cloud_init import host_keys
from osmef.remote.keys import KeyPair
from osmef.remote.login import HostKeys, Login
from osmef.remote.waiting import wait_for_ssh

_TAIL_LINES = 15


@dataclass(frozen=True)
class Guest:
    """A VM that boots.

    ``host_key`` is the one that it was given with its first data; None if it makes its own, which
    ``console`` then shows: it returns what the VM wrote so far, maybe nothing. ``wait`` waits for
    so many seconds until the next look.
    """

    name: str
    user: str
    address: str
    host_key: KeyPair | None
    console: Callable[[], str]
    wait: Callable[[float], None]
    look_s: float = 2.0

    def reach(self, order: Order, deadline: float) -> Login:
        """Wait until SSH gets in, and return how. ``deadline`` is a time of ``time.monotonic()``.

        Raises BootError, ReachError.
        """
        keys = self._host_keys(order, deadline)
        login = Login(self.name, self.user, self.address, keys, order.key)
        try:
            wait_for_ssh(login, deadline=deadline, check=order.check).close()
        except ReachError as error:
            raise self._explained(error, order) from error
        return login

    def _host_keys(self, order: Order, deadline: float) -> HostKeys:
        if self.host_key is not None:
            return HostKeys(
                accepted=(" ".join(self.host_key.public.split()[:2]),),
                source="its first data",
                cure="does cloud-init of the image take ssh_keys? else provider.host_keys: console",
            )
        while not (found := host_keys(self.console())):
            if time.monotonic() > deadline:
                raise self._unbooted("its console shows no SSH host keys", order)
            self.wait(self.look_s)
        return HostKeys(accepted=tuple(found), source="its console")

    def _explained(self, error: ReachError, order: Order) -> ProviderError | ReachError:
        """Tell a guest that never came up from one that is up and can't be reached."""
        console = self.console()
        if not console or host_keys(console) or "login:" in console:
            return error
        return self._unbooted(error.message, order)

    def _unbooted(self, message: str, order: Order) -> BootError:
        console = self.console()
        if not console.strip():
            return BootError(
                f"{message}, and its console is empty",
                where=self.name,
                cure="is it an image for this kind of machine, with sshd and cloud-init?",
            )
        path = order.keep(f"console-{self.name}.txt", console)
        tail = "\n".join(f"    {line}" for line in console.splitlines()[-_TAIL_LINES:])
        return BootError(
            f"{message}; the end of its console (all of it: {path}):\n{tail}",
            where=self.name,
            cure="does the image boot by hand? provider.boot_timeout is how long it may take",
        )
