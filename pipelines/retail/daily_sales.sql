-- A fact with two of its dimensions, kept up to date by what changed in any of them.
SELECT s.region, p.category, date_trunc('DD', o.ordered_at) AS day,
  count(*) AS orders, sum(o.quantity) AS sold, sum(o.quantity * o.unit_price) AS revenue
FROM fact_orders AS o
JOIN dim_products AS p ON o.product_id = p.product_id
JOIN dim_stores AS s ON o.store_id = s.store_id
GROUP BY s.region, p.category, date_trunc('DD', o.ordered_at)
