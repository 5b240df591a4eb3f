-- STREAM marks the input that is read incrementally; the others are lookups.
-- `time` comes as seconds since 1970, and days are days in UTC.
SELECT r.device_id, r.mrn, p.name, CAST(r.time AS TIMESTAMP) AS time, r.heartrate
FROM STREAM(recordings_bronze) AS r
LEFT JOIN patients AS p USING (mrn)
