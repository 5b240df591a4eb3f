-- Everything that a device sent, valid or not.
SELECT device_id, count(*) AS total_recordings
FROM recordings_bronze
GROUP BY device_id
