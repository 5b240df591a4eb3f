-- One row for each patient and day.
SELECT mrn, name, avg(heartrate) AS avg_heartrate, date_trunc('DD', time) AS date
FROM recordings_enriched
GROUP BY mrn, name, date_trunc('DD', time)
