FROM industry
