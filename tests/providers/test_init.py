from __future__ import annotations

import subprocess
import sys

import pytest

from osmef.errors import ProviderError
from osmef.providers import provider_class, provider_for, provider_kinds
from osmef.scenario.clouds.local import LocalSettings


def test_every_provider_kind_has_a_class_with_that_kind() -> None:
    assert "local" in provider_kinds()
    for kind in provider_kinds():
        assert provider_class(kind).kind == kind


def test_settings_choose_the_provider() -> None:
    assert provider_for(LocalSettings()).kind == "local"


def test_an_unknown_kind_has_no_class() -> None:
    with pytest.raises(ProviderError, match="knows no provider cloud-nine") as caught:
        provider_class("cloud-nine")
    assert "install the package that brings it" in str(caught.value.cure)


def test_the_daemon_starts_without_the_controllers_libraries() -> None:
    code = (
        "import sys, osmef.providers.local.daemon, osmef.providers.local.daemon;"
        "print({'pydantic', 'paramiko', 'pandas', 'cryptography'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
