SELECT CAST(sk_time_id AS INT) AS sk_time_id, time_value, CAST(hour_id AS INT) AS hour_id, hour_desc,
  CAST(minute_id AS INT) AS minute_id, minute_desc, CAST(market_hours_flag AS INT) AS market_hours_flag,
  CAST(office_hours_flag AS INT) AS office_hours_flag
FROM piped('time')
