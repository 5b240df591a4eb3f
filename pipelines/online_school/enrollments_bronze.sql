-- All fields of the files, so that a new one becomes a column here, too; receipt_time has its name from the book.
SELECT * EXCEPT (receipt_time, _file_modification_time), receipt_time AS arrival_time
FROM STREAM(enrollments_updates)
