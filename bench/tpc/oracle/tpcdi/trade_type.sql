SELECT tt_id, tt_name, CAST(tt_is_sell AS INT) AS tt_is_sell, CAST(tt_is_mrkt AS INT) AS tt_is_mrkt FROM trade_type
