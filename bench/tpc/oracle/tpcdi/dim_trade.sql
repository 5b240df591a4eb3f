FROM made
