SELECT m.movement_id, m.store_id, m.product_id, p.category, m.moved_at, m.quantity, m.reason
FROM STREAM(inventory_movements_landed) AS m
LEFT JOIN dim_products AS p USING (product_id)
