SELECT student_id, email, date_trunc('DD', formatted_timestamp) AS day, sum(quantity) AS courses_counts
FROM enrollments_silver
GROUP BY student_id, email, date_trunc('DD', formatted_timestamp)
