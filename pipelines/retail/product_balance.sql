-- Three facts beside one dimension: each is summed up by product first, so that no row is counted twice.
WITH sold AS (
  SELECT product_id, sum(quantity) AS sold, sum(quantity * unit_price) AS revenue FROM fact_orders GROUP BY product_id
), bought AS (
  SELECT product_id, sum(quantity) AS bought, sum(quantity * unit_cost) AS spent
  FROM fact_purchase_orders GROUP BY product_id
), moved AS (
  SELECT product_id, sum(quantity) AS net_movement FROM fact_inventory_movements GROUP BY product_id
)
SELECT p.product_id, p.name, p.category,
  coalesce(s.sold, 0) AS sold, coalesce(b.bought, 0) AS bought, coalesce(m.net_movement, 0) AS net_movement,
  round(coalesce(s.revenue, 0) - coalesce(b.spent, 0), 2) AS margin
FROM dim_products AS p
LEFT JOIN sold AS s ON p.product_id = s.product_id
LEFT JOIN bought AS b ON p.product_id = b.product_id
LEFT JOIN moved AS m ON p.product_id = m.product_id
