SELECT course_id, count(*) AS enrollments, round(sum(subtotal), 2) AS revenue
FROM enrolled_courses
GROUP BY course_id
