"""What clients talk to: a proxy before each API, as a real cloud has one, that keeps a list.

proxy.py GIVEN: JSON with "ip", "apis", a list of [name, port here, port of the service], "state"
and "lab", the network namespace in which the same ports answer too, or null.
"""

from __future__ import annotations

import http.client
import json
import sys
from functools import partial
from pathlib import Path

from tests.openstack.services.api_ports import OWN, Answer, Asked, Book, api_ports, lab_ports, serve


def ask(upstream: tuple[str, int], asked: Asked) -> Answer:
    """Return the service's answer: 503 where nothing listens, status 0 when it broke off."""
    connection = http.client.HTTPConnection(*upstream)
    headers = {k: v for k, v in asked.headers.items() if k not in OWN}
    try:
        connection.request(asked.method, asked.path, asked.body or None, headers)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    except ConnectionRefusedError:
        return 503, [], b"No server is available to handle this request.\n"
    except (OSError, http.client.HTTPException):
        return 0, [], b""
    finally:
        connection.close()


def main() -> None:
    """Serve until ended."""
    given = json.loads(sys.argv[1])
    ip = given["ip"]
    apis = [(name, port, partial(ask, (ip, upstream))) for name, port, upstream in given["apis"]]
    here = api_ports(ip, apis, Book(Path(given["state"])))
    there = lab_ports(here, Path(given["lab"])) if given["lab"] else []
    serve([*here, *there])


main()
