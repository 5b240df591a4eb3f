-- Readings of patients who are not registered (yet) are in silver, and not here.
SELECT patient_name, ceil(avg(heartrate)) AS avg_heartrate, count(*) AS count
FROM fact_heartbeat_silver
WHERE patient_name IS NOT NULL
GROUP BY patient_name
ORDER BY avg_heartrate DESC, patient_name
