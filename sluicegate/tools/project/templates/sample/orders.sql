-- STREAM marks the table that is read record by record. A record with a value that does not cast goes to quarantine.
SELECT
  CAST(r.order_id AS BIGINT) AS order_id,
  CAST(r.ordered_at AS TIMESTAMP) AS ordered_at,
  r.customer,
  r.country,
  CAST(r.amount AS DECIMAL(10,2)) AS amount
FROM STREAM(orders_bronze) AS r
