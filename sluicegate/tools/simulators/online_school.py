"""Online school: students, courses and enrollments, in the shape that ``pipelines/online_school`` reads.

::

    {landing}/courses/courses.csv                  course_id;title;instructor;category;price; written once
    {landing}/students/students-000001.json        {student_id, email, gpa, profile, updated}; later ones have students
                                                   who are new, and some whose email or average changed
    {landing}/enrollments/enrollments-000001.json  {enroll_id, student_id, enroll_timestamp, quantity, courses}

Each file covers six hours. A late enrollment is one of a student whom only the next file describes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from sluicegate.tools.simulators import engine
from sluicegate.tools.simulators.engine import Faults, File, Kind, Landed, Order, Record

SPAN = 21_600.0
STUDENTS, NEW, UPDATED = 200, 4, 6
INVALID_SHARE = 0.004  # enrollments in no course

_FIRST = ("Ada", "Bruno", "Chloe", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kavya", "Liam")
_LAST = ("Okafor", "Lindqvist", "Moreau", "Tanaka", "Novak", "Silva", "Haddad", "Brandt", "Rossi", "Kowalski", "Iyer")
_PLACES = (("Lyon", "France"), ("Porto", "Portugal"), ("Oslo", "Norway"), ("Nairobi", "Kenya"), ("Quito", "Ecuador"))
COURSES = (
    ("C01", "Deep Learning for Natural Language", "Adam Eriksen", "Data Science", 35),
    ("C02", "Learning SQL by Heart", "Noor Haddad", "Databases", 24),
    ("C03", "Streaming from the Ground Up", "Noor Haddad", "Data Engineering", 49),
    ("C04", "Statistics without Tears", "Mei Tanaka", "Data Science", 20),
    ("C05", "Rust for the Impatient", "Luis Moreau", "Programming", 45),
    ("C06", "Python, Properly", "Luis Moreau", "Programming", 30),
    ("C07", "Tables that Remember", "Noor Haddad", "Data Engineering", 55),
    ("C08", "Drawing Data", "Mei Tanaka", "Visualisation", 28),
    ("C09", "Graphs and Networks", "Adam Eriksen", "Data Science", 39),
    ("C10", "Shell Tricks of Old Masters", "Pia Brandt", "Programming", 15),
    ("C11", "Privacy by Design", "Pia Brandt", "Law", 60),
    ("C12", "Queues and What They Teach", "Adam Eriksen", "Data Engineering", 33),
)


def _drift(enrollment: Record) -> None:
    if enrollment["quantity"] is not None:
        enrollment["quantity"] = str(enrollment["quantity"])
    enrollment["channel"] = "app"


# A late record is not modified here: it is one of a later student, and so made with the records.
LEADING = Kind("enrollments", "quantity", drift=_drift)
_STUDENTS = Kind("students")


def files(home: Path, number: int, order: Order) -> Iterable[File]:
    """Make the files with a number; the courses are written once."""
    courses = home / "courses" / "courses.csv"
    if not courses.exists():
        lines = [";".join(map(str, course)) for course in COURSES]
        engine.write(courses, "\n".join(["course_id;title;instructor;category;price", *lines]) + "\n")
    seed, records, late_share = order.seed, order.records, order.faults.late
    start = engine.begin_of(home / _STUDENTS.path(1), number, order) + SPAN * (number - 1)
    updated = datetime.fromtimestamp(start, UTC).isoformat()
    numbers = engine.described_numbers(STUDENTS, NEW, UPDATED, number, engine.dice(seed, "changed", number))
    students = [_student(n, number, seed, updated) for n in numbers]
    yield _STUDENTS.file(number, students, Faults(), engine.dice(seed), Landed("", len(students)))
    lot = engine.dice(seed, "enrollments", number)
    moments = engine.times(start, SPAN, records, lot)
    late = set(lot.sample(range(records), engine.record_count(late_share, records, lot)) if late_share else ())
    enrollments = [_enrollment(number, n, moment, n in late, lot) for n, moment in enumerate(moments)]
    invalid = sum(record["quantity"] == 0 for record in enrollments)
    facts = engine.landed_facts(moments, invalid=invalid, late=len(late))
    yield LEADING.file(number, enrollments, order.faults, engine.dice(seed, "faults", number), facts)


def student_count(number: int) -> int:
    """Return the number of students known by the file with a number."""
    return STUDENTS + NEW * (number - 1)


def _student(n: int, number: int, seed: int | None, updated: str) -> Record:
    """Make a student as in the file with a number: email and average may change, name and address do not."""
    who, of_file = engine.dice(seed, "student", n), engine.dice(seed, "student", n, number)
    first, last = who.choice(_FIRST), who.choice(_LAST)
    city, country = who.choice(_PLACES)
    address = {"street": f"{who.randint(1, 99)} Mill Lane", "city": city, "country": country}
    profile = {"first_name": first, "last_name": last, "gender": who.choice(["Female", "Male"]), "address": address}
    email = f"{first}.{last}{n}@{of_file.choice(['mail', 'post', 'letters'])}.example".lower()
    return {
        "student_id": f"S{n:05d}", "email": None if of_file.random() < 0.1 else email,
        "gpa": round(2 + 2 * of_file.random(), 2), "profile": json.dumps(profile), "updated": updated,
    }  # fmt: skip


def _enrollment(number: int, n: int, moment: float, late: bool, lot: random.Random) -> Record:
    if late:
        student = lot.randint(student_count(number) + 1, student_count(number + 1))
    else:
        student = lot.randint(1, student_count(number))
    quantity = 0 if lot.random() < INVALID_SHARE else lot.choice([1, 1, 1, 2, 2, 3])
    return {
        "enroll_id": f"{number:06d}{n:06d}", "student_id": f"S{student:05d}", "enroll_timestamp": int(moment),
        "quantity": quantity,
        "courses": [_course(course[0], course[4], lot) for course in lot.sample(COURSES, quantity)],
    }  # fmt: skip


def _course(course_id: str, price: int, lot: random.Random) -> Record:
    percent = lot.choice([0, 0, 0, 10, 25])
    return {"course_id": course_id, "discount_percent": percent, "subtotal": round(price * (100 - percent) / 100, 2)}
