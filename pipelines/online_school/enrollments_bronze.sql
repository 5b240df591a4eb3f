SELECT enroll_id, student_id, enroll_timestamp, quantity, courses, receipt_time AS arrival_time, source_file
FROM STREAM(enrollments_updates)
