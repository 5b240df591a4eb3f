SELECT CAST(sk_date_id AS INT) AS sk_date_id, CAST(date_value AS DATE) AS date_value, date_desc,
  CAST(calendar_year_id AS INT) AS calendar_year_id, CAST(calendar_qtr_id AS INT) AS calendar_qtr_id, calendar_qtr_desc,
  CAST(calendar_month_id AS INT) AS calendar_month_id, calendar_month_desc,
  CAST(day_of_week_num AS INT) AS day_of_week_num, day_of_week_desc, CAST(holiday_flag AS INT) AS holiday_flag
FROM piped('date')
