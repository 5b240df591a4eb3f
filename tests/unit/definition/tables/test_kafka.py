"""Bronze tables of Kafka's records: what their definition may say, and each mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate import definition
from sluicegate.definition import BronzeTable, Pipeline
from sluicegate.errors import DefinitionError, Mistake
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit

TABLE = """\
name: p
params: {broker: {type: string, default: "b1:9092"}}
bronze:
  orders:
    format: kafka
    kafka:
      bootstrap_servers: ${param:broker}, b2:9092
      topic: orders
      security: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN}
    schemaHints: id BIGINT
    expectations: {has_id: {expect: id IS NOT NULL}}
silver:
  lines: {sql: "SELECT id, _key AS k FROM STREAM(orders)", keys: [id]}
"""


def load(tmp_path: Path, text: str) -> Pipeline:
    folder = tmp_path / "pipelines" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yaml").write_text(text)
    return definition.load("p", Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines"))


def mistake(tmp_path: Path, old: str, new: str) -> Mistake:
    assert old in TABLE
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, TABLE.replace(old, new))
    [found] = raised.value.mistakes
    return found


def test_its_address_stands_for_a_path(tmp_path: Path) -> None:
    table = load(tmp_path, TABLE).bronze["orders"]
    assert table.path == "kafka://b1:9092,b2:9092/orders"
    assert not table.reads_files
    assert table.topic_source.topic_names == ["orders"]
    assert table.value_table.format == "json"
    assert table.schemaEvolutionMode == "addNewColumns"
    with pytest.raises(TypeError, match="no topics"):
        _ = BronzeTable.model_validate({"path": "/x", "format": "json"}).topic_source


@pytest.mark.parametrize(
    ("topics", "address"),
    [("topics: [a, b-1]", "kafka://b1:9092,b2:9092/a,b-1"), (r"topic_pattern: shop\..*", r"kafka://b1:9092,b2:9092/shop\..*")],
)  # fmt: skip
def test_it_has_several_topics(tmp_path: Path, topics: str, address: str) -> None:
    assert load(tmp_path, TABLE.replace("topic: orders", topics)).bronze["orders"].path == address


def test_columns_of_a_declared_schema_are_known(tmp_path: Path) -> None:
    found = mistake_of_columns(tmp_path, "no_such")
    assert found.code == "unknown-column"
    assert load(tmp_path, TABLE.replace("schemaHints", "schema")).bronze["orders"].declared_columns == {"id": "BIGINT"}


def mistake_of_columns(tmp_path: Path, column: str) -> Mistake:
    text = TABLE.replace("schemaHints", "schema").replace("{expect: id IS", f"{{expect: {column} IS")
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, text)
    [found] = raised.value.mistakes
    return found


MISTAKES = [
    ("      topic: orders\n", "", 6, "missing-field", "exactly one of topic, topics and topic_pattern"),
    ("topic: orders\n", "topic: orders\n      topics: [a]\n", 6, "missing-field", "topic and topics"),
    ("topic: orders", "topics: [a, a]", 6, "duplicate-name", "duplicate topic a"),
    ("topic: orders", "topic: a b", 8, "name", "'a b'"),
    ("topic: orders", "topic: ..", 8, "name", "topic"),
    ("topic: orders", "topic_pattern: '('", 8, "pattern", "regular expression"),
    (", b2:9092", ", b2", 7, "servers", "address"),
    ("topic: orders\n", "topic: orders\n      value: avro\n", 9, "not-allowed", "json, text and binary"),
    ("topic: orders\n", "topic: orders\n      maxRecordsPerBatch: 0\n", 9, "out-of-range", "maxRecordsPerBatch is 0"),
    ("sasl.mechanism: PLAIN", "sasl.jaas.config: x", 9, "refused-option", "secret"),
    ("sasl.mechanism: PLAIN", "ssl.key.password: x", 9, "refused-option", "is a secret"),
    ("sasl.mechanism: PLAIN", "kafka.sasl.mechanism: PLAIN", 9, "unknown-option", "option kafka.sasl.mechanism"),
    ("topic: orders", "topic: ${SLUICEGATE_KAFKA_PASSWORD}", 8, "unset-variable", "is a secret"),
    ("format: kafka", "format: kafka\n    path: /x", 4, "not-allowed", "path is for files"),
    ("format: kafka", "format: kafka\n    settleSeconds: 3", 4, "not-allowed", "settleSeconds is for files"),
    ("format: kafka", "format: json\n    path: /x", 4, "not-allowed", "format"),
    ("id BIGINT", "_offset INT", 4, "reserved-name", "_offset"),
    ("topic: orders\n", "topic: orders\n      value: text\n", 4, "not-allowed", "text"),
    ("schemaHints: id BIGINT", "options: {multiLine: true}", 10, "unknown-option", "multiLine is not an option"),
    ("schemaHints: id BIGINT", "options: {mode: FAILFAST}", 10, "refused-option", "only PERMISSIVE is allowed"),
]


@pytest.mark.parametrize(("old", "new", "line", "code", "message"), MISTAKES)
def test_mistakes_have_their_line(tmp_path: Path, old: str, new: str, line: int, code: str, message: str) -> None:
    found = mistake(tmp_path, old, new)
    assert (found.code, found.line) == (code, line), str(found)
    assert message in found.message


def test_a_table_without_topics_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, "name: p\nbronze:\n  orders: {format: kafka}\n")
    [found] = raised.value.mistakes
    assert (found.code, found.line) == ("missing-field", 3)
    assert "the field kafka" in found.message


def test_the_variable_of_a_secret_is_said(tmp_path: Path) -> None:
    found = mistake(tmp_path, "sasl.mechanism: PLAIN", "ssl.keystore.password: x")
    assert found.hint == "set SLUICEGATE_KAFKA_SSL_KEYSTORE_PASSWORD in the environment of the jobs"
