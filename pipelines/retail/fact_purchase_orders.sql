SELECT o.purchase_order_id, o.supplier_id, o.store_id, o.product_id, p.category, o.ordered_at, o.quantity, o.unit_cost
FROM STREAM(purchase_orders_landed) AS o
LEFT JOIN dim_products AS p USING (product_id)
