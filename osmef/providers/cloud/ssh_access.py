"""SSH access to booting guests: trusted host keys, and consoles in errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from osmef.errors import BootError, CredentialsError, PolicyError, ProviderError, ReachError
from osmef.providers.base import RunContext
from osmef.providers.cloud_init import host_keys
from osmef.providers.parallel import side_by_side
from osmef.remote.login import HostKeys, KeyPair, Login
from osmef.remote.session import wait_for_ssh

_TAIL_LINES = 15
_MOST_WAITS = 64


@dataclass(frozen=True)
class BootingGuest:
    """A booting VM.

    ``host_key`` is the one that it was given with its first data; None if it makes its own, which
    ``console`` then shows: it returns what the VM wrote so far, maybe nothing. ``shown_by`` is what
    the cloud calls its console. ``other_keys`` is asked first, where the cloud has a better source:
    it returns None as long as that holds no keys.
    ``wait`` waits for so many seconds until the next look.
    """

    name: str
    user: str
    address: str
    host_key: KeyPair | None
    console: Callable[[], str]
    wait: Callable[[float], None]
    look_s: float = 2.0
    shown_by: str = "console"
    other_keys: Callable[[], HostKeys | None] | None = None
    jump: Login | None = None

    def reach(self, context: RunContext, deadline: float) -> Login:
        """Wait for SSH, and return the login. ``deadline`` is a time of ``time.monotonic()``.

        Raises BootError, ReachError, and ProviderError where its keys can't be read.
        """
        keys = self.accept_keys(context, deadline)
        login = Login(self.name, self.user, self.address, keys, context.key, jump=self.jump)
        try:
            wait_for_ssh(login, deadline=deadline, check=context.check).close()
        except ReachError as error:
            raise self.explain(error, context) from error
        return login

    def accept_keys(self, context: RunContext, deadline: float) -> HostKeys:
        """Return the accepted host keys, once the guest shows them. Raises BootError."""
        if self.host_key is not None:
            return HostKeys(
                accepted=(" ".join(self.host_key.public.split()[:2]),),
                source="its first data",
                cure="does cloud-init of the image take ssh_keys? else provider.host_keys: console",
            )
        while True:
            why = f"its {self.shown_by} shows no SSH host keys"
            try:
                found = self._shown_keys()
            except (CredentialsError, PolicyError):
                raise
            except ProviderError as error:  # as long as nothing is written
                found, why = None, f"its {self.shown_by} can't be read: {error.message}"
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise self._unbooted(why, context)
            self.wait(self.look_s)

    def _shown_keys(self) -> HostKeys | None:
        found = self.other_keys() if self.other_keys else None
        if found is not None:
            return found
        keys = tuple(host_keys(self.console()))
        return HostKeys(accepted=keys, source=f"its {self.shown_by}") if keys else None

    def explain(self, error: ReachError, context: RunContext) -> ProviderError | ReachError:
        """Distinguish a guest that did not boot from one that is unreachable."""
        console = self._console_if_any()
        if not console or host_keys(console) or "login:" in console:
            return error
        return self._unbooted(error.message, context)

    def _console_if_any(self) -> str:
        """Return its console for the message of another error, without raising."""
        try:
            return self.console()
        except ProviderError:
            return ""

    def _unbooted(self, message: str, context: RunContext) -> BootError:
        console = self._console_if_any()
        if not console.strip():
            return BootError(
                f"{message}, and its {self.shown_by} is empty",
                where=self.name,
                cure="is it an image for this kind of machine, with sshd and cloud-init?",
            )
        path = context.keep(f"console-{self.name}.txt", console)
        tail = "\n".join(f"    {line}" for line in console.splitlines()[-_TAIL_LINES:])
        return BootError(
            f"{message}; the end of its {self.shown_by} (all of it: {path}):\n{tail}",
            where=self.name,
            cure="does the image boot by hand? provider.boot_timeout is how long it may take",
        )


def reach_all(
    guests: Iterable[BootingGuest], context: RunContext, boot_timeout: float
) -> list[Login]:
    """Wait for SSH of all guests, and return the logins. Raises as ``BootingGuest.reach``."""
    deadline = time.monotonic() + boot_timeout
    return side_by_side(lambda one: one.reach(context, deadline), guests, at_once=_MOST_WAITS)
