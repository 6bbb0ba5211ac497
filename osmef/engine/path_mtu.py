"""The largest packet that the path between each pair takes, as its transfers have found it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from osmef.results.trial import Trial


def path_mtus(trials: Sequence[Trial]) -> Mapping[str, dict[str, int]]:
    """Return the MTU of the path from each sending endpoint to each that it sent to, in bytes.

    It is the smallest that any connection or UDP flow of theirs has ended with: a path that takes
    less is found by a packet that is too large for it (RFC 1191).
    """
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for trial in trials:
        for sender, receiver, mtu in _seen(trial):
            known = found[sender].get(receiver, mtu)
            found[sender][receiver] = min(mtu, known)
    return {sender: dict(sorted(of.items())) for sender, of in found.items()}


def _seen(trial: Trial) -> Iterator[tuple[str, str, int]]:
    for transfer in trial.transfers:
        for flow in transfer.sender.flows:
            if flow.tcp.path_mtu is not None:
                yield transfer.sender.endpoint, transfer.receiver.endpoint, flow.tcp.path_mtu
    for one in trial.datagrams:
        for sent in one.sender.flows:
            if sent.path_mtu is not None:
                yield one.sender.endpoint, one.receiver.endpoint, sent.path_mtu
