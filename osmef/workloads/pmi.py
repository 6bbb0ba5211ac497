"""PMI version 1: exchange of addresses between the processes of an MPI job, by the controller.

Each process tells what others need to connect to it, its address among that, and asks for what they
told. It speaks lines such as ``cmd=put kvsname=osmef key=a value=b`` on a descriptor that PMI_FD
names. So no process has to reach a server, and no endpoint needs to log in to another one.

Source: P. Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale
Systems" (EuroMPI 2010); MPICH 4.0, src/pmi/simple/simple_pmi.c is the other side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from osmef.errors import ProgramError

CHANNEL = "PMI_FD"
"""The variable that tells a process the descriptor of its channel."""

_NAME = "osmef"
_MOST_KEY, _MOST_VALUE, _MOST_LINE = 64, 1024, 4096
_MOST_KEYS_EACH = 4096
"""Of all that a process tells; MPICH has a few."""
_WORD = re.compile(r"([A-Za-z_]+)=(\S*)")

Answers = Iterator[tuple[int, str]]
"""To which process, by its rank, which text."""


class KeyValueSpace:
    """The key-value space of one job, with its processes' endpoints.

    ``nodes`` has the endpoint of each process, by rank; those of one endpoint follow each other.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = list(nodes)
        self._told: dict[str, str] = {"PMI_process_mapping": _mapping(nodes)}
        self._most = len(self._told) + _MOST_KEYS_EACH * len(self._nodes)
        self._rest = [b""] * len(self._nodes)
        self._waiting: set[int] = set()

    def environment(self, rank: int) -> dict[str, str]:
        """Return the environment of a process."""
        return {"PMI_RANK": str(rank), "PMI_SIZE": str(len(self._nodes))}

    def take(self, rank: int, data: bytes) -> Answers:
        """Handle a process's input, in arbitrary pieces, and return the answers.

        Raises ProgramError for an unknown request.
        """
        *lines, rest = (self._rest[rank] + data).split(b"\n")
        self._rest[rank] = rest
        for line in [*lines, rest]:
            if len(line) > _MOST_LINE:
                raise self._error(rank, f"says more than {_MOST_LINE} bytes in a line")
        for line in lines:
            yield from self._answer(rank, line.decode(errors="replace"))

    def _answer(self, rank: int, line: str) -> Answers:
        words = dict(_WORD.findall(line))
        command = words.get("cmd", "")
        if command == "barrier_in":
            self._waiting.add(rank)
            if len(self._waiting) == len(self._nodes):
                self._waiting.clear()
                yield from ((one, "cmd=barrier_out\n") for one in range(len(self._nodes)))
            return
        if command == "abort":
            return  # it says why on standard error, and ends
        answer = self._put(rank, words) if command == "put" else self._known(command, words)
        if answer is None:
            raise self._error(rank, f"asks for what is not known here: {line[:200]!r}")
        yield rank, f"cmd={answer}\n"

    def _known(self, command: str, words: Mapping[str, str]) -> str | None:
        if command == "get":
            return self._get(words.get("key", ""))
        return {
            "init": "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": f"maxes kvsname_max=256 keylen_max={_MOST_KEY} vallen_max={_MOST_VALUE}",
            "get_appnum": "appnum appnum=0",
            "get_my_kvsname": f"my_kvsname kvsname={_NAME}",
            "get_universe_size": f"universe_size size={len(self._nodes)}",
            "finalize": "finalize_ack",
        }.get(command)

    def _get(self, key: str) -> str:
        value = self._told.get(key)
        if value is None:
            return "get_result rc=-1 msg=key_not_found value=unknown"
        return f"get_result rc=0 msg=success value={value}"

    def _put(self, rank: int, words: Mapping[str, str]) -> str:
        key, value = words.get("key", ""), words.get("value", "")
        if not 0 < len(key) <= _MOST_KEY or len(value) > _MOST_VALUE:
            raise self._error(rank, f"sends a value that is too long for the key {key[:99]!r}")
        if len(self._told) >= self._most:
            raise self._error(rank, f"and the others send more than {self._most} values")
        self._told[key] = value
        return "put_result rc=0 msg=success"

    def _error(self, rank: int, what: str) -> ProgramError:
        return ProgramError(
            f"process {rank} of {len(self._nodes)} {what}",
            where=self._nodes[rank],
            cure="look at what it printed; it has to be a program of MPICH, or of one that speaks"
            " its PMI version 1",
        )


def _mapping(nodes: Sequence[str]) -> str:
    """Return the process mapping: (first node, number of nodes, processes of each)."""
    counts = [len(list(some)) for _, some in groupby(nodes)]
    blocks: list[str] = []
    first = 0
    for count, alike in groupby(counts):
        many = len(list(alike))
        blocks.append(f"({first},{many},{count})")
        first += many
    return f"(vector,{','.join(blocks)})"
