import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from osmef.errors import InputError, StorageError
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary, summary_schema
from tests.small_files import small_files

OLD_RUN = Path(__file__).parent / "data" / "quickstart-20261121T031500Z-3f9a"


@pytest.fixture
def summary() -> Summary:
    return RunDirectory.open(OLD_RUN).read_summary()


@pytest.fixture
def document() -> Any:
    return json.loads((OLD_RUN / "summary.json").read_text())


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = summary_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


def test_a_summary_comes_back_as_it_was(run: RunDirectory, summary: Summary) -> None:
    run.write_summary(summary)
    assert run.read_summary() == summary
    assert run.summary.read_bytes().endswith(b"}\n")


def test_a_written_summary_conforms_to_the_published_schema(
    run: RunDirectory, summary: Summary, validator: jsonschema.Draft202012Validator
) -> None:
    run.write_summary(summary)
    validator.validate(json.loads(run.summary.read_text()))


def test_the_published_schema_describes_every_key() -> None:
    schema = summary_schema()
    objects = [schema, *(part for part in schema["$defs"].values() if "properties" in part)]
    keys = [
        (part["title"], key, told) for part in objects for key, told in part["properties"].items()
    ]
    assert len(keys) > len(Summary.model_fields)
    assert [f"{title}.{key}" for title, key, told in keys if not told.get("description")] == []


@pytest.mark.parametrize(
    ("key", "value"), [("schema_version", "1"), ("cells", {}), ("unknown", 1), ("run", None)]
)
def test_an_invalid_summary_is_rejected_by_schema_and_reader(
    run: RunDirectory,
    document: Any,
    validator: jsonschema.Draft202012Validator,
    key: str,
    value: object,
) -> None:
    document[key] = value
    assert not validator.is_valid(document)
    run.summary.write_text(json.dumps(document))
    with pytest.raises(InputError):
        run.read_summary()


def test_the_summary_of_a_run_without_one_is_a_storage_error(run: RunDirectory) -> None:
    with pytest.raises(StorageError, match="No such file"):
        run.read_summary()


def test_a_summary_that_cannot_be_written_keeps_the_old_one(
    run: RunDirectory, summary: Summary
) -> None:
    run.write_summary(summary)
    with small_files(1000), pytest.raises(StorageError, match="can't write: File too large"):
        run.write_summary(summary.model_copy(update={"endpoints": []}))
    assert run.read_summary() == summary
