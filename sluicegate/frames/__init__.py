"""Operations on DataFrames that the layers share."""
