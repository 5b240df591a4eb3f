SELECT e.enroll_id, e.student_id, e.formatted_timestamp, c.course_id, c.discount_percent, c.subtotal
FROM STREAM(enrollments_silver) AS e LATERAL VIEW explode(e.courses) x AS c
