-- `time` comes as seconds since 1970.
SELECT f.device_id, f.mrn, CAST(f.time AS TIMESTAMP) AS datetime, f.heartrate, p.name AS patient_name
FROM STREAM(fact_heartbeat_bronze) AS f
LEFT JOIN dim_patients AS p USING (mrn)
