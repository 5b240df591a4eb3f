"""Files of a new pipeline: pipeline.yaml, a query for each silver table and one for gold, all with comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sluicegate.console import inflect, quantity
from sluicegate.spark_sql.identifiers import literal
from sluicegate.tools.scaffold import suggest
from sluicegate.tools.scaffold.column import NewColumn
from sluicegate.tools.scaffold.naming import comment_text, ident, scalar
from sluicegate.tools.scaffold.prove_keys import KeyProof
from sluicegate.tools.scaffold.table import NewTable, inner_numbers

SCHEMA = "# yaml-language-server: $schema=../../docs/pipeline.schema.json"

_WIDTH = 110


def files(pipeline: str, tables: Sequence[NewTable]) -> dict[str, str]:
    """Texts of a pipeline's files by name.

    Args:
        pipeline: its name.
        tables: its tables; gold aggregates the main one.
    """
    of = main_table(tables)
    texts = {f"{table.name}.sql": silver(table) for table in tables}
    texts[f"{gold_name(of)}.sql"] = gold(of)
    return {"pipeline.yaml": definition(pipeline, tables), **texts}


def main_table(tables: Sequence[NewTable]) -> NewTable:
    """Table that gold aggregates: one with an event time before others, then the one with the most rows."""
    return max(tables, key=lambda table: (table.guess.event_time is not None, table.rows))


def gold_name(table: NewTable) -> str:
    """Name of the gold table that aggregates a silver one."""
    if table.guess.event_time:
        return f"{table.name}_by_day"
    column = suggest.group_column(table.columns, table.guess)
    if column and _is_plain(column.name):
        return f"{table.name}_by_{column.name.lower()}"
    return f"{table.name}_totals"


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not name.lower().endswith(("_quarantine", "_deidentified"))


# --- pipeline.yaml ---------------------------------------------------------------------------------------------------


def definition(pipeline: str, tables: Sequence[NewTable]) -> str:
    """Text of pipeline.yaml."""
    lines = [
        SCHEMA,
        "# Made by `sluicegate new` from the rows of files. What it says is yours to change: what is a",
        f"# guess is called so. `sluicegate plan {pipeline}` tells every mistake at once.",
        f"name: {scalar(pipeline)}",
        '# schedule: "0 * * * *"  # for Airflow: each hour; without it, runs start by hand',
        "",
        "# Bronze keeps each value as its text in the files; silver gives it its type, and quarantines a record with a",
        "# value that does not fit, unless it keeps the text. Columns have normalized names: us_gross for US Gross.",
        "bronze:",
    ]
    for table in tables:
        lines += _bronze(pipeline, table)
    lines += ["", "silver:"]
    for table in tables:
        lines += _silver(table)
    of = gold_name(main_table(tables))
    lines += ["", "gold:", f"  {of}: {{sql: {of}.sql}}", ""]
    return "\n".join(lines)


def _bronze(pipeline: str, table: NewTable) -> Iterator[str]:
    first = table.samples[0]
    yield f"  {table.bronze}:"
    yield f"    path: ${{landing}}/{pipeline}/{table.name}"
    yield f"    format: {first.format}"
    for guessed in dict.fromkeys(text for sample in table.samples for text in sample.guessed):
        yield f"    # a guess: {comment_text(guessed, 300)}"
    if first.options:
        inner = ", ".join(f"{name}: {_option(value)}" for name, value in first.options.items())
        yield f"    options: {{{inner}}}"
    if first.records:
        yield f"    records: {scalar(first.records)}"
    hints = [] if first.format == "parquet" else _hints(table)
    if hints:
        yield from _folded("    schemaHints", ",", hints)
    yield "    columnNames: normalized"
    yield from _fields_without_column(table)


def _fields_without_column(table: NewTable) -> Iterator[str]:
    """Comments on fields that have no column in bronze, or none in silver."""
    rescued = [comment_text(column.field) for column in table.columns if not table.bronze_column(column)]
    if rescued:
        yield "    # Other fields have the columns of these names, so they are in _rescued_data, and silver finds them:"
        yield from (f"    # - {name}" for name in rescued)
    if table.unusable_fields:
        yield "    # Left out of silver, for their names cannot be written in SQL or stand there more than twice:"
        yield from (f"    # - {comment_text(name)}" for name in table.unusable_fields)


def _folded(name: str, separator: str, parts: Sequence[str]) -> Iterator[str]:
    """Text of a definition, with its parts in a line of their own where one line is too long for them."""
    text = scalar(f"{separator} ".join(parts))
    if len(name) + len(text) < _WIDTH:
        yield f"{name}: {text}"
        return
    indent = " " * (len(name) - len(name.lstrip()) + 2)
    yield f"{name}: >-"
    yield from (f"{indent}{part}{separator}" for part in parts[:-1])
    yield f"{indent}{parts[-1]}"


def _option(value: str) -> str:
    if value in ("true", "false") or value.isdigit():
        return value
    return scalar(value)


def _hints(table: NewTable) -> list[str]:
    hints = []
    for column in table.columns:
        if not (bronze_name := table.bronze_column(column)):
            continue
        if column.inferred_type.kind != "NESTED":
            hints.append(f"{ident(bronze_name)} STRING")
            continue
        for path, kind in inner_numbers(column, table.samples).items():
            hints.append(f"{'.'.join(ident(name) for name in (bronze_name, *path))} {kind}")
    return hints


def _silver(table: NewTable) -> Iterator[str]:
    guess = table.guess
    yield f"  {table.name}:"
    yield f"    sql: {table.name}.sql"
    for names, reason in guess.no_keys.items():
        yield f"    # keys: [{comment_text(', '.join(scalar(name) for name in names))}]  # {comment_text(reason, 300)}"
    if guess.proof:
        yield from _proof_comments(table, guess.proof)
        yield f"    keys: [{', '.join(scalar(key) for key in guess.keys)}]"
        if guess.sequence_by:
            yield "    # a guess by name: of records with the same keys the one with the greatest value is kept"
            yield f"    sequence_by: {scalar(guess.sequence_by)}"
        else:
            yield "    # The first record to arrive is kept. For that of the newest file:"
            yield "    # sequence_by: _file_modification_time"
    else:
        seems = "nothing seems to name a row"
        if guess.no_keys:
            seems = "nothing is certain to name a row"
        yield f"    # No keys: {seems} ({quantity(table.rows, 'row')} read). Each record is a row."
    if guess.event_time:
        yield "    # a guess: when it happened, a time that nearly all rows have; a record without one is quarantined"
        yield f"    event_time: {scalar(guess.event_time)}"
    yield from _rules(table)
    if personal := _personal_columns(table):
        yield "    # a guess by names and values: personal data, of which no report shows a value"
        yield f"    pii: [{', '.join(scalar(name) for name in personal)}]"


def _personal_columns(table: NewTable) -> list[str]:
    """Columns with personal data, and the texts of values that do not fit, of which only the first one is known."""
    return [*table.guess.pii, *_text_columns(table)]


def _text_columns(table: NewTable) -> list[str]:
    return [text for column in table.columns if (text := table.text_column(column))]


def _proof_comments(table: NewTable, proof: KeyProof) -> Iterator[str]:
    """Comments on keys: what proves them, and which rows of these files are not kept for them."""
    by = ""
    if table.guess.by_name:
        by = "by name, and "
    unique = f"unique in all {proof.rows:,} rows of these files"
    if proof.near:
        unique = f"the same in no two different ones of all {proof.rows:,} rows of these files"
    yield f"    # a guess: {by}{unique}. Of records with the same"
    yield "    # keys one is kept, the others are set aside: take keys away if two records may have the same."
    if proof.surplus:
        copies = f"{quantity(proof.surplus, 'record')} {inflect(proof.surplus, 'is a copy', 'are copies')}"
        yield f"    # {copies} of an earlier one, equal in each column: set aside and counted."
        yield f"    # The first is {comment_text(proof.place)}."
    if proof.unfit:
        have = inflect(proof.unfit, "has", "have")
        yield f"    # {quantity(proof.unfit, 'record')} {have} a value there that does not fit its type: quarantined."


def _rules(table: NewTable) -> Iterator[str]:
    rules = [
        f"{_plain_name(name, f'amount_{number}')}_not_negative: {{expect: {scalar(f'{ident(name)} >= 0')}}}"
        for number, name in enumerate(table.guess.positive, 1)
    ]
    text_columns = _text_columns(table)
    # In a file with types a row of nothing but NULL is data; in one of text it may be what could not be read. Without
    # a key or an event time it is quarantined anyway.
    is_named = table.guess.keys or table.guess.event_time
    if not is_named and table.samples[0].format != "parquet":
        yield "    expectations:"
        yield "      # of a record that cannot be read no column has a value"
        yield "      some_value:"
        values = [f"{ident(name)} IS NOT NULL" for name in (*(c.name for c in table.columns), *text_columns)]
        yield from _folded("        expect_or_quarantine", " OR", values)
    elif rules or text_columns:
        yield "    expectations:"
    if text_columns:
        yield "      # a record is kept without a value that does not fit, whose text is in the column beside it"
        yield from (
            f"      no_{_plain_name(name, f'text_{number}')}: {{expect: {scalar(f'{ident(name)} IS NULL')}}}"
            for number, name in enumerate(text_columns, 1)
        )
    if rules:
        yield "      # a guess: it holds in the first rows; a row that breaks it is kept, and counted in the report"
        yield from (f"      {rule}" for rule in rules)


def _plain_name(name: str, other: str) -> str:
    if _is_plain(name):
        return name.lower()
    return other


# --- SQL -------------------------------------------------------------------------------------------------------------


def silver(table: NewTable) -> str:
    """Query of a silver table."""
    lines = [
        f"-- What a record of {table.bronze} becomes, by the types of {quantity(table.rows, 'row')}. STREAM marks the",
        "-- table that is read record by record. A value that does not cast is NULL with TRY, and without it in",
        f"-- {table.name}_quarantine.",
        "SELECT",
    ]
    last = table.columns[-1]
    for column in table.columns:
        guess = ""
        if column.inferred_type.is_guess:
            guess = "a guess: "
        remark = ""
        if column.inferred_type.remark:
            remark = f"  -- {guess}{column.inferred_type.remark}"
        lines += _misfits(table, column)
        *others, expression = _expressions(table, column)
        lines += [f"  {other}," for other in others]
        lines.append(f"  {expression}{'' if column is last else ','}{remark}")
    return "\n".join([*lines, f"FROM STREAM({table.bronze}) AS r", ""])


def _misfits(table: NewTable, column: NewColumn) -> Iterator[str]:
    """Comments on a type that nearly all values have: how many do not, what becomes of them, and how to change that."""
    if (misfits := column.inferred_type.misfits) is None:
        return
    single = misfits.count == 1
    fault = (
        f"  -- a guess: {misfits.count:,} of {misfits.among:,} values {'is' if single else 'are'} no"
        f" {column.inferred_type.kind}, as in {comment_text(misfits.place)}"
    )
    if text_column := table.text_column(column):
        yield f"{fault}: NULL, with the text in {comment_text(text_column)}. Without TRY its record is quarantined."
    else:
        yield f"{fault}; as text: {_alias_value(column, _bronze_value(table, column))},"


def _expressions(table: NewTable, column: NewColumn) -> list[str]:
    """What silver selects for a column: its value, after the text of one that does not fit if its record is kept."""
    text = _bronze_value(table, column)
    if column.inferred_type.is_trimmed:
        text = f"trim({text})"
    for word in column.inferred_type.nothing:
        text = f"nullif({text}, {literal(word)})"
    if table.samples[0].format == "parquet":
        return [_alias_value(column, text)]
    pattern = column.inferred_type.pattern
    if not (text_column := table.text_column(column)):
        return [_alias_value(column, pattern.replace("{}", text, 1))]
    pattern = re.sub(r"\bto_(date|timestamp)\(", r"try_to_\1(", pattern.replace("CAST(", "TRY_CAST("))
    value = pattern.replace("{}", text, 1)
    return [f"IF({value} IS NULL, {text}, NULL) AS {ident(text_column)}", _alias_value(column, value)]


def _bronze_value(table: NewTable, column: NewColumn) -> str:
    """Value of a column as bronze holds it."""
    if bronze_name := table.bronze_column(column):
        return f"r.{ident(bronze_name)}"
    return f"from_json(r._rescued_data, 'MAP<STRING, STRING>')[{literal(table.rescued_field(column))}]"


def _alias_value(column: NewColumn, value: str) -> str:
    if value == f"r.{ident(column.name)}":
        return value
    return f"{value} AS {ident(column.name)}"


def gold(table: NewTable) -> str:
    """Query of a gold table, which can be maintained incrementally."""
    guess = table.guess
    outputs: list[str] = []
    group = ""
    about = "all there is"
    if guess.event_time:
        column = next(column for column in table.columns if column.name == guess.event_time)
        group = ident(column.name)
        if column.inferred_type.kind != "DATE":
            group = f"date_trunc('DD', {group})"
        outputs, about = [f"{group} AS day"], "each day (UTC)"
    elif by := suggest.group_column(table.columns, guess):
        group, about = ident(by.name), f"each {comment_text(by.name)}"
        outputs = [group]
    outputs.append("count(*) AS records")
    taken = {"day", "records", group.strip("`").lower()}
    for function, column in _summary_measures(table):
        name = f"{function}_{column.name}"
        if name.lower() not in taken:
            taken.add(name.lower())
            outputs.append(f"{function}({ident(column.name)}) AS {ident(name)}")
    text = [f"-- A row for {about}: a first idea of what to sum up. It is kept up to date by what changes.", "SELECT"]
    text += [f"  {output}{',' if number < len(outputs) else ''}" for number, output in enumerate(outputs, 1)]
    text.append(f"FROM {ident(table.name)}")
    return "\n".join([*text, *([f"GROUP BY {group}"] if group else []), ""])


def _summary_measures(table: NewTable) -> list[tuple[str, NewColumn]]:
    measures = [
        column for column in table.columns if suggest.is_measure(column) and column.name not in table.guess.keys
    ]
    sums = [("sum", column) for column in measures if suggest.is_summed(column)][:3]
    return sums + [("avg", column) for column in measures if not suggest.is_summed(column)][:2]
