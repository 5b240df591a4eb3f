SELECT o.order_id, o.customer_id, o.store_id, o.product_id, p.category, o.ordered_at, o.quantity, o.unit_price
FROM STREAM(orders_landed) AS o
LEFT JOIN dim_products AS p USING (product_id)
