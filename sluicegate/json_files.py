"""How JSON files are read so that nothing in them is lost, and fast where each line is one record.

Spark's JSON reader leaves out in silence what stands behind the first value of a line or of a multi-line file, empty
objects and fields without a name, and takes a truncated multi-line array for one record. So files are looked over
before they are read, in the same pass that finds their fields, and are read in one of the ways of ``Group.way``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import fsspec

from sluicegate.data_types import UNNAMED, unnamed
from sluicegate.errors import SourceError, Where
from sluicegate.lake import canonical
from sluicegate.values import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

# Under these names Spark gives a corrupt record's text, and a line's file: a field may be called as theirs usually are.
CORRUPT_AS, ABOUT = "_sluicegate_corrupt_record", "_sluicegate_metadata"

# In the text that fields are looked for in: the one field of a line that is not one record.
ODD = "_sluicegate_odd"

# A line of JSON that goes on behind its first value. Outside of strings a bracket that closes is followed by another or
# by a comma; only lines where it looks otherwise, or like two objects, are parsed to know: as one element of an array.
MORE = (
    r"(value RLIKE '[}\\]]\\s*[^,}\\]\\s]' OR value RLIKE '\\}\\s*,\\s*\\{') AND NOT size(from_json("
    r"concat('[', regexp_replace(value, ',\\s*$', ''), ']'), 'array<string>')) <=> 1"
)

# A line whose first } is its last sign, as that of an object without another inside: nothing stands behind it. This
# costs a tenth of the other look, and is all that most lines need.
FLAT = "octet_length(substring_index(value, '}', 1)) = octet_length(value) - 1"
ARRAY = "startswith(ltrim(value), '[')"
NOT_ONE = f"NOT ({FLAT}) AND ({ARRAY} OR {MORE})"

# The text with a name for each field that has none: in JSON, "" before a colon can be nothing else.
NAMED = f"""if(contains(value, '""'), regexp_replace(value, '""\\\\s*:', '"{UNNAMED}":'), value)"""

# As fields are looked for in it: Spark leaves out an object without fields, but not a field that is null.
NOT_EMPTY = r"regexp_replace(value, '\\{\\s*\\}', 'null')"
SHOWN = f"if({FLAT}, value, {NOT_EMPTY})"

# The same of whole files: signs that it is worth the while to parse them, or to read them by their text.
MORE_BYTES = re.compile(rb"[}\]]\s*[^,}\]\s]")
SPECIAL_BYTES = re.compile(rb'\{\s*\}|""\s*:')
UNNAMED_BYTES = re.compile(rb'""\s*:')

# Characters that make Hadoop take a path for a pattern.
GLOB = frozenset("{}[]*?\\")
PATTERN = GLOB | {","}

Way = Literal["native", "lines", "elements", "variant"]


@dataclass(frozen=True)
class Group:
    """Files that are read together.

    Attributes:
        fields: the fields that they have, those of JSON with the types of their values.
        paths: the files.
        way: ``native``: by Spark's reader for the format; ``lines``: each text by itself; ``elements``: what is whole
            of damaged arrays, one by one; ``variant``: each record as one VARIANT.
        whole: whether a text of the ways ``lines`` and ``variant`` is a whole file.
    """

    fields: list[StructField]
    paths: list[str]
    way: Way = "native"
    whole: bool = False


@dataclass(frozen=True)
class JsonFiles:
    """Looks over JSON files, and reads what Spark's own reader would lose some of.

    Attributes:
        session: the Spark session.
        table: the table's name, for messages.
        options: the reader's options, as the definition has them.
        damaged: files that are not whole, and why; filled in by ``documents``.
    """

    session: SparkSession
    table: str
    options: Mapping[str, str]
    damaged: dict[str, str]

    def lines(self, paths: Sequence[str]) -> Iterator[Group]:
        """Files of one record a line: their fields, and how to read them; one job, nearly always."""
        texts = self._texts(paths, whole=False)
        # Whether a line is flat is asked once: written into both conditions, it would be computed in both.
        flat = texts.selectExpr("value", f"{FLAT} AS flat")
        many = f"NOT flat AND ({ARRAY} OR {MORE})"
        shown = f"if({many}, '{{\"{ODD}\":0}}', if(flat, value, {NOT_EMPTY}))"
        found = self._fields(flat.selectExpr(f"{shown} AS value"))
        names = {field.name for field in found}
        if ODD not in names and UNNAMED not in names:
            yield Group(found, list(paths))
            return
        # Of all together: a column's type is that of all its values in the chunk, however its files are grouped.
        fields = self._fields(texts.where(f"NOT ({MORE})").selectExpr(f"{SHOWN} AS value"))
        special = texts.where(f"({NOT_ONE}) OR value RLIKE '\"\"\\\\s*:'").select("_metadata.file_path").distinct()
        odd = {canonical(row[0]) for row in special.collect()}
        plain = [path for path in paths if path not in odd]
        if plain:
            yield Group(fields, plain)
        yield Group(fields, [path for path in paths if path in odd], "lines")

    def all_flat(self, paths: Sequence[str]) -> bool:
        """Whether each line is at most one record, so that Spark's own reader leaves none out."""
        return self._texts(paths, whole=False).where(NOT_ONE).isEmpty()

    def documents(self, paths: Sequence[str]) -> Iterator[Group]:
        """Files of one value each: whole ones, those with names that Spark cannot read, and damaged arrays.

        Raises:
            SourceError: a file cannot be read, or has more than one value.
        """
        plain: list[str] = []
        special: list[str] = []
        unnamed: list[str] = []
        damaged: list[str] = []
        for path in paths:
            data = self._read(path)
            why = self._damage(path, data)
            if why is not None:
                self.damaged[path] = why
            # Spark would take some file names for patterns a second time, and find nothing.
            odd = SPECIAL_BYTES.search(data) or PATTERN & set(path)
            way = damaged if why else unnamed if UNNAMED_BYTES.search(data) else special if odd else plain
            way.append(path)
        if plain or special:
            # Of all together, as above.
            if special:
                fields = self._fields(self._texts([*plain, *special], whole=True).selectExpr(f"{SHOWN} AS value"))
            else:
                reader = self.session.read.options(**{**self.options, **self._how})
                fields = self._without_ours(reader.json([escape_glob(path) for path in plain]).schema)
            yield Group(fields, [*plain, *special])
        if unnamed:
            texts = self._texts(unnamed, whole=True).selectExpr(f"{SHOWN} AS value")
            yield Group(self._fields(texts), unnamed, "lines", whole=True)
        if damaged:
            yield Group(self._fields(self._elements(damaged).where("sound")), damaged, "elements")

    def texts(self, group: Group) -> DataFrame:
        """The texts of a group's records: ``value``, ``sound`` (whether it is one JSON value), and their file."""
        if group.way == "elements":
            return self._elements(group.paths)
        texts = self._texts(group.paths, whole=group.whole)
        sound = "true" if group.whole else f"NOT ({MORE})"
        return texts.where("trim(value) != ''").selectExpr("value", f"{sound} AS sound", f"_metadata AS {ABOUT}")

    def parsed(self, group: Group, schema: StructType) -> DataFrame:
        """The records of a group's texts, read with a schema that ends with the field of the corrupt record."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType

        options = {**self.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_AS}
        texts = self.texts(group).withColumn("named", F.expr(NAMED))
        one = F.array(F.from_json("named", schema, options))
        parsed = F.when(F.expr(ARRAY), F.from_json("named", ArrayType(schema), options)).otherwise(one)
        both = texts.select(F.when(F.col("sound"), parsed).alias("all"), "value", ABOUT)
        each = both.where("all IS NULL OR size(all) > 0").select(F.explode_outer("all").alias("j"), "value", ABOUT)
        fields = [_named_back(F.col("j").getField(f.name), f) for f in schema if f.name != CORRUPT_AS]
        # The text as it stands in the file, not as it was given to the parser.
        corrupt = f"if(j IS NULL OR j.{CORRUPT_AS} IS NOT NULL, value, NULL)"
        return each.select(*fields, F.expr(corrupt).alias(CORRUPT_AS), ABOUT)

    def variants(self, group: Group, name: str) -> DataFrame:
        """Each line, or each file, as one VARIANT in the column ``name``."""
        texts = self._texts(group.paths, whole=group.whole).where("trim(value) != ''")
        sound = f"if(NOT ({FLAT}) AND {MORE}, NULL, try_parse_json(value))"
        both = texts.selectExpr(f"{sound} AS v", "value", f"_metadata AS {ABOUT}")
        return both.selectExpr(f"v AS {quoted(name)}", f"if(v IS NULL, value, NULL) AS {CORRUPT_AS}", ABOUT)

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def _how(self) -> dict[str, str]:
        return {"columnNameOfCorruptRecord": CORRUPT_AS}

    def _texts(self, paths: Sequence[str], *, whole: bool) -> DataFrame:
        reader = self.session.read.options(**{**self.options, "wholetext": str(whole).lower()})
        return reader.format("text").load([escape_glob(path) for path in paths])

    def _fields(self, texts: DataFrame) -> list[StructField]:
        """The fields that occur anywhere in some texts."""
        named = texts.selectExpr(f"{NAMED} AS value")
        return self._without_ours(self.session.read.options(**{**self.options, **self._how}).json(named).schema)

    @staticmethod
    def _without_ours(found: StructType) -> list[StructField]:
        """The fields as they are in the files; a column needs a name, so one without keeps that which we gave it."""
        from pyspark.sql.types import StructField

        return [StructField(field.name, unnamed(field.dataType)) for field in found if field.name != CORRUPT_AS]

    def _read(self, path: str) -> bytes:
        try:
            with fsspec.open(path, "rb", compression="infer") as file:
                return bytes(file.read())
        except (OSError, EOFError, ValueError) as error:
            raise SourceError(
                f"a JSON file cannot be read: {path}",
                where=Where(table=self.table, file=path),
                cause=f"{type(error).__name__}: {error}",
                hint="land a whole file under this name again, then run again",
            ) from error

    def _damage(self, path: str, data: bytes) -> str | None:
        """What is wrong with a file, if it is an array of which some elements are whole and the rest is not JSON.

        Raises:
            SourceError: it goes on behind its first value: Spark would leave that out without a word.
        """
        unbalanced = any(data.count(a) != data.count(b) for a, b in ((b"[", b"]"), (b"{", b"}")))
        if not unbalanced and not MORE_BYTES.search(data):
            return None
        encoding = json.detect_encoding(data)
        try:
            text = data.decode(encoding).lstrip("\ufeff")
        except ValueError:
            return None
        if _goes_on(text):
            raise SourceError(
                f"{path} has more than one JSON value",
                where=Where(table=self.table, file=path),
                cause="it goes on behind its first JSON value, and with multiLine a file is one value",
                hint="take multiLine away if each line is a record, or land the records as one array",
            )
        parts = elements(text)
        if len(parts) < 2 or parts[-1][1] or not encoding.startswith("utf-8"):
            return None
        lines = text[: len(text) - len(parts[-1][0])].count("\n") + 1
        return f"a damaged array: its first {len(parts) - 1} elements are in, the text from line {lines} on is not JSON"

    def _elements(self, paths: Sequence[str]) -> DataFrame:
        from pyspark import cloudpickle
        from pyspark.sql import functions as F

        import sluicegate.json_files as here

        # Executors need not have this package, nor Arrow.
        cloudpickle.register_pickle_by_value(here)  # type: ignore[no-untyped-call]
        try:
            # Spark would take the hints of a function's types for those of a pandas one, and warn.
            split = F.udf(lambda text: elements(text), "array<struct<value: string, sound: boolean>>", useArrow=False)
            texts = self._texts(paths, whole=True).select("value", F.col("_metadata").alias(ABOUT))
            each = texts.select(F.explode(split("value")).alias("element"), ABOUT)
            return each.select("element.value", "element.sound", ABOUT).where("sound OR trim(value) != ''")
        finally:
            cloudpickle.unregister_pickle_by_value(here)  # type: ignore[no-untyped-call]


def elements(text: str) -> list[tuple[str, bool]]:
    """The elements of an array whose text is damaged: each complete one, and at last the rest with False.

    A text that is no array, or is whole, is such a rest, or has none.
    """
    blank, decoder = re.compile(r"[\s\ufeff]*"), json.JSONDecoder()

    def skip(at: int) -> int:
        found = blank.match(text, at)
        return found.end() if found else at

    at = start = skip(0)
    found: list[tuple[str, bool]] = []
    if text[start : start + 1] == "[":
        at = skip(start + 1)
        while text[at : at + 1] != "]":
            try:
                _, end = decoder.raw_decode(text, at)
            except ValueError:
                break
            after = skip(end)
            closed = text[after : after + 1]
            # At the end of the text a number may have lost digits; what ends with a sign of its own is complete.
            if closed not in (",", "]") and not (closed == "" and text[end - 1] in '}]"'):
                break
            found.append((text[at:end], True))
            at = skip(after + 1) if closed == "," else after
            if closed == "":
                break
    return found if text[at:].strip() == "]" and found else [*found, (text[at:], False)]


def _goes_on(text: str) -> bool:
    """Whether JSON text has more than blanks behind its first value; not if even that cannot be read."""
    try:
        text = text.lstrip()
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return False
    return bool(text[end:].strip())


def _named_back(value: Expression, field: StructField) -> Expression:
    """A value as it is in the files: a text without the name that we gave to a field inside that has none."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    text = isinstance(field.dataType, StringType)
    return (F.replace(value, F.lit(UNNAMED), F.lit("")) if text else value).alias(field.name)


def escape_glob(path: str) -> str:
    """A path that Hadoop takes literally: landed files may have any name."""
    return "".join(f"\\{char}" if char in GLOB else char for char in path)
