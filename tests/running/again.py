"""``--again``: a test that fails is run once more at once, and counted and named if it passes then.

Of thousands of tests on a machine that others use, too, one is disturbed now and then, which says
nothing of a change; neither does a new example for a property, so the examples are the same each
time. Who looks for disturbed tests, or for new examples, runs them without ``--again``.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

AGAIN = "run again"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--again", action="store_true", help="run a test that fails once more")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test, and once more if it fails; how it failed before is kept."""
    if not item.config.option.again:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failed = next((report for report in reports if report.failed), None)
    if failed is not None:
        item._initrequest()  # type: ignore[attr-defined]  # its fixtures are made anew
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if not any(report.failed for report in reports):
            failed.outcome = AGAIN  # type: ignore[assignment]  # pytest counts any word
            reports.append(failed)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return (AGAIN, "A", AGAIN.upper()) if report.outcome == AGAIN else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what passed when it was run again, with how it had failed."""
    for report in terminalreporter.stats.get(AGAIN, []):
        terminalreporter.section(f"{report.nodeid} passed when {AGAIN}; before:", sep="-")
        terminalreporter.write_line(report.longreprtext)
