SELECT instructor, count(course_id) AS total_courses
FROM courses
GROUP BY instructor
