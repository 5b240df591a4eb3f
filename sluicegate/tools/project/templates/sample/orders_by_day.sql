SELECT
  date_trunc('DD', ordered_at) AS day,
  count(*) AS orders,
  sum(amount) AS amount
FROM orders
GROUP BY date_trunc('DD', ordered_at)
