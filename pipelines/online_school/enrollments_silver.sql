-- An unknown student has no row to take student_id from, so that it is NULL then.
SELECT e.enroll_id, CAST(e.quantity AS BIGINT) AS quantity, s.student_id, s.email,
  timestamp_seconds(CAST(e.enroll_timestamp AS BIGINT)) AS formatted_timestamp, e.courses
FROM STREAM(enrollments_bronze) AS e
LEFT JOIN students_lookup AS s ON e.student_id = s.student_id
